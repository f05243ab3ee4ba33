"""The mixture to train on, when the composition of the target is known.

`bydore_pyro.core.matching` says of which mixture ``w`` of fresh text the target is made: there the
mixture's gradient, times a scale ``s``, equals the target's. Three things make another mixture
``w'`` better for a run. A step of a share ``rho`` of the match's length should go further along the
gradients that lead furthest. Text that is read again teaches less: weights ``w'`` amount to
``v(w')`` in fresh text. And a target may be of another kind than all domains: its gradient then
pulls in ways ``r`` that no mixture explains (`Matching.residual`). The best ``w'`` on the simplex
minimises the loss to second order, ::

    - rho v(w') . (A w + r / s)  +  1/2 rho^2 v(w')' A v(w')

At ``rho = 1``, where no text is read again and the domains cover the target, it is ``w``. Towards
``rho = 0`` it is the one domain whose gradient goes furthest along the target's. Each draw of the
posterior of ``w`` and ``s`` gives a draw of ``w'``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bydore_pyro.core.matching import Matching
from bydore_pyro.core.quadratic import least_on_simplex
from bydore_pyro.core.repeated import Effective, most_likely_weights

__all__ = ["run_mixture"]


def run_mixture(
    matching: Matching,
    weights: Tensor,
    scale: Tensor,
    length: float = 1.0,
    effective: Effective | None = None,
) -> Tensor:
    """Returns the weights ``w'`` of a run, ``(D, K)``, float64, each summing to 1.

    Args:
        matching: The evidence; negative eigenvalues of its ``A`` count as 0.
        weights: ``w`` of D draws, or of the one answer, ``(D, K)``.
        scale: ``s > 0`` of each ``(D,)``.
        length: ``rho``, in (0, 1].
        effective: ``v``, of weights ``(..., K)``; ``v = w`` when None.

    Raises:
        ValueError: When the length is not in (0, 1].
    """
    if not 0 < length <= 1:
        raise ValueError(f"Expected a length in (0, 1], actual {length}")
    weights, residual = weights.double(), matching.residual
    covered = not residual.any()
    values, vectors = torch.linalg.eigh(matching.gram)
    gram = (vectors * values.clamp(min=0)) @ vectors.T

    def best(w: Tensor, s: Tensor) -> Tensor:
        if length == 1 and covered and (effective is None or torch.equal(effective(w), w)):
            return w
        pull = length * (gram @ w + residual / s)
        if effective is None:
            return least_on_simplex(length**2 * gram, pull)
        return most_likely_weights(pull, length**2 * gram, effective)

    return torch.stack([best(w, s) for w, s in zip(weights, scale.double(), strict=True)])
