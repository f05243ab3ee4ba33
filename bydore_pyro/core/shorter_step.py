"""The mixture for a run, when the composition of the target is known.

`bydore_pyro.core.matching` says of which mixture ``w`` of fresh text the target is made: there the
mixture's gradient, times a scale, equals the target's. Two things make another mixture ``w'``
better for a run. A step of a share ``rho`` of the match's length should go further along the
gradients that lead furthest. And text that is read again teaches less: weights ``w'`` amount to
``v(w')`` in fresh text. The best ``w'`` on the simplex minimises, in the metric of the loss, ::

    || sum_k (w_k - rho v_k(w')) m_k ||^2  =  (w - rho v(w'))' A (w - rho v(w'))

At ``rho = 1``, where no text is read again, it is ``w``. Towards ``rho = 0`` it is the one domain
whose gradient goes furthest along the target's. Each draw of the posterior of ``w`` gives a draw of
``w'``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bydore_pyro.core.quadratic import least_on_simplex
from bydore_pyro.core.repeated import Effective, most_likely_weights

__all__ = ["shorter_step"]


def shorter_step(
    gram: Tensor, weights: Tensor, length: float, effective: Effective | None = None
) -> Tensor:
    """Returns the weights ``w'`` of a run, ``(D, K)``, float64, each summing to 1.

    Args:
        gram: ``A (K, K)``; negative eigenvalues count as 0.
        weights: ``w`` of D draws, or of the one answer, ``(D, K)``.
        length: ``rho``, in (0, 1].
        effective: ``v``, of weights ``(..., K)``; ``v = w`` when None.

    Raises:
        ValueError: When the length is not in (0, 1].
    """
    if not 0 < length <= 1:
        raise ValueError(f"Expected a length in (0, 1], actual {length}")
    weights, gram = weights.double(), gram.double()
    values, vectors = torch.linalg.eigh(gram)
    gram = (vectors * values.clamp(min=0)) @ vectors.T

    def best(w: Tensor) -> Tensor:
        if length == 1 and (effective is None or torch.equal(effective(w), w)):
            return w
        if effective is None:
            return least_on_simplex(length**2 * gram, length * gram @ w)
        return most_likely_weights(length * gram @ w, length**2 * gram, effective)

    return torch.stack([best(w) for w in weights])
