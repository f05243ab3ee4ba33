"""Hierarchical weights: every group has its own shares, and they scatter around common shares.

``python examples/groups.py`` fits the model, prints ArviZ's summary and draws ``groups.png``.
"""

from __future__ import annotations

import arviz
import matplotlib.pyplot as plt
import pyro
import torch
import xarray
from pyro import poutine
from pyro.distributions import Dirichlet, LogNormal, Multinomial
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from pyro.infer.autoguide import AutoGuideList, AutoNormal
from torch import Tensor

from bydore_pyro import FreeConcentrations, MixtureGuide
from bydore_pyro.core import to_inference_data

GROUPS = ["north", "east", "south", "west", "centre"]
PARTS = ["web", "code", "papers", "legal"]
COUNTS = torch.tensor(
    [[30, 12, 6, 2], [25, 18, 4, 3], [12, 6, 2, 1], [40, 30, 20, 10], [3, 5, 1, 1]],
    dtype=torch.float64,  # shares near 0 need it
)


def model(counts: Tensor) -> None:
    """`strength` is the total concentration of a Dirichlet: if it is large, groups are alike."""
    size = counts.shape[-1]
    common = pyro.sample("common", Dirichlet(counts.new_ones(size)))
    strength = pyro.sample("strength", LogNormal(3.0, 0.5))
    prior = strength.unsqueeze(-1) * common
    with pyro.plate("groups", len(counts)):
        shares = pyro.sample("shares", Dirichlet(prior))
        pyro.sample("counts", Multinomial(1, shares, validate_args=False), obs=counts)


def fit(counts: Tensor, steps: int = 300) -> AutoGuideList:
    """Returns a guide of all three sites."""
    size = counts.shape[-1]
    guide = AutoGuideList(model)
    guide.append(AutoNormal(poutine.block(model, expose=["strength"])))
    shared = FreeConcentrations(size).double()
    own = FreeConcentrations(size, batch_shape=(len(counts),)).double()
    for network, near in ((shared, counts.mean(0)), (own, counts)):  # concentrations to start at
        shape = torch.full_like(near, 50.0)
        network.start_at(shape, shape / (1 + near))
    guide.append(MixtureGuide(shared, name="common"))
    guide.append(MixtureGuide(own, name="shares"))  # it takes the list's plate
    rates = {"lr": 0.05, "lrd": 0.05 ** (1 / steps)}
    elbo = Trace_ELBO(num_particles=4, vectorize_particles=True, max_plate_nesting=1)
    svi = SVI(model, guide, pyro.optim.ClippedAdam(rates), elbo)
    for _ in range(steps):
        svi.step(counts)
    return guide


def by_nuts(counts: Tensor, samples: int = 300) -> dict[str, Tensor]:
    """Returns draws ``(1, samples, ...)`` of all three sites."""
    mcmc = MCMC(NUTS(model), num_samples=samples, warmup_steps=samples // 2, disable_progbar=True)
    mcmc.run(counts)
    return mcmc.get_samples(group_by_chain=True)


def main() -> None:
    """Fits, and draws the shares of every group."""
    pyro.set_rng_seed(0)
    pyro.clear_param_store()
    by_part = {"common": ["part"], "shares": ["part"], "counts": ["part"]}
    named = {"coords": {"groups": GROUPS, "part": PARTS}, "dims": by_part}
    data = to_inference_data(model, fit(COUNTS), COUNTS, **named, num_draws=500)
    exact = to_inference_data(model, by_nuts(COUNTS), COUNTS, **named, num_draws=500)
    print(arviz.summary(data, kind="stats"))
    both = [one["posterior"]["shares"] for one in (data, exact)]
    kinds = xarray.DataArray(["guide", "NUTS"], dims="by", name="by")
    shares = xarray.concat(both, kinds, join="inner").transpose(..., "by")
    arviz.plot_forest(shares.to_dataset(name="shares"), combined=True)
    plt.gcf().set_size_inches(7, 9)
    plt.savefig("groups.png", bbox_inches="tight")


if __name__ == "__main__":
    main()
