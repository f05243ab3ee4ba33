"""Simulation-based calibration: the rank of a truth among draws of its posterior is uniform.

A truth is drawn from the prior and data from the truth. If the posterior of the data is right, the
truth is like one more of its draws. Each test repeats this a few hundred times, and each fails
where a standard deviation is off by a factor of 1.3 in either direction.

References:
    Talts et al., Validating Bayesian Inference Algorithms with Simulation-Based Calibration,
    arXiv 1804.06788.
"""

from __future__ import annotations

import pyro
import pytest
import torch
from pyro.distributions import Dirichlet, LogNormal, Multinomial
from scipy.stats import chisquare
from tiny import counts_model
from torch import Tensor

from bydore_pyro import FreeConcentrations, MixtureGuide, corrected_draws
from bydore_pyro.core import SparseDirichlet, exact_draws, metropolis
from bydore_pyro.core.matching import Sample, match, round_evidence

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("_own_store")]

REPEATS, DRAWS, BINS = 400, 99, 10
UNIFORM, FAULT = 0.01, 1e-4  # p-values, above and below

FAULTS = pytest.mark.parametrize("deviation", [1.0, 1.3, 1 / 1.3])


def p_value(truth: Tensor, draws: Tensor) -> float:
    """Returns that of uniform ranks of ``truth (N, Q)`` among ``draws (N, 99, Q)``: the least of
    Q chi-square tests, times Q."""
    ranks = (draws < truth[:, None]).sum(1)  # 0 to 99
    places = (ranks * BINS) // (DRAWS + 1)
    counts = [torch.bincount(own, minlength=BINS).numpy() for own in places.T]
    return min(1.0, len(counts) * min(float(chisquare(own).pvalue) for own in counts))


def require(p: float, deviation: float) -> None:
    print(deviation, p)
    if deviation == 1:
        assert p > UNIFORM
    else:
        assert p < FAULT


def from_the_prior(domains: int) -> Tensor:
    """Returns ``u = s w`` of `mixture_model`, ``(N, K)``."""
    like = torch.ones(domains, dtype=torch.float64)
    weights = SparseDirichlet.like(like).sample(torch.Size((REPEATS,)))
    scale = LogNormal(like.new_zeros(()), like.new_ones(())).sample((REPEATS, 1))
    return scale * weights


def draws_of(
    linear: Tensor, precision: Tensor, deviation: float, monkeypatch: pytest.MonkeyPatch
) -> Tensor:
    """Returns ``u (N, 99, K)``, the last of each of 99 chains; evidence with another deviation."""
    # Some of 400 posteriors have a nested R-hat above 1.02 by chance: as many sweeps for all.
    monkeypatch.setattr(metropolis, "MOST_WINDOWS", 8)
    found = exact_draws(
        linear / deviation**2, precision / deviation**2, draws=1, chains=DRAWS + 1, seed=1
    )
    return (found.scale[..., None] * found.weights)[:, :DRAWS]


def quantities(u: Tensor) -> Tensor:
    """Returns the weights and the scale, ``(..., K + 1)``."""
    scale = u.sum(-1, keepdim=True)
    return torch.cat([u / scale, scale], -1)


@FAULTS
def test_exact_draws(deviation: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """``h ~ N(Lambda u, Lambda)`` has the likelihood ``exp(h . u - 1/2 u' Lambda u)``."""
    root = 6 * torch.randn(REPEATS, 4, 6, dtype=torch.float64)
    precision = root @ root.mT
    truth = from_the_prior(4)
    noise = (root @ torch.randn(REPEATS, 6, 1, dtype=torch.float64)).squeeze(-1)
    linear = (precision @ truth[..., None]).squeeze(-1) + noise
    draws = draws_of(linear, precision, deviation, monkeypatch)
    require(p_value(quantities(truth), quantities(draws)), deviation)


@FAULTS
def test_the_match(deviation: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """From gradients of sequences: means that are known by samples alone, for domains and target.

    Noise is that of 300 documents a domain, whose covariance is estimated from them.
    """
    means = torch.randn(3, 24, dtype=torch.float64)
    truth = from_the_prior(3)
    found = []

    def sample(mean: Tensor) -> Sample:
        noise = 2 * torch.randn(300, 24, dtype=torch.float64)
        return Sample(mean + noise, torch.arange(300))

    for u in truth:
        found.append(match([round_evidence([sample(m) for m in means], sample(u @ means))]))
    linear, precision = (
        torch.stack([getattr(one, name) for one in found]) for name in ("linear", "precision")
    )
    draws = draws_of(linear, precision, deviation, monkeypatch)
    require(p_value(quantities(truth), quantities(draws)), deviation)


@pytest.mark.parametrize("corrected", [True, False])
def test_corrected_draws(corrected: bool) -> None:
    """Of a guide that is 1.3 times too wide; its own draws are the fault that is seen."""
    prior = Dirichlet(torch.ones(3, dtype=torch.float64))
    truths, draws = [], []
    for seed in range(REPEATS):
        truth = prior.sample()
        counts = Multinomial(20, truth).sample()
        network = FreeConcentrations(3).double()
        network.start_at(torch.full((3,), 5.0).double(), 5 / (0.7 * (1 + counts)))
        guide = MixtureGuide(network, name="shares")
        pyro.clear_param_store()
        if corrected:
            found = corrected_draws(
                counts_model, guide, counts, num_samples=400, num_draws=DRAWS, seed=seed
            )
            assert found.corrected
            draws.append(found.sites["shares"])
        else:
            draws.append(guide.posterior().sample(torch.Size((DRAWS,))))
        truths.append(truth)
    p = p_value(torch.stack(truths), torch.stack(draws).detach())
    require(p, 1.0 if corrected else 1.3)
