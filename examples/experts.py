"""Gates of a mixture of experts: in every region, how often each of its experts is right.

The regions have different experts, so the guide has a varying number of components. The features
of an absent expert are NaN. ``python examples/experts.py`` prints how wide the guide is beside the
exact posterior, and draws the gates of a region with three experts in a triangle, ``experts.png``.

The experts differ in their answers. If two of them agree, only the sum of their gates is known, and
no `GammaDirichlet` has such a posterior: the guide would be too narrow.
"""

from __future__ import annotations

from collections.abc import Callable

import arviz
import pyro
import torch
from pyro.distributions import Categorical, Dirichlet, MixtureSameFamily, Normal
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from torch import Tensor

from bydore_pyro import FeatureNetwork, MixtureGuide
from bydore_pyro.answer import plot_triangle
from bydore_pyro.core import to_inference_data

NOISE = 0.3
GATES = torch.tensor([[0.7, 0.2, 0.1, 0], [0.3, 0.7, 0, 0], [0.1, 0, 0.3, 0.6], [0.5, 0.1, 0, 0.4]])
ABSENT = GATES == 0
EXPERTS = ["sine", "ripple", "wave", "roof"]
REGIONS = ["north", "east", "south", "west"]


def make_data(points: int = 30) -> tuple[Tensor, Tensor]:
    """Returns the experts' answers ``(R, n, K)`` and targets ``(R, n)``, for R regions."""
    x = torch.linspace(-2, 2, points)
    experts = torch.stack([x.sin(), (3 * x).sin(), (2 * x).cos(), -x.abs()], -1)
    answers = experts.expand(len(GATES), -1, -1)
    right = Categorical(GATES).sample((points,)).T.unsqueeze(-1)  # (R, n, 1)
    targets = answers.gather(-1, right).squeeze(-1)
    return answers, targets + NOISE * torch.randn_like(targets)


def features_of(answers: Tensor, targets: Tensor) -> Tensor:
    """Returns ``(R, K, 2)``: how many targets are an expert's under equal gates, and how surely."""
    fits = Normal(answers, NOISE).log_prob(targets.unsqueeze(-1))  # (R, n, K)
    shares = fits.masked_fill(ABSENT.unsqueeze(1), -torch.inf).softmax(-1)
    features = torch.stack([shares.sum(1), shares.square().sum(1)], -1).log1p()
    return features.masked_fill(ABSENT.unsqueeze(-1), torch.nan)


def model(answers: Tensor, targets: Tensor) -> None:
    """An absent expert has the concentration that `FeatureNetwork` gives it."""
    prior = torch.ones(ABSENT.shape).masked_fill(ABSENT, 1e-3)
    with pyro.plate("regions", len(answers), dim=-2):
        gates = pyro.sample("gates", Dirichlet(prior.unsqueeze(-2)))  # (R, 1, K)
        with pyro.plate("points", answers.shape[1], dim=-1):
            pyro.sample("y", one_is_right(gates, answers), obs=targets)


def one_is_right(gates: Tensor, answers: Tensor) -> MixtureSameFamily:
    """Returns the distribution of targets: of each, one expert's answer is right."""
    gates, answers = torch.broadcast_tensors(gates, answers)
    return MixtureSameFamily(Categorical(gates), Normal(answers, NOISE))


def in_regions(gates: MixtureGuide) -> Callable[[Tensor, Tensor], None]:
    """Returns the guide of the model, which is called with the data."""

    def guide(answers: Tensor, targets: Tensor) -> None:
        features = features_of(answers, targets).unsqueeze(-3)  # (R, 1, K, 3)
        with pyro.plate("regions", len(answers), dim=-2):
            gates(features)

    return guide


def fit(answers: Tensor, targets: Tensor, steps: int = 1000) -> MixtureGuide:
    """Returns the guide of the gates, called with `features_of` the data."""
    gates = MixtureGuide(FeatureNetwork(2), name="gates")
    rates = {"lr": 0.02, "lrd": 0.05 ** (1 / steps)}
    elbo = Trace_ELBO(num_particles=4, vectorize_particles=True, max_plate_nesting=2)
    svi = SVI(model, in_regions(gates), pyro.optim.ClippedAdam(rates), elbo)
    for _ in range(steps):
        svi.step(answers, targets)
    return gates


def by_nuts(answers: Tensor, targets: Tensor, region: int, samples: int = 300) -> Tensor:
    """Returns draws of a region's gates ``(samples, experts)``, of the experts that it has."""
    there = ~ABSENT[region]

    def one(answers: Tensor, targets: Tensor) -> None:
        gates = pyro.sample("gates", Dirichlet(torch.ones(answers.shape[-1])))
        with pyro.plate("points", len(targets)):
            pyro.sample("y", one_is_right(gates, answers), obs=targets)

    mcmc = MCMC(NUTS(one), num_samples=samples, warmup_steps=samples // 2, disable_progbar=True)
    mcmc.run(answers[region][:, there], targets[region])
    return mcmc.get_samples()["gates"]


def exact(answers: Tensor, targets: Tensor, draws: int = 100_000) -> tuple[Tensor, Tensor]:
    """Returns means and deviations ``(R, K)`` by weighted prior draws, 0 of absent experts."""
    mean, deviation = torch.zeros(2, *ABSENT.shape)
    likelihoods = Normal(answers, NOISE).log_prob(targets.unsqueeze(-1)).exp()
    for region, there in enumerate(~ABSENT):
        gates = Dirichlet(torch.ones(int(there.sum()))).sample((draws,))
        fits = gates @ likelihoods[region][:, there].T  # (draws, n)
        share = fits.double().log().sum(-1).softmax(0).float()
        mean[region, there] = share @ gates
        deviation[region, there] = (share @ (gates - mean[region, there]).square()).sqrt()
    return mean, deviation


def main() -> None:
    """Fits, compares, and draws the gates of the third region, which has three experts."""
    pyro.set_rng_seed(0)
    pyro.clear_param_store()
    answers, targets = make_data()
    gates = fit(answers, targets)
    guide = in_regions(gates)
    names = {"regions": REGIONS, "expert": EXPERTS}
    dims = {"gates": ["expert"]}
    data = to_inference_data(model, guide, answers, targets, coords=names, dims=dims)
    print(arviz.summary(data, kind="stats"))
    deviation = gates.posterior(features_of(answers, targets)).stddev.detach()
    print("the guide's deviations over the exact ones:")
    for region, ratio in zip(REGIONS, deviation / exact(answers, targets)[1], strict=True):
        print(region, {k: f"{r:.2f}" for k, r in zip(EXPERTS, ratio, strict=True) if r < torch.inf})
    there = [name for name, absent in zip(EXPERTS, ABSENT[2], strict=True) if not absent]
    south = data["posterior"]["gates"].sel(regions="south", expert=there).values
    draws = {
        "guide": south.reshape(-1, 3),
        "NUTS": by_nuts(answers, targets, region=2).numpy(),
    }
    figure = plot_triangle(draws, there, {"truth": GATES[2, ~ABSENT[2]].tolist()})
    figure.savefig("experts.png", dpi=150)


if __name__ == "__main__":
    main()
