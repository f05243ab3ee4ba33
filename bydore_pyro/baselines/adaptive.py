"""Which mixtures to train next: expected improvement under a Gaussian process, in small batches.

References:
    Jones, Schonlau and Welch, Efficient Global Optimization of Expensive Black-Box Functions, 1998.
    Ginsbourger, Le Riche and Carraro, Kriging Is Well-Suited to Parallelize Optimization, 2010.
    Snoek, Larochelle and Adams, Practical Bayesian Optimization, arXiv 1206.2944 (the mean over
    kernels).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from bydore_pyro.baselines.gaussian_process import GaussianProcess, fit_gaussian_process
from bydore_pyro.baselines.simulated_optimum import LEAST, sample_mixtures
from bydore_pyro.mixture import within_caps

__all__ = [
    "AdaptiveRuns",
    "NextMixtures",
    "adaptive_runs",
    "candidate_mixtures",
    "expected_improvement",
    "next_mixtures",
    "propose",
]

BATCH = 4  # mixtures that are trained before the process is fitted again
CANDIDATES = 4000  # half of the fixed design, half around the best of the runs
CENTRES = 8  # so many best runs
STRENGTHS = (10.0, 1000.0)  # concentrations of the draws around them, log-uniform
SURE = 0.9  # share of the kernels that must agree that no further run is worth its noise
PRIOR_SHARE = 0.05  # of their centre, so that a domain that a run left out can come back
MOST = 1e9  # times the prior: what limits a candidate of the fixed design is a cap, not this


def expected_improvement(mean: np.ndarray, deviation: np.ndarray, best: float) -> np.ndarray:
    """Returns by how much losses are expected to fall below the best, ``(S,)``, >= 0.

        E max(best - loss, 0) = (best - m) Phi(z) + s phi(z),   z = (best - m) / s,
        loss ~ N(m, s^2)

    Args:
        mean: Expected losses ``(S,)``, in any unit, as all losses here.
        deviation: Their standard deviations ``(S,)``, >= 0; at 0 it is ``max(best - m, 0)``.
        best: The loss to improve on.
    """
    gain = best - mean
    z = np.divide(gain, deviation, out=np.zeros_like(gain), where=deviation > 0)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    unsure = gain * ndtr(z) + deviation * density
    return np.maximum(np.where(deviation > 0, unsure, gain), 0)  # rounding, far above the best


@dataclass(frozen=True, kw_only=True, eq=False)
class NextMixtures:
    """The mixtures to train next, in this order.

    Args:
        places: Their rows among the candidates ``(n,)``.
        weights: The mixtures ``(n, K)``.
        expected_gain: How far each is expected to lower the least loss of all mixtures measured so
            far, if those before it turn out as expected ``(n,)``, >= 0.
        noise: Standard deviation of one run's loss.
        below_noise: Share of the process's kernels under which no candidate is expected to gain
            as much as the noise of one run, in [0, 1].
    """

    places: np.ndarray
    weights: np.ndarray
    expected_gain: np.ndarray
    noise: float
    below_noise: float

    @property
    def worthwhile(self) -> bool:
        """Whether it is not yet sure that a run gains less than its noise."""
        return self.below_noise < SURE

    def details(self) -> dict[str, Any]:
        """Returns all of it as plain values, with a sentence."""
        advice = "worth training" if self.worthwhile else "no further run is needed"
        return {
            "mixtures": self.weights.tolist(),
            "expected_gains": self.expected_gain.tolist(),
            "noise": self.noise,
            "below_noise": self.below_noise,
            "told": f"--adaptive: {advice}: {self.told()}",
        }

    def told(self) -> str:
        """Returns what is expected of the next run, as the end of a sentence."""
        return (
            f"the next run is expected to lower the least loss by {self.expected_gain[0]:.2g}, "
            f"and one run's noise is {self.noise:.2g}; {self.below_noise:.0%} of the kernels put "
            f"the gain below the noise, {SURE:.0%} end the search"
        )


def next_mixtures(
    model: GaussianProcess,
    measured: np.ndarray,
    candidates: np.ndarray,
    count: int,
    progress: Callable[[], object] = int,
) -> NextMixtures:
    """Chooses the candidates whose expected improvement is largest, one after the other.

    The loss to improve on is the least expected loss of a measured mixture, not the least measured
    one, which is low by luck too. Where the process has several kernels, the improvement is the
    mean of theirs. After each choice the process believes that the run measures what it expects
    (the kriging believer): so the next one lies elsewhere. That needs neither more draws nor the
    joint covariance of the candidates, and has no chance in it.

    Args:
        model: Fitted to the runs.
        measured: Their mixtures ``(N, K)``.
        candidates: Mixtures ``(S, K)``.
        count: How many are chosen, in [1, S].
        progress: Is called after each choice.
    """
    noise = [member.noise for member in model.members]
    best = [float(member.predict(measured).min()) for member in model.members]
    below_noise, level = 0.0, model.noise
    chosen: list[int] = []
    gains: list[float] = []
    for _ in range(count):
        moments = [member.moments(candidates) for member in model.members]
        each = [expected_improvement(*of, low) for of, low in zip(moments, best, strict=True)]
        if not chosen:
            below_noise = float(np.mean(np.max(each, axis=1) < noise))
        gain = np.mean(each, axis=0)
        gain[chosen] = -np.inf  # the same mixture and seed would be the same run
        place = int(gain.argmax())
        chosen.append(place)
        gains.append(float(gain[place]))
        best = [min(low, float(mean[place])) for low, (mean, _) in zip(best, moments, strict=True)]
        progress()
        if len(chosen) < count:
            model = model.believing(candidates[[place]])
    return NextMixtures(
        places=np.array(chosen),
        weights=candidates[chosen],
        expected_gain=np.array(gains),
        noise=level,
        below_noise=below_noise,
    )


def candidate_mixtures(
    prior: np.ndarray,
    best: np.ndarray,
    seed: int | list[int],
    *,
    count: int = CANDIDATES,
    caps: np.ndarray | None = None,
) -> np.ndarray:
    """Draws mixtures ``(S, K)``: half as the fixed design does, half around the best.

        w ~ Dirichlet(c (0.95 best + 0.05 prior)),   c log-uniform in [10, 1000]

    Args:
        prior: Shares of tokens ``(K,)``, on the simplex; a share of 0 stays 0 in the design.
        best: Mixtures ``(B, K)`` worth looking around.
        seed: Of the draws.
        count: Number of mixtures ``S``, at least 2.
        caps: Largest weights ``(K,)``, into which each mixture is brought; none if not given.
    """
    rng = np.random.default_rng(seed)
    design = sample_mixtures(prior, count // 2, rng, MOST)
    size = count - len(design)
    centres = (1 - PRIOR_SHARE) * best[rng.integers(len(best), size=size)] + PRIOR_SHARE * prior
    low, high = map(math.log, STRENGTHS)
    strengths = np.exp(rng.uniform(low, high, size=(size, 1)))
    around = rng.gamma(strengths * centres)  # divided by its sum, a Dirichlet
    around /= around.sum(1, keepdims=True)
    around[around < LEAST] = 0
    around /= around.sum(1, keepdims=True)
    mixtures = np.concatenate([design, around])
    return mixtures if caps is None else within_caps(mixtures, caps)


def propose(
    model: GaussianProcess,
    measured: np.ndarray,
    prior: np.ndarray,
    count: int,
    *,
    seed: int = 0,
    caps: np.ndarray | None = None,
    progress: Callable[[], object] = int,
) -> NextMixtures:
    """Returns the mixtures to train next, out of candidates that seed and number of runs decide.

    Args:
        model: Fitted to the runs.
        measured: Their mixtures ``(N, K)``.
        prior: Shares of tokens ``(K,)``, on the simplex.
        count: How many, >= 1.
        seed: Of the candidates.
        caps: Largest weights ``(K,)``, none if not given.
        progress: Is called after each choice.
    """
    best = measured[np.argsort(model.predict(measured), kind="stable")[:CENTRES]]
    best = best / best.sum(1, keepdims=True)
    candidates = candidate_mixtures(
        *(prior / prior.sum(), best, [seed, len(measured)]), count=max(CANDIDATES, count), caps=caps
    )
    return next_mixtures(model, measured, candidates, count, progress)


@dataclass(frozen=True, kw_only=True, eq=False)
class AdaptiveRuns:
    """All runs of an adaptive design.

    Args:
        weights: Their mixtures ``(N, K)``, those of the first design first.
        losses: Their losses ``(N,)``.
        model: Fitted to all of them.
        ahead: What would be trained next.
        first: Runs of the first design.
        most: Most runs after it.
    """

    weights: np.ndarray
    losses: np.ndarray
    model: GaussianProcess
    ahead: NextMixtures
    first: int
    most: int

    def details(self) -> dict[str, Any]:
        """Returns how it went, as plain values with a sentence."""
        trained = len(self.losses) - self.first
        done = f"stopped after {trained} of" if trained < self.most else "trained all"
        return {
            "runs": trained,
            "expected_gains": self.ahead.expected_gain.tolist(),
            "noise": self.ahead.noise,
            "below_noise": self.ahead.below_noise,
            "told": f"--adaptive {done} {self.most} runs: {self.ahead.told()}",
        }


def adaptive_runs(
    measure: Callable[[np.ndarray], np.ndarray],
    design: np.ndarray,
    prior: np.ndarray,
    most: int,
    *,
    seed: int = 0,
    caps: np.ndarray | None = None,
) -> AdaptiveRuns:
    """Measures a first design, then the mixtures of largest expected improvement, 4 at a time.

    It ends after so many runs, or when the largest expected improvement is below the noise of one
    run, as the process estimates both: under nine in ten of its kernels, for with few runs these
    disagree, and the mean noise is that of the noisiest. Losses and seed decide every mixture, so
    that a search that was broken off proposes the same ones again.

    Args:
        measure: Trains on mixtures ``(n, K)`` and returns their losses ``(n,)``.
        design: The first mixtures ``(N, K)``.
        prior: Shares of tokens ``(K,)``, on the simplex.
        most: Most runs after the first design, >= 0.
        seed: Of the candidates.
        caps: Largest weights ``(K,)`` of what is proposed, none if not given.

    Raises:
        DataError: When the first design is too small for a regression.
    """
    weights, losses = design, measure(design)
    while True:
        model = fit_gaussian_process(weights, losses)
        left = most - (len(weights) - len(design))
        count = min(BATCH, max(left, 1))
        ahead = propose(model, weights, prior, count, seed=seed, caps=caps)
        if not left or not ahead.worthwhile:
            break
        weights = np.concatenate([weights, ahead.weights])
        losses = np.append(losses, measure(ahead.weights))
    return AdaptiveRuns(
        weights=weights, losses=losses, model=model, ahead=ahead, first=len(design), most=most
    )
