"""The law carried to another length than it was measured at.

Slopes move as training goes on, but ever less: they settle. So the logarithm of a target's slope is
taken for an Ornstein-Uhlenbeck process about the mean ``m`` over targets, whose clock is ``1 / L``.
From the length L to N < 4 L ::

    log S' = m + kappa (log S - m) + sqrt(1 - kappa^2) sd eps
    kappa = exp(-SETTLING |1 / L - 1 / N|)

with ``sd`` the prior's and ``eps ~ N(0, 1)``.

From 4 L on nothing is kept: trained so long, models lose no less on the mixtures of the carried law
than on what the match finds, and at 16 L more (`experiments/decisions.py --times`).
There ``kappa = 0``, and each target learns from its own domain alone, as its logarithm::

    L_t = E_t - S'_t log(n_t / n_0),    a_tk = 0 of other domains

so the best mixture is what the targets are made of, flatter where text is read again.

`experiments/drift.py` measures SETTLING: on runs of 2,560 steps, read at every halving, the
logarithms of 13 domains' slopes at 160, 320 and 640 steps correlate 0.73, 0.87 and 0.94 with those
at the end.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from bydore_pyro.core.law import SLOPE_SD, LawDraws

__all__ = ["FAR", "SETTLING", "carried", "kept_at", "kept_slopes"]

SETTLING = 1.1e5  # tokens
FAR = 4.0  # times the law's length, from which on nothing of it is kept
NEARLY_NONE = 1e-3  # in place of 0, of powers and of transfer: losses stay finite
AS_MEASURED = 0.9  # of the law's length, from which on an answer is for that


def kept_at(short: float, long: float) -> float:
    """Returns ``kappa`` in (0, 1]: the correlation of slopes' logarithms at two lengths, tokens."""
    return math.exp(-SETTLING * abs(1 / short - 1 / long))


def carried(draws: LawDraws, length: float, seed: int = 0) -> LawDraws:
    """Returns draws whose slopes have moved to those at another length.

    The same draws where it is the law's own length, or less than a tenth shorter. Losses stay those
    of the law's own length, at equal weights.

    Args:
        draws: Of the law, at the length of its longest run.
        length: Tokens of the run that is asked for, > 0.
        seed: Of the movement.

    Raises:
        ValueError: When the length is not above 0.
    """
    if not 0 < length < math.inf:
        raise ValueError(f"Expected length > 0, finite, actual {length}")
    if AS_MEASURED * draws.runs.length < length <= draws.runs.length:
        return draws
    times = length / draws.runs.length
    far = round(times, 3) >= FAR  # lengths of runs are float32
    kappa = 0.0 if far else kept_at(draws.runs.length, length)
    log = draws.slope.log()
    mean = log.mean(1, keepdim=True)
    generator = torch.Generator().manual_seed(seed)
    moved = torch.randn(log.shape, generator=generator).double()
    log = mean + kappa * (log - mean) + math.sqrt(1 - kappa**2) * SLOPE_SD * moved
    if not far:
        return replace(draws, slope=log.exp())
    slope = log.exp() * times ** -draws.power.mean(1, keepdim=True)  # fallen, by the law
    alike = replace(
        draws,
        slope=slope * slope.mean() / slope.mean(0),  # in the mean over draws
        power=torch.full_like(draws.power, NEARLY_NONE),
        openness=NEARLY_NONE * draws.openness,
    )
    equal = torch.full((1, draws.runs.own.shape[1]), draws.runs.length).double()
    equal /= equal.shape[1]
    return replace(alike, level=alike.level + (draws.losses(equal) - alike.losses(equal))[:, 0])


def kept_slopes(short: LawDraws, long: LawDraws) -> float:
    """Returns the correlation of two laws' mean logarithmic slopes over targets, in [-1, 1].

    `kept_at` is that of laws of the same targets at two lengths.

    Raises:
        ValueError: When they are not of as many targets, three or more.
    """
    means = [draws.slope.log().mean(0) for draws in (short, long)]
    if len(means[0]) != len(means[1]) or len(means[0]) < 3:
        raise ValueError(
            "Expected two laws of the same targets, three or more, actual "
            f"{len(means[0])} and {len(means[1])}"
        )
    return float(torch.corrcoef(torch.stack(means))[0, 1])
