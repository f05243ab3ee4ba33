"""The one mixture: of a posterior, for a run of some length, or for several targets.

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

So targets of long gradients count no more than others, and no scale matters.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.core.matching import Matching
from bydore_pyro.core.quadratic import Effective, least, least_on_simplex, most_likely_weights

__all__ = ["best_for_mean", "best_for_worst", "central_weights", "given_away", "run_mixture"]


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

    def best(w: Tensor, s: Tensor) -> Tensor:
        if length == 1 and covered and (effective is None or torch.equal(effective(w), w)):
            return w
        pull = length * (gram @ w + residual / s)
        if effective is None:
            return least_on_simplex(length**2 * gram, pull)
        return most_likely_weights(pull, length**2 * gram, effective)

    return torch.stack([best(w, s) for w, s in zip(weights, scale.double(), strict=True)])


def given_away(gram: Tensor, u: Tensor, weights: Tensor) -> Tensor:
    """Returns ``1 - cos^2``: the share in [0, 1] of a gradient that a mixture leaves, ``(...)``.

    It is ``|u - s w|^2 / |u|^2`` at the best scale ``s >= 0``.

    Args:
        gram: ``A (K, K)``.
        u: What targets are made of, ``(..., K)``.
        weights: Of a mixture ``(K,)``.
    """
    along, own = (u @ gram) @ weights, weights @ gram @ weights
    length = ((u @ gram) * u).sum(-1)
    return (1 - along.clamp(min=0).square() / (own * length)).clamp(0, 1)


def best_for_mean(gram: Tensor, u: Tensor) -> Tensor:
    """Returns the weights ``(K,)`` of the largest mean cosine with several targets ``(T, K)``.

    The largest ``g.x / |x|`` over ``x >= 0`` lies where ``x`` is nearest to ``g``, the sum of the
    targets at unit length.
    """
    pull = gram @ _at_unit_length(gram, u).sum(0)
    found = least(gram, pull)
    return found / found.sum()


def best_for_worst(gram: Tensor, u: Tensor) -> Tensor:
    """Returns the weights ``(K,)`` of the largest least cosine with several targets ``(T, K)``.

    The shortest ``x >= 0`` whose product with every target at unit length is at least 1: a convex
    quadratic problem. Where there is none, the mixture for the mean.
    """
    from scipy.optimize import minimize

    start = best_for_mean(gram, u)
    unit = _at_unit_length(gram, u)
    pull = (unit @ gram).numpy()  # (T, K)
    metric = gram.double().numpy()
    begun = start.numpy() / max(float((pull @ start.numpy()).min()), 1e-3)
    size = float(begun @ metric @ begun)
    found = minimize(
        lambda x: x @ metric @ x / size,
        begun,
        jac=lambda x: 2 * metric @ x / size,
        method="SLSQP",
        bounds=[(0, None)] * len(begun),
        constraints={"type": "ineq", "fun": lambda x: pull @ x - 1, "jac": lambda _: pull},
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    x = np.clip(found.x, 0, None)
    weights = torch.from_numpy(x / x.sum()) if x.sum() > 0 else start
    worst = [float(given_away(gram, u, w).max()) for w in (weights, start)]
    return weights if worst[0] <= worst[1] else start


def _at_unit_length(gram: Tensor, u: Tensor) -> Tensor:
    u = u.double()
    return u / ((u @ gram) * u).sum(-1, keepdim=True).clamp(min=1e-300).sqrt()
