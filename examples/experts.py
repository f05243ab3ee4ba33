"""Gates of a mixture of experts: in every region, the weight of each of its experts.

The regions have different experts, so the guide has a varying number of components. The features
of an absent expert are NaN. ``python examples/experts.py`` draws ``experts.png``.
"""

from __future__ import annotations

import arviz
import pyro
import torch
from pyro.distributions import Dirichlet, Normal
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from torch import Tensor

from bydore_pyro import FeatureNetwork, MixtureGuide

NOISE = 0.3
GATES = torch.tensor([[0.7, 0.2, 0.1, 0], [0.3, 0.7, 0, 0], [0.1, 0, 0.3, 0.6], [0.5, 0.1, 0, 0.4]])
ABSENT = GATES == 0


def make_data(points: int = 30) -> tuple[Tensor, Tensor]:
    """Returns the experts' answers ``(R, n, K)`` and targets ``(R, n)``, for R regions."""
    x = torch.linspace(-2, 2, points)
    answers = torch.stack([x.sin(), 0.5 * x, (2 * x).cos(), -x.abs()], -1).expand(
        len(GATES), -1, -1
    )
    targets = (answers @ GATES.unsqueeze(-1)).squeeze(-1)
    return answers, targets + NOISE * torch.randn_like(targets)


def features_of(answers: Tensor, targets: Tensor) -> Tensor:
    """Returns ``(R, K, 3)``: an expert's product with the targets, all experts, and itself."""
    agrees = (answers * targets.unsqueeze(-1)).mean(1)
    with_all = (answers * answers.mean(-1, keepdim=True)).mean(1)
    features = torch.stack([agrees, with_all, answers.square().mean(1)], -1)
    return features.masked_fill(ABSENT.unsqueeze(-1), torch.nan)


def model(answers: Tensor, targets: Tensor) -> None:
    """An absent expert has the concentration that `FeatureNetwork` gives it."""
    prior = torch.ones(ABSENT.shape).masked_fill(ABSENT, 1e-3)
    with pyro.plate("regions", len(answers), dim=-2):
        gates = pyro.sample("gates", Dirichlet(prior.unsqueeze(-2)))  # (R, 1, K)
        with pyro.plate("points", answers.shape[1], dim=-1):
            pyro.sample("y", Normal((gates * answers).sum(-1), NOISE), obs=targets)


def fit(answers: Tensor, targets: Tensor, steps: int = 400) -> MixtureGuide:
    """Returns the guide of the gates, called with `features_of` the data."""
    network = MixtureGuide(FeatureNetwork(3), name="gates")
    features = features_of(answers, targets).unsqueeze(-3)  # (R, 1, K, 3)

    def guide(*_: object) -> None:
        with pyro.plate("regions", len(answers), dim=-2):
            network(features)

    rates = {"lr": 0.02, "lrd": 0.05 ** (1 / steps)}
    elbo = Trace_ELBO(num_particles=4, vectorize_particles=True, max_plate_nesting=2)
    svi = SVI(model, guide, pyro.optim.ClippedAdam(rates), elbo)
    for _ in range(steps):
        svi.step(answers, targets)
    return network


def by_nuts(answers: Tensor, targets: Tensor, region: int, samples: int = 300) -> Tensor:
    """Returns draws of a region's gates ``(samples, experts)``, of the experts that it has."""
    there = ~ABSENT[region]

    def one(answers: Tensor, targets: Tensor) -> None:
        gates = pyro.sample("gates", Dirichlet(torch.ones(answers.shape[-1])))
        with pyro.plate("points", len(targets)):
            pyro.sample("y", Normal(answers @ gates, NOISE), obs=targets)

    mcmc = MCMC(NUTS(one), num_samples=samples, warmup_steps=samples // 2, disable_progbar=True)
    mcmc.run(answers[region][:, there], targets[region])
    return mcmc.get_samples()["gates"]


def main() -> None:
    """Fits, and draws the gates of the third region, which has three of the four experts."""
    pyro.set_rng_seed(0)
    pyro.clear_param_store()
    data = make_data()
    q = fit(*data).posterior(features_of(*data))
    print(q.mean)
    found = {"guide": q.sample((2000,))[:, 2, ~ABSENT[2]], "NUTS": by_nuts(*data, region=2)}
    named = {"dims": {"gates": ["expert"]}, "coords": {"expert": torch.arange(4)[~ABSENT[2]]}}
    draws = [arviz.from_dict({"gates": x[None].numpy()}, **named) for x in found.values()]
    axes = arviz.plot_forest(draws, model_names=list(found), combined=True, figsize=(7, 3.5))
    axes[0].plot(GATES[2, ~ABSENT[2]].flip(0), axes[0].get_yticks(), "k|", ms=25)
    axes[0].set_title("Gates of the third region: 94 % intervals, and the true ones")
    axes[0].figure.savefig("experts.png", bbox_inches="tight")


if __name__ == "__main__":
    main()
