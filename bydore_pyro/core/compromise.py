"""One mixture for several targets, and what a mixture gives away on one of them.

A target's gradient is that of ``u``, as far as the domains explain it. Of its length the gradient
of a mixture ``w`` explains the cosine of the angle between the two, in the metric ``A``::

    cos(u, w) = u'A w / (|u| |w|),   |u|^2 = u'A u

So targets of long gradients count no more than others, and no scale matters.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.core.quadratic import least

__all__ = ["best_for_mean", "best_for_worst", "given_away"]


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
