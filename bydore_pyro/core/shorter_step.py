"""The mixture for a run that goes only a part of the way to the target.

`bydore_pyro.core.matching.match` finds the mixture whose gradient equals the target's: the best one
for a run that removes all of that gradient. A shorter run is a shorter virtual step. With a share
``r`` of the match's length it minimises over the simplex ::

    || m - r s sum_k w_k m_k ||^2  =  const - 2 r s c . w + (r s)^2 w'Aw

At ``r = 1`` that is the match. Towards ``r = 0`` only the linear term is left, and the mixture is
the one domain whose gradient goes furthest along the target's.
"""

from __future__ import annotations

from torch import Tensor

from bydore_pyro.core.evidence import Effective
from bydore_pyro.core.matching import Matching
from bydore_pyro.core.repeated import most_likely_weights

__all__ = ["shorter_step"]


def shorter_step(matching: Matching, share: float, effective: Effective | None = None) -> Tensor:
    """Returns the weights ``(K,)`` for a step of a share of the match's length, in float64.

    Gradients are compared in the metric of the loss, ``A``. The match itself is the optimum of the
    evidence, whose metric is ``A B^-1 A``. So a share of 1 is close to the match, but not the same.

    Args:
        matching: The evidence of all rounds.
        share: ``r``, in (0, 1].
        effective: What weights amount to in fresh text, in the unit of ``u = s w``; ``s w`` when
            None, with the scale of the match. Uniform weights where that scale is 0.

    Raises:
        ValueError: When the share is not in (0, 1].
    """
    if not 0 < share <= 1:
        raise ValueError(f"Expected a share in (0, 1], actual {share}")
    scale = matching.scale
    if not scale > 0:
        return matching.weights
    shares = effective or (lambda weights: scale * weights)
    return most_likely_weights(share * matching.cross, share**2 * matching.gram, shares)
