"""Simulation-based calibration: the rank of a truth among draws of its posterior is uniform.

A truth is drawn from the prior and data from the truth. If the posterior of the data is right, the
truth is like one more of its draws. Each test repeats this 400 times. Each is run again with a
standard deviation that is off by a factor of 1.3, which must be seen. Measured p-values:

=================  ======  ======  ========
posterior          right   x 1.3   / 1.3
=================  ======  ======  ========
exact draws        0.30    1e-3    1e-12
the match          0.15    7e-3    1e-20
corrected draws    1.00    2e-27
=================  ======  ======  ========

An evidence that is too wide is seen least, since the prior holds the weights of sparse truths. With
80 sweeps of the chains instead of 400 the exact draws have 4e-12: their start is not forgotten.

References:
    Talts et al., Validating Bayesian Inference Algorithms with Simulation-Based Calibration,
    arXiv 1804.06788; Neyman (1937), "Smooth test" for goodness of fit, Skand. Aktuarietidskr. 20.
"""

from __future__ import annotations

import numpy as np
import pyro
import pytest
import torch
from pyro.distributions import Dirichlet, LogNormal, Multinomial
from scipy.special import eval_legendre
from scipy.stats import chi2
from tiny import counts_model
from torch import Tensor

from bydore_pyro import FreeConcentrations, MixtureGuide, corrected_draws
from bydore_pyro.core import SparseDirichlet, exact_draws, metropolis
from bydore_pyro.core.matching import Sample, match, round_evidence

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("_own_store")]

REPEATS, DRAWS = 400, 99
WINDOWS = 4  # of 100 sweeps
LEVEL = 0.01  # of p-values

FAULTS = pytest.mark.parametrize("deviation", [1.0, 1.3, 1 / 1.3])


def p_value(truth: Tensor, draws: Tensor) -> float:
    """Returns that of uniform ranks of ``truth (N, Q)`` among ``draws (N, 99, Q)``.

    Neyman's smooth test: the mean of each of the first four Legendre polynomials of a uniform rank
    is 0. They see a bias, a spread, a skewness and a weight of the tails; the least of Q p-values
    is multiplied by Q.
    """
    ranks = ((draws < truth[:, None]).sum(1).numpy() + 0.5) / (DRAWS + 1)  # (N, Q)
    means = [(2 * j + 1) ** 0.5 * eval_legendre(j, 2 * ranks - 1).mean(0) for j in range(1, 5)]
    each = chi2.sf(len(ranks) * np.square(means).sum(0), len(means))
    return min(1.0, len(each) * float(each.min()))


def require(p: float, deviation: float) -> None:
    """Checks that ranks are uniform where the deviation is right, and are not where it is off."""
    assert (p > LEVEL) == (deviation == 1), p


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
    # Of 400 posteriors some have a nested R-hat above 1.02 by chance: as many sweeps for all.
    monkeypatch.setattr(metropolis, "MOST_WINDOWS", WINDOWS)
    found = exact_draws(linear / deviation**2, precision / deviation**2, chains=DRAWS + 1, seed=1)
    u = found.scale[..., None] * found.weights  # (N, 100 chains x 10, K)
    return u.unflatten(1, (DRAWS + 1, -1))[:, :DRAWS, -1]


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
