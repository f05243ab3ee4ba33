"""The mixture that a regression proposes: what it predicts for it, and beside it for the prior."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

import numpy as np

from bydore_pyro.baselines.log_linear import LogLinear, relative_entropy
from bydore_pyro.baselines.problem import by_name
from bydore_pyro.baselines.regression import (
    PosteriorRegression,
    Regression,
    deviation_of_run,
    interval_of_run,
)
from bydore_pyro.baselines.simulated_optimum import SimulatedOptimum
from bydore_pyro.mixture import HDI_PROBABILITY, Mixture
from bydore_pyro.utils import DataError

__all__ = [
    "few_runs",
    "gain_over",
    "nearest_run",
    "proposed",
    "with_distance",
    "with_intervals",
]

DRAWS, SEED = 4000, 0  # of the difference between two predicted losses
FAR = 0.94  # of the runs that lie nearer to another: beyond, nothing like the mixture was run
SURE = 0.97  # the probability of an improvement that is called one


def few_runs(runs: int, domains: int) -> str | None:
    """Returns the warning about fewer runs than domains, None where there are enough."""
    if runs >= domains:
        return None
    return (
        f"Fitted to {runs} runs of {domains} domains, fewer runs than domains: what a domain is "
        "worth is mostly the regression's assumption."
    )


def proposed(
    model: Regression,
    optimum: SimulatedOptimum,
    mixture: Mixture,
    prior: np.ndarray,
    *,
    runs: int,
    caps: np.ndarray | None = None,
    kl: float = 0.0,
) -> tuple[Mixture, dict[str, Any]]:
    """Returns the mixture to use, and what else is worth knowing of it.

    Candidates are the mean of the best simulated mixtures, which is RegMix's optimum, and the
    prior; with a Gaussian process or a log-linear law the one best simulated mixture; with such a
    law and `kl` its exact optimum. That one is taken whose own predicted loss is least, the cost of
    its distance from the prior included. The mean of the posterior's optima is none of them: where
    these lie near different vertices, their mean is a mixture that nobody found good.

    Args:
        model: What predicts losses.
        optimum: Its optimum.
        mixture: The names, and whose tokens the weights are shares of; its weights do not count.
        prior: Shares ``(K,)`` around which mixtures were simulated.
        runs: How many the regression was fitted to.
        caps: Largest weights ``(K,)``, which the optimum keeps; a prior above them is no candidate.
        kl: What a nat of relative entropy to the prior costs, in losses.
    """
    process = model if isinstance(model, PosteriorRegression) else None
    candidates = {"the mean of the best simulated mixtures": optimum.weights}
    if process is not None:
        candidates["the best simulated mixture"] = optimum.single
    if isinstance(model, LogLinear) and kl:
        candidates["the law's exact optimum"] = model.optimum(prior / prior.sum(), kl, caps)
    if caps is None or (prior <= caps).all():
        candidates["the prior"] = prior
    stacked = np.stack(list(candidates.values()))
    losses = model.predict(stacked)
    if kl:
        losses = losses + kl * relative_entropy(stacked, prior / prior.sum())
    chosen = list(candidates)[int(losses.argmin())]
    shares = candidates[chosen] / candidates[chosen].sum()
    mixture = dataclasses.replace(
        mixture, weights=tuple(shares.tolist()), prior=tuple((prior / prior.sum()).tolist())
    )
    mixture = with_intervals(mixture, optimum.weights_draws)
    predicted, gain = _predicted(model, mixture, prior)
    notes = [note for note in (few_runs(runs, len(prior)), _gain_note(gain)) if note]
    mixture = dataclasses.replace(mixture, predicted_loss=predicted, notes=tuple(notes))
    if mixture.pruning_hurts():
        notes.append(
            f"Pruned, these weights are predicted to be worse: {predicted['pruned'][0]:.4f} "
            f"against {predicted['weights'][0]:.4f}."
        )
        mixture = dataclasses.replace(mixture, notes=tuple(notes))
    details: dict[str, Any] = {
        "weights_are": chosen,
        "simulated_optimum": by_name(mixture.names, optimum.weights),
        "predicted_loss_of_simulated_optimum": optimum.loss,
        "gain_over_prior": gain,
    }
    if process is not None:
        details["interval_of_a_run"] = interval_of_run(model, shares[None])[0].tolist()
    return mixture, details


def with_intervals(mixture: Mixture, draws: np.ndarray | None) -> Mixture:
    """Returns the mixture with the standard deviation and HDI of draws of the optimum ``(D, K)``.

    An interval that does not hold its weight is stretched to it. Without draws the mixture stays as
    it is.
    """
    if draws is None:
        return mixture
    import arviz

    ends = arviz.hdi(draws[None], hdi_prob=HDI_PROBABILITY).tolist()  # (K, 2)
    return dataclasses.replace(
        mixture,
        standard_deviation=tuple(draws.std(0).tolist()),
        hdi=tuple(
            (min(low, weight), max(high, weight))
            for (low, high), weight in zip(ends, mixture.weights, strict=True)
        ),
        hdi_probability=HDI_PROBABILITY,
    )


def _predicted(
    model: Regression, mixture: Mixture, prior: np.ndarray
) -> tuple[Mapping[str, tuple[float, float | None]], dict[str, float | None]]:
    """Returns the losses of a run on these weights, the prior, equal shares and the pruned weights;
    and how much lower than the prior's the mixture's own loss is."""
    compared = {
        "weights": np.array(mixture.weights),
        "prior": prior,
        "uniform": np.full(len(prior), 1 / len(prior)),
    }
    with contextlib.suppress(DataError):  # no intervals, or nothing would be left
        compared["pruned"] = np.array(mixture.pruned().weights)
    stacked = np.stack(list(compared.values()))
    means = model.predict(stacked).tolist()
    deviations = deviation_of_run(model, stacked)
    told = [None] * len(means) if deviations is None else deviations.tolist()
    gain = gain_over(model, stacked[0], stacked[1])
    return dict(zip(compared, zip(means, told, strict=True), strict=True)), gain


def gain_over(model: Regression, weights: np.ndarray, other: np.ndarray) -> dict[str, float | None]:
    """Returns how much lower a mixture's predicted loss is than another's, and how sure that is.

    `mean` and `standard_deviation` are in the unit of the runs' losses; a mean > 0 is a gain. Its
    `probability` makes it `sure`, or not.
    A Gaussian process and a log-linear law know both losses jointly. Of another regression the
    errors of two new runs count, as far as cross-validation told them: its probability is nearer to
    a half. Without that none is told.
    """
    stacked = np.stack([weights, other])
    own, others = model.predict(stacked)
    gain: dict[str, float | None] = {"mean": float(others - own)}
    deviation = deviation_of_run(model, stacked)
    if deviation is None:
        return gain
    if (weights == other).all():
        return gain | {"standard_deviation": 0.0, "probability": 0.0, "sure": False}
    if isinstance(model, PosteriorRegression):
        drawn = model.sample(stacked, DRAWS, SEED)
        gaps = drawn[:, 1] - drawn[:, 0]
        gaps = gaps.mean() + model.width * (gaps - gaps.mean())
        sd, probability = float(gaps.std()), float((gaps > 0).mean())
    else:
        sd = float(np.hypot(*deviation))
        probability = NormalDist().cdf(float(others - own) / sd) if sd else float(others > own)
    sure = probability >= SURE
    return gain | {"standard_deviation": sd, "probability": probability, "sure": sure}


def nearest_run(mixture: np.ndarray, runs: np.ndarray) -> tuple[int, float]:
    """Returns which of the runs ``(N, K)`` lies nearest to a mixture ``(K,)``, and how far off.

    That is the total variation, the share of tokens that lies elsewhere.
    """
    distances = np.abs(runs - mixture).sum(1) / 2
    return int(distances.argmin()), float(distances.min())


def with_distance(
    mixture: Mixture, table_runs: tuple[str, ...], runs: np.ndarray
) -> tuple[Mixture, dict[str, Any]]:
    """Returns the mixture, with a note where nothing like it was run, and its distance from runs.

    It is `far` where nearly all runs lie nearer to another mixture that was run than it to any.

    Args:
        mixture: The proposal.
        table_runs: Names of the runs ``N``.
        runs: Their weights ``(N, K)``, in the order of the mixture's names.
    """
    place, nearest = nearest_run(np.array(mixture.weights), runs)
    distinct = np.unique(runs, axis=0)
    among = np.zeros(len(distinct))  # of each, to the nearest other
    if len(distinct) > 1:
        others = (np.delete(distinct, row, axis=0) for row in range(len(distinct)))
        among[:] = [nearest_run(*of)[1] for of in zip(distinct, others, strict=True)]
    typical, farther = float(np.median(among)), float((among < nearest).mean())
    words = (
        f"The nearest run ({table_runs[place]}) has {100 * nearest:.0f} % of its tokens elsewhere; "
        f"the runs among themselves have {100 * typical:.0f} % (median)"
    )
    far = farther > FAR
    if far:
        words += (
            f", and {100 * farther:.0f} % of them lie nearer to another: nothing like this mixture "
            "was run, so what is predicted of it was never checked."
        )
        mixture = dataclasses.replace(mixture, notes=(*mixture.notes, words))
    else:
        words += ": mixtures like this one were run."
    return mixture, {
        "nearest_run": table_runs[place],
        "total_variation": nearest,
        "median_among_runs": typical,
        "farther_than": farther,
        "far": far,
        "words": words,
    }


def _gain_note(gain: Mapping[str, float | None]) -> str | None:
    """Returns what has to be said where the mixture is no sure improvement on the prior."""
    found, probability = gain["mean"], gain.get("probability")
    if not found or found <= 0:
        return "No mixture is predicted to be better than the prior: this is no improvement on it."
    if probability is not None and not gain["sure"]:
        return (
            f"No sure improvement on the prior: its predicted loss is {found:.4f} lower, better "
            f"with a probability of {probability:.0%}."
        )
    return None
