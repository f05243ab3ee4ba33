"""How much older rounds of evidence count beside the newest: as far as they agree with it."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from bydore_pyro.core.matching import MeasuredRound, match

__all__ = ["importance_of"]


def importance_of(rounds: Sequence[MeasuredRound]) -> list[float]:
    """Returns what each round counts for (`match`), in (0, 1]: 1 for the newest, else ::

        min(1, (d - 1) / D),    D = max over u of e(u) - max over s of e(s w)

    The mixture ``w`` that the older round alone finds loses ``D`` nats by the evidence ``e`` of the
    newest alone, at whatever scale ``s``; the newest finds ``d`` domains, at least 2 are counted.
    Mixtures of rounds of one size that differ by noise lose ``d - 1`` nats in the mean: both err,
    each by half a nat a free weight. So evidence adds up where a mixture of the domains is like the
    target; where what is nearest changes as a model learns, it is forgotten, if the newest round
    knows better.

    Args:
        rounds: In their order, the newest last.

    Raises:
        ValueError: See `match`.
    """
    newest = match(rounds[-1:])

    def worth(u: Tensor) -> float:
        along, curvature = newest.linear @ u, u @ newest.precision @ u
        return float(along.clamp(min=0).square() / (2 * curvature.clamp(min=1e-300)))

    best, free = worth(newest.optimum), max(1, int((newest.optimum > 0).sum()) - 1)
    lost = [best - worth(match([older]).optimum) for older in rounds[:-1]]
    return [*(min(1.0, free / max(nats, 1e-9)) for nats in lost), 1.0]
