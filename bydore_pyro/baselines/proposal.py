"""The mixture that a regression proposes: what it predicts for it, and beside it for the prior."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

import numpy as np

from bydore_pyro.baselines.gaussian_process import GaussianProcess
from bydore_pyro.baselines.problem import by_name
from bydore_pyro.baselines.regression import AnyRegression, deviation_of_run, interval_of_run
from bydore_pyro.baselines.simulated import SimulatedOptimum, TrustRegion, relative_entropy
from bydore_pyro.mixture import HDI_PROBABILITY, Mixture

__all__ = ["gain_over", "proposed", "with_intervals"]

SURE = 0.97  # the probability of an improvement that is called one


def proposed(
    model: AnyRegression,
    optimum: SimulatedOptimum,
    mixture: Mixture,
    prior: np.ndarray,
    region: TrustRegion,
    *,
    caps: np.ndarray | None = None,
    kl: float = 0.0,
) -> tuple[Mixture, dict[str, Any]]:
    """Returns the mixture to use, and what else is worth knowing of it.

    Candidates are the mean of the best simulated mixtures, which is RegMix's optimum, and the
    prior; with a Gaussian process the one best simulated mixture too. That one is taken whose own
    predicted loss is least, the cost of its distance from the prior included. The mean of the
    posterior's optima is none of them: where these lie near different vertices, their mean is a
    mixture that nobody found good.

    Args:
        model: What predicts losses.
        optimum: Its optimum.
        mixture: The names, and whose tokens the weights are shares of; its weights do not count.
        prior: Shares ``(K,)`` around which mixtures were simulated.
        region: Of the runs that the regression was fitted to.
        caps: Largest weights ``(K,)``; a prior above them is no candidate.
        kl: What a nat of relative entropy to the prior costs, in losses.
    """
    prior = prior / prior.sum()
    candidates = {"the mean of the best simulated mixtures": optimum.weights}
    if isinstance(model, GaussianProcess):
        candidates["the best simulated mixture"] = optimum.single
    if caps is None or (prior <= caps).all():
        candidates["the prior"] = prior
    stacked = np.stack(list(candidates.values()))
    losses = model.predict(stacked)
    if kl:
        losses = losses + kl * relative_entropy(stacked, prior)
    chosen = list(candidates)[int(losses.argmin())]
    shares = candidates[chosen] / candidates[chosen].sum()
    mixture = dataclasses.replace(
        mixture, weights=tuple(shares.tolist()), prior=tuple(prior.tolist())
    )
    mixture = with_intervals(mixture, optimum.weights_draws)
    gain, distance = gain_over(model, shares, prior, region), region.described(shares)
    notes = [*mixture.notes, *_notes(gain, distance, len(region.runs), len(prior))]
    mixture = dataclasses.replace(
        mixture, predicted_loss=_predicted(model, mixture, prior), notes=tuple(notes)
    )
    details: dict[str, Any] = {
        "weights_are": chosen,
        "simulated_optimum": by_name(mixture.names, optimum.weights),
        "gain_over_prior": gain,
        "distance": distance,
    }
    if isinstance(model, GaussianProcess):
        details["interval_of_a_run"] = interval_of_run(model, shares[None])[0].tolist()
    return mixture, details


def with_intervals(mixture: Mixture, draws: np.ndarray | None) -> Mixture:
    """Returns the mixture with the standard deviation and HDI of draws of the optimum ``(D, K)``.

    An interval that does not hold its weight is stretched to it and to the prior's, so that it
    decides nothing. Without draws the mixture stays as it is.
    """
    if draws is None:
        return mixture
    import arviz

    ends = arviz.hdi(draws[None], hdi_prob=HDI_PROBABILITY).tolist()  # (K, 2)
    count = len(mixture.names)
    held = []
    for (low, high), weight, other in zip(
        ends, mixture.weights, mixture.prior or (1 / count,) * count, strict=True
    ):
        inside = low <= weight <= high
        held.append((low, high) if inside else (min(low, weight, other), max(high, weight, other)))
    return dataclasses.replace(
        mixture,
        standard_deviation=tuple(draws.std(0).tolist()),
        hdi=tuple(held),
        hdi_probability=HDI_PROBABILITY,
    )


def gain_over(
    model: AnyRegression, weights: np.ndarray, other: np.ndarray, region: TrustRegion
) -> dict[str, Any]:
    """Returns how much lower a mixture's predicted loss is than another's, and how sure that is.

    `mean` and `standard_deviation` are in the unit of the runs' losses; a mean > 0 is a gain. Its
    `probability` makes it `sure`, but not of a mixture far from every run. A Gaussian process knows
    both losses jointly. Of another regression the errors of two new runs count, as far as
    cross-validation told them and both mixtures are near runs; else none is told.
    """
    own, others = model.predict(np.stack([weights, other]))
    if isinstance(model, GaussianProcess):
        mean, deviation = model.gap(weights, other)
    else:
        mean, deviation = float(others - own), np.sqrt(2) * (model.deviation or 0.0)
        if model.deviation is None or region.far(weights) or region.far(other):
            return {"mean": mean, "sure": None if model.deviation is None else False}
    same = bool((weights == other).all()) or not deviation
    probability = float(mean > 0) if same else NormalDist().cdf(mean / deviation)
    sure = probability >= SURE and not region.far(weights)
    return {
        "mean": mean, "standard_deviation": 0.0 if same else deviation,
        "probability": probability, "sure": sure,
    }  # fmt: skip


def _predicted(
    model: AnyRegression, mixture: Mixture, prior: np.ndarray
) -> Mapping[str, tuple[float, float | None]]:
    """Returns the losses of a run on these weights, the prior and equal shares."""
    compared = {
        "weights": np.array(mixture.weights),
        "prior": prior,
        "uniform": np.full(len(prior), 1 / len(prior)),
    }
    stacked = np.stack(list(compared.values()))
    means, deviations = model.predict(stacked).tolist(), deviation_of_run(model, stacked)
    told = [None] * len(means) if deviations is None else deviations.tolist()
    return dict(zip(compared, zip(means, told, strict=True), strict=True))


def _notes(
    gain: Mapping[str, Any], distance: Mapping[str, Any], runs: int, domains: int
) -> list[str]:
    """Returns what whoever uses the mixture has to know."""
    notes = []
    if runs < domains:
        notes.append(
            f"Fitted to {runs} runs of {domains} domains, fewer runs than domains: what a domain "
            "is worth is mostly the regression's assumption."
        )
    if gain["mean"] <= 0:
        notes.append("No mixture is predicted to be better than the prior: this is no improvement.")
    elif gain["sure"] is False:
        probability = gain.get("probability")
        told = "unknown" if probability is None else f"{probability:.0%}"
        notes.append(
            f"No sure improvement on the prior: its predicted loss is {gain['mean']:.4f} lower; "
            f"the probability that it is better is {told}."
        )
    if distance["far"] or distance["held"]:
        notes.append(distance["words"])
    return notes
