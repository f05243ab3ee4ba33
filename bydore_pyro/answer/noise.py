"""Noise between runs of one mixture, and what it takes to decide a target that is undecided.

Two runs of one mixture with different seeds differ in their losses. The standard deviation ``s`` of
one run's loss is measured where there are such runs, else it is that of the law's noise
(`bydore_pyro.answer.forecast.noise_variance`).

A target is undecided where the probability that one run has a lower loss than the other is between
0.1 and 0.9. With ``d`` the expected difference and ``z = 1.28`` the normal quantile of 0.9, the
means of ``N`` runs on each of the two mixtures, ``N`` times the steps, decide it from ::

    N = 2 (z s / d)^2

on. What a target is made of is the less sure, the fewer documents it has. With ``V_u`` the variance
of the expected difference that comes from this, ``V`` the variance of the difference of two runs,
and ``n`` the target's documents, the forecast itself decides it with ``m`` documents more ::

    V - V_u + V_u n / (n + m) = (d / z)^2

where there is such an ``m``. It presumes that ``V_u`` falls as one over the number of documents.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import torch
from torch import Tensor

from bydore_pyro import files
from bydore_pyro.answer.forecast import Forecast, Noise, noise_variance

SURE = 0.9  # a probability from which on a difference is decided
MOST_RUNS = 10_000  # that are counted; more stand for any number
FEWEST_FREE = 2  # degrees of freedom from which on a deviation counts as measured


@dataclass(frozen=True, kw_only=True)
class Needed:
    """What would decide a target: so many runs on each of the two mixtures, 10,000 for that many or
    more; or so many documents of the target more, None where no number of them would."""

    runs: files.Number
    documents: files.Number | None = None


def noise_of_runs(groups: Sequence[Sequence[float]]) -> Noise | None:
    """Returns the standard deviation of a run's loss, pooled over groups of runs that differ in
    their seeds alone; None of fewer than two degrees of freedom.

    Args:
        groups: The losses of the runs on each mixture.
    """
    several = [torch.tensor(one).double() for one in groups if len(one) > 1]
    free = sum(len(one) - 1 for one in several)
    if free < FEWEST_FREE:
        return None
    squares = sum(float((one - one.mean()).square().sum()) for one in several)
    return Noise(deviation=math.sqrt(squares / free), runs=free + len(several))


def noise_of(forecast: Forecast) -> dict[str, Noise]:
    """Returns the standard deviation of one run's loss on each target, in its unit, and on their
    mean; none for the worst of several."""
    made, sigma = forecast.compositions, forecast.law.noise[:, None]  # (S, Q, K), (S, 1, K)
    names = [*forecast.importance]
    if forecast.together is not None and not forecast.worst:
        mean = torch.einsum("q,...qk->...k", forecast.shares, made)[..., None, :]
        made, names = torch.cat([made, mean], -2), [*names, forecast.together]
    by_law = noise_variance(made, sigma).mean(0).sqrt().tolist()
    rows = zip(names, by_law, strict=True)
    return {name: forecast.noise.get(name, Noise(deviation=own)) for name, own in rows}


def needed(
    forecast: Forecast, mixture: Tensor, other: Tensor, noise: Mapping[str, Noise]
) -> dict[str, Needed]:
    """Returns what would decide those targets on which it is open which of two mixtures is better.

    Args:
        forecast: Of the losses.
        mixture: Weights ``(K,)``.
        other: Likewise.
        noise: See `noise_of`.
    """
    both = torch.stack([mixture, other])
    measured, expected = forecast.measured(both), forecast.losses(both)
    apart = measured[:, 0] - measured[:, 1]  # (4 S, texts)
    count = len(forecast.importance)
    domains = (expected[:, 0] - expected[:, 1])[:, count : count + len(forecast.names)].mean(0)
    made = (forecast.compositions @ domains).expand(len(expected), -1)  # (S, Q)
    of_making = made.var(0).tolist()
    z = NormalDist().inv_cdf(SURE)
    found = {}
    for place, name in enumerate(forecast.importance):
        own = apart[:, place]
        better, mean, variance = (
            float(x) for x in ((own < 0).double().mean(), own.mean(), own.var())
        )
        if not 1 - SURE < better < SURE:
            continue
        least = z * noise[name].deviation / MOST_RUNS**0.5
        runs = MOST_RUNS if abs(mean) <= least else 2 * (z * noise[name].deviation / mean) ** 2
        documents, known = forecast.documents.get(name, 0), of_making[place]
        room = (mean / z) ** 2 - (variance - known)
        more = math.ceil(documents * (known / room - 1)) if room > 0 else 0
        found[name] = Needed(
            runs=min(MOST_RUNS, max(1, math.ceil(runs))), documents=more if more > 0 else None
        )
    return found
