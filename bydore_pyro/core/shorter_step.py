"""The mixture for a virtual step of another length than the match's.

`bydore_pyro.core.matching.match` finds the mixture ``w`` and the scale ``s`` at which ``s`` times
its gradient equals the target's. A step of a share ``rho`` of that length wants another mixture,
the one that minimises over the simplex ::

    || m - rho s sum_k w_k m_k ||^2  =  const - 2 rho s c . w + (rho s)^2 w'Aw

At ``rho = 1`` this is the match in the metric of the loss (``A``), close to that of the evidence
(``A B^-1 A``). Towards ``rho = 0`` only the linear term is left: the one domain whose gradient goes
furthest along the target's.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bydore_pyro.core.evidence import Effective
from bydore_pyro.core.matching import Matching
from bydore_pyro.core.repeated import most_likely_weights

__all__ = ["shorter_step"]


def shorter_step(matching: Matching, length: float, effective: Effective | None = None) -> Tensor:
    """Returns the weights ``(K,)`` for a step of another length, float64, summing to 1.

    Uniform weights where the match's scale is 0. Negative eigenvalues of ``A`` count as 0.

    Args:
        matching: The evidence of all rounds, of K domains.
        length: ``rho``, in (0, 1], as a share of `matching.scale`.
        effective: What weights ``(K,)`` amount to in fresh text, in the unit of ``u = s w``;
            ``s w`` when None.

    Raises:
        ValueError: When the length is not in (0, 1].
    """
    if not 0 < length <= 1:
        raise ValueError(f"Expected a length in (0, 1], actual {length}")
    scale = matching.scale
    if not scale > 0:
        return matching.weights
    values, vectors = torch.linalg.eigh(matching.gram)
    gram = (vectors * values.clamp(min=0)) @ vectors.T
    shares = effective or (lambda weights: scale * weights)
    return most_likely_weights(length * matching.cross, length**2 * gram, shares)
