"""The law carried to another length than it was measured at.

What decides between domains changes as training goes on: slopes change places, powers and transfer
err. So a law is kept the less, the further it is carried. From the length ``L`` to ``N`` a share ::

    kept = max(0, 1 - |log(N / L)| / log 4)

is kept: of slopes' logarithms about their mean ``m`` over targets, of powers and of transfer ::

    log S' = m + kept (log S - m) + sqrt(1 - kept^2) sd eps,    g' = kept g,    o' = kept o

with ``sd`` the prior's and ``eps ~ N(0, 1)``. All slopes fall together, as the law says of ``N``,
and losses stay what they are on equal weights at ``L``.

Four times further nothing is kept: each target learns from its own domain alone, as its logarithm,
all alike. The best mixture is then what the targets are made of, flatter where text is read again.
There, models that were trained so long lose no less on the mixtures of a law whose slopes move as
they settle than on what the match finds (`experiments/decisions.py --times`).
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from bydore_pyro.law.law import SLOPE_SD, LawDraws

__all__ = ["FAR", "carried"]

FAR = 4.0  # times the law's length, from which on nothing of it is kept
NEARLY_NONE = 1e-3  # the least that is kept of powers and of transfer: losses stay finite
AS_MEASURED = 0.9  # of the law's length, from which on an answer is for that


def carried(draws: LawDraws, length: float, seed: int = 0) -> LawDraws:
    """Returns draws as they are expected at another length.

    The same draws where it is the law's own length, or less than a tenth shorter. Losses stay those
    of the law's own length, at equal weights.

    Args:
        draws: Of the law, at the length of its longest run.
        length: Tokens of the run that is asked for, > 0.
        seed: Of the slopes' movement.

    Raises:
        ValueError: When the length is not above 0.
    """
    if not 0 < length < math.inf:
        raise ValueError(f"Expected length > 0, finite, actual {length}")
    measured = draws.runs.length
    if AS_MEASURED * measured < length <= measured:
        return draws
    kept = max(0.0, 1 - abs(math.log(length / measured)) / math.log(FAR))
    log = draws.slope.log()
    mean = log.mean(1, keepdim=True)
    generator = torch.Generator().manual_seed(seed)
    moved = torch.randn(log.shape, generator=generator).double()
    moved = (math.sqrt(1 - kept**2) * SLOPE_SD * moved).exp()
    moved = moved * moved.mean() / moved.mean(0)  # as much for each target, in the mean over draws
    fallen = (length / measured) ** ((kept - 1) * draws.power.mean(1, keepdim=True))
    some = max(kept, NEARLY_NONE)
    there = replace(
        draws,
        slope=(mean + kept * (log - mean)).exp() * moved * fallen,
        power=some * draws.power,
        openness=some * draws.openness,
    )
    equal = torch.full((1, draws.runs.own.shape[1]), measured).double()
    equal /= equal.shape[1]
    return replace(there, level=there.level + (draws.losses(equal) - there.losses(equal))[:, 0])
