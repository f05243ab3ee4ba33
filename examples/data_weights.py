"""Data weights of a regression: how much each data source should count in training.

This is a bilevel problem without a language model. The inner learner is weighted least squares.
The outer loss is the squared error on validation data, which is taken to second order in the
weights. ``python examples/data_weights.py`` prints ArviZ's summary of the corrected draws, compares
the guide with the exact posterior, and draws it in a triangle, ``data_weights.png``.
"""

from __future__ import annotations

import arviz
import pyro
import torch
from pyro.distributions import Dirichlet
from pyro.infer import SVI
from torch import Tensor

from bydore_pyro import FreeConcentrations, HypergradientELBO, MixtureGuide
from bydore_pyro.answer import plot_triangle
from bydore_pyro.core import quadratic_factor

SOURCES = ["northern", "eastern", "southern"]
TEMPERATURE = 0.02  # lam, in the unit of the outer loss: squared error
STEPS = 1000

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


def evidence_at(weights: Tensor) -> tuple[Tensor, Tensor]:
    """Returns ``h (K,)`` and ``L (K, K)`` of ``-outer_loss / lam``, to second order there."""
    g = -torch.func.grad(outer_loss)(weights) / TEMPERATURE  # > 0 where a source helps
    along = torch.eye(3) - 1 / 3  # the sum of the weights is fixed
    precision = along @ torch.func.hessian(outer_loss)(weights) @ along / TEMPERATURE
    return g + precision @ weights, precision


def model(linear: Tensor, precision: Tensor) -> None:
    """The evidence is a negative log-likelihood, so the spread of the guide is a posterior's."""
    weights = pyro.sample("weights", Dirichlet(torch.ones(3)))
    quadratic_factor("evidence", weights, linear, precision)


guide = MixtureGuide(FreeConcentrations(3))
rates = {"lr": 0.05, "lrd": 0.05 ** (1 / STEPS)}
svi = SVI(model, guide, pyro.optim.ClippedAdam(rates), HypergradientELBO())
for _ in range(STEPS):
    svi.step(*evidence_at(guide.posterior().mean.detach()))


def exact(draws: int = 100_000) -> tuple[Tensor, Tensor]:
    """Returns means and deviations of ``exp(-outer_loss / lam)``, by weighted prior draws."""
    drawn = torch.distributions.Dirichlet(torch.ones(3)).sample((draws,))
    share = (-outer_loss(drawn).double() / TEMPERATURE).softmax(0).float()
    mean = share @ drawn
    return mean, (share @ (drawn - mean).square()).sqrt()


if __name__ == "__main__":
    evidence = evidence_at(guide.posterior().mean.detach())
    dims = {"weights": ["source"]}
    names = {"coords": {"source": SOURCES}, "dims": dims}
    data = guide.to_inference_data(model, *evidence, **names, num_draws=4000)  # corrected
    print(arviz.summary(data, kind="stats"))
    mean, deviation = exact()
    drawn = data["posterior"]["weights"].values[0]
    print("exact means:", mean.tolist())
    print("the deviations over the exact ones:", (drawn.std(0) / deviation.numpy()).tolist())
    print("those of the guide itself:", (guide.posterior().stddev.detach() / deviation).tolist())
    marks = {"their mean": guide.posterior().mean.tolist(), "exact mean": mean.tolist()}
    figure = plot_triangle({"draws of the posterior": drawn}, SOURCES, marks)
    figure.savefig("data_weights.png", dpi=150)
