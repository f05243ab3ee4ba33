"""The one mixture: of a posterior, for a run of some length, for several targets.

**For a run.** `bydore_pyro.core.matching` says of which mixture ``w`` of fresh text the target is
made: there the mixture's gradient, times a scale ``s``, equals the target's. Three things make
another mixture ``w'`` better for a run. A step of a share ``rho`` of the match's length should go
further along the gradients that lead furthest. Text that is read again teaches less: weights ``w'``
amount to ``v(w')`` in fresh text. And a target may be of another kind than all domains: its
gradient then pulls in ways ``r`` that no mixture explains (`Matching.residual`). The best ``w'`` on
the simplex minimises the loss to second order, ::

    - rho v(w') . (A w + r / s)  +  1/2 rho^2 v(w')' A v(w')

At ``rho = 1``, where no text is read again and the domains cover the target, it is ``w``. Towards
``rho = 0`` it is the one domain whose gradient goes furthest along the target's. Each draw of the
posterior of ``w`` and ``s`` gives a draw of ``w'``.

**For several targets.** A target's gradient is that of ``u``, as far as the domains explain it. Of
its length the gradient of a mixture ``w`` explains the cosine of the angle between the two, in the
metric ``A``::

    cos(u, w) = u'A w / (|u| |w|),   |u|^2 = u'A u
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from bydore_pyro.core.matching import Matching
from bydore_pyro.core.quadratic import least_of, value_and_derivatives

__all__ = ["central_weights", "most_likely_weights", "run_mixture"]

# Weights to effective shares, those of text that is read again, which teaches less than fresh text;
# each by its own weight alone.
Effective = Callable[[Tensor], Tensor]

STEPS, HALVINGS = 200, 40
ENOUGH = 1e-10  # change of the weights in sum at which they stand


def central_weights(draws: Tensor) -> Tensor:
    """Returns the weights that all lie at the same quantile of their draws and sum to 1, ``(K,)``.

    Medians need not sum to 1; these are near them. So every weight lies within its interval, and a
    domain that most draws give nothing gets nothing. A mean would give it some: it follows the rare
    draws that have much.

    Args:
        draws: Weights ``(D, K)``, at least 2 draws, each on the simplex.
    """
    ordered = draws.double().sort(0).values
    total = ordered.sum(1)  # of the least weights, ..., of the largest: it grows through 1
    above = int(torch.searchsorted(total, 1.0).clamp(1, len(total) - 1))
    low, high = total[above - 1], total[above]
    share = ((1 - low) / (high - low).clamp(min=1e-300)).clamp(0, 1)
    weights = torch.lerp(ordered[above - 1], ordered[above], share)
    return weights / weights.sum()


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
    least_for = least_of(length**2 * gram)

    def best(w: Tensor, s: Tensor) -> Tensor:
        if length == 1 and covered and (effective is None or torch.equal(effective(w), w)):
            return w
        pull = length * (gram @ w + residual / s)
        if effective is None:
            return least_for(pull)
        return most_likely_weights(pull, length**2 * gram, effective)

    return torch.stack([best(w, s) for w, s in zip(weights, scale.double(), strict=True)])


def most_likely_weights(linear: Tensor, precision: Tensor, effective: Effective) -> Tensor:
    """Maximises ``h . v(w) - 1/2 v(w)' Lambda v(w)`` over the simplex.

    Where every share grows with its weight, ever more slowly, and no shares of a lesser sum than
    the simplex allows do better, there is one maximum: in ``v`` that of a concave function on a
    convex set. Newton's steps find it, each a quadratic problem on the simplex.

    Args:
        linear: ``h (K,)``.
        precision: ``Lambda (K, K)``, symmetric and positive semi-definite.
        effective: ``v``, each share a function of its own weight alone.

    Returns:
        The weights ``(K,)``, in float64.
    """
    linear, precision = linear.double(), precision.double()

    def height(weights: Tensor) -> Tensor:
        shares = effective(weights)
        return linear @ shares - shares @ precision @ shares / 2

    weights = torch.full_like(linear, 1 / len(linear))
    for _ in range(STEPS):
        shares, slope, bend = value_and_derivatives(effective, weights)
        uphill = linear - precision @ shares  # by shares, (K,)
        # Where a share's slope falls, its weight's way is shorter; the other sign is no maximum's.
        curvature = slope[:, None] * precision * slope + (-uphill * bend).clamp(min=0).diag()
        goal = least_of(curvature)(curvature @ weights + slope * uphill)
        step, before = goal - weights, height(weights)
        for _ in range(HALVINGS):
            if height(weights + step) >= before:
                break
            step = step / 2
        else:
            return weights
        weights = weights + step
        if float(step.abs().sum()) < ENOUGH:
            break
    return weights
