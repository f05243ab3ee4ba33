"""The mixture for a virtual step of another length than the match's.

`bydore_pyro.core.matching.match` finds the mixture ``w`` and the scale ``s`` at which ``s`` times
its gradient equals the target's, ``u = s w``. A step of a share ``rho`` of that length wants
another mixture, the one ``w'`` on the simplex that minimises in the metric of the loss ::

    || sum_k (u_k - rho s w'_k) m_k ||^2  =  (u - rho s w')' A (u - rho s w')

At ``rho = 1`` this is the match itself. Towards ``rho = 0`` only the linear term is left: the one
domain whose gradient goes furthest along the target's. Each draw of the posterior of ``u`` is a
draw of the mixture for the shorter step.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bydore_pyro.core.evidence import Effective
from bydore_pyro.core.quadratic import least_on_simplex
from bydore_pyro.core.repeated import most_likely_weights

__all__ = ["shorter_step"]


def shorter_step(
    gram: Tensor, weights: Tensor, scale: Tensor, length: float, effective: Effective | None = None
) -> Tensor:
    """Returns the weights for a step of another length, ``(D, K)``, float64, each summing to 1.

    Args:
        gram: ``A (K, K)``; negative eigenvalues count as 0.
        weights: ``w`` of D draws, or of the one answer, ``(D, K)``.
        scale: ``s > 0`` of each ``(D,)``; without use beside `effective`.
        length: ``rho``, in (0, 1].
        effective: What weights ``(..., K)`` amount to in fresh text, in the unit of ``u``;
            ``s w`` when None.

    Raises:
        ValueError: When the length is not in (0, 1].
    """
    if not 0 < length <= 1:
        raise ValueError(f"Expected a length in (0, 1], actual {length}")
    weights, gram = weights.double(), gram.double()
    if length == 1:
        return weights
    values, vectors = torch.linalg.eigh(gram)
    gram = (vectors * values.clamp(min=0)) @ vectors.T
    found = []
    for w, s in zip(weights, scale.double(), strict=True):
        if effective is None:
            found.append(least_on_simplex((length * s) ** 2 * gram, length * s**2 * gram @ w))
        else:
            pull = length * gram @ effective(w)
            found.append(most_likely_weights(pull, length**2 * gram, effective))
    return torch.stack(found)
