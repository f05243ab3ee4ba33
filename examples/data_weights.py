"""Data weights of a regression: how much each data source should count in training.

This is a bilevel problem without a language model. The inner learner is weighted least squares.
The outer loss is the squared error on validation data. ``python examples/data_weights.py`` prints
ArviZ's summary and draws the posterior in a triangle, ``data_weights.png``.
"""

from __future__ import annotations

import arviz
import pyro
import torch
from pyro.infer import SVI
from torch import Tensor

from bydore_pyro import FreeConcentrations, HypergradientELBO, MixtureGuide, mixture_model
from bydore_pyro.answer import plot_triangle

SOURCES = ["northern", "eastern", "southern"]
TEMPERATURE = 0.02  # lam, in the unit of the outer loss: squared error

pyro.set_rng_seed(0)
pyro.clear_param_store()
slopes = torch.tensor([[1.0, -1.0], [0.0, 2.0], [-3.0, 0.5]])  # (K, D), one a source
x = torch.randn(3, 200, 2)
y = (x @ slopes.unsqueeze(-1)).squeeze(-1) + 0.3 * torch.randn(3, 200)
# What is wanted is between the first two sources.
x_outer = torch.randn(500, 2)
y_outer = x_outer @ torch.tensor([0.6, 0.2]) + 0.3 * torch.randn(500)
gram = x.mT @ x / 200  # (K, D, D)
moment = (x.mT @ y.unsqueeze(-1)).squeeze(-1) / 200  # (K, D)


def outer_loss(weights: Tensor) -> Tensor:
    """Returns the squared error on validation data ``(...)`` after training with ``(..., K)``."""
    left = torch.einsum("...k,kij->...ij", weights, gram)
    theta = torch.linalg.solve(left, weights @ moment)  # the inner learner
    return (y_outer - theta @ x_outer.T).square().mean(-1)


guide = MixtureGuide(FreeConcentrations(3))
optimizer = pyro.optim.ClippedAdam({"lr": 0.1, "lrd": 0.98})
svi = SVI(mixture_model, guide, optimizer, HypergradientELBO())
for _ in range(200):
    mean = guide.posterior().mean.detach()
    g = -torch.func.grad(outer_loss)(mean)  # > 0 where more of a source lowers the outer loss
    svi.step(None, g, TEMPERATURE)  # the network needs no signals: there is one problem
print(guide.posterior().mean)


def exact_mean(draws: int = 100_000) -> Tensor:
    """Returns the mean of ``exp(-outer_loss / lam)`` on the simplex, by weighted prior draws."""
    drawn = torch.distributions.Dirichlet(torch.ones(3)).sample((draws,))
    return (-outer_loss(drawn) / TEMPERATURE).softmax(0) @ drawn


if __name__ == "__main__":
    by_source = {"weights": ["source"], "linear": ["source"]}
    data = guide.to_inference_data(
        mixture_model, None, g, TEMPERATURE, coords={"source": SOURCES}, dims=by_source
    )
    print(arviz.summary(data, kind="stats"))
    marks = {"their mean": guide.posterior().mean.tolist(), "exact mean": exact_mean().tolist()}
    drawn = data["posterior"]["weights"].values[0]  # of the evidence at the mean
    figure = plot_triangle({"draws of the posterior": drawn}, SOURCES, marks)
    figure.savefig("data_weights.png", dpi=150)
