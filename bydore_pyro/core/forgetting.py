"""How much older rounds of evidence count beside the newest: as far as they agree with it."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from bydore_pyro.core.matching import RoundEvidence, match

__all__ = ["importance_of"]


def importance_of(rounds: Sequence[RoundEvidence]) -> list[float]:
    """Returns what each round counts for (`match`), in (0, 1]: 1 for the newest, else ::

        min(1, d / D)

    The optimum of the older round alone loses ``D`` nats by the evidence of the newest alone, which
    has ``d`` domains in its own optimum. Rounds of one size that differ by noise have ``D = d`` in
    the mean: both optima err, each by ``d / 2`` nats. So evidence adds up where a mixture of the
    domains is like the target, and is forgotten where what is nearest changes as a model learns.

    Args:
        rounds: In their order, the newest last.

    Raises:
        ValueError: See `match`.
    """
    newest = match(rounds[-1:])

    def worth(u: Tensor) -> float:
        return float(newest.linear @ u - u @ newest.precision @ u / 2)

    best, free = worth(newest.optimum), int((newest.optimum > 0).sum())
    lost = [best - worth(match([older]).optimum) for older in rounds[:-1]]
    return [*(min(1.0, max(free, 1) / max(nats, 1e-9)) for nats in lost), 1.0]
