"""One mixture for several targets, and what a mixture gives away on one of them.

For a target made of ``u = s w`` the loss of a virtual step, to second order, is above its lowest by
``1/2 (u - v)' A (u - v)``, where ``v`` is what the step is made of. All targets that one set of
gradients was asked for share the unit of ``A``.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.core.quadratic import least_on_simplex

__all__ = ["best_for_mean", "best_for_worst", "given_away"]


def given_away(gram: Tensor, u: Tensor, weights: Tensor) -> Tensor:
    """Returns ``(u - s w)' A (u - s w)`` at the best scale s, in the unit of ``A``, ``(...)``.

    Args:
        gram: ``A (K, K)``.
        u: What the target is made of, ``(..., K)``.
        weights: Of a mixture ``(K,)``.
    """
    along, own = (u @ gram) @ weights, weights @ gram @ weights
    return ((u @ gram) * u).sum(-1) - along.clamp(min=0).square() / own


def best_for_mean(gram: Tensor, u: Tensor) -> Tensor:
    """Returns the weights ``(K,)`` that give away least on several targets ``(T, K)`` in the mean.

    Each target's step keeps its own scale, ``sum(u)``.
    """
    scale = u.sum(-1)
    return least_on_simplex(scale.square().sum() * gram, gram @ (scale[:, None] * u).sum(0))


def best_for_worst(gram: Tensor, u: Tensor) -> Tensor:
    """Returns the weights ``(K,)`` that give away least on the target that loses most.

    A convex problem: the largest of several quadratics, on the simplex.
    """
    from scipy.optimize import minimize

    a, goals = gram.double().numpy(), u.double().numpy()
    scale = goals.sum(-1)
    unit = max(float(np.einsum("tj,jk,tk->t", goals, a, goals).max()), 1e-300)

    def losses(x: np.ndarray) -> np.ndarray:
        apart = scale[:, None] * x[:-1] - goals
        return np.einsum("tj,jk,tk->t", apart, a, apart) / unit

    def slopes(x: np.ndarray) -> np.ndarray:
        apart = scale[:, None] * x[:-1] - goals
        return np.c_[2 * scale[:, None] * (apart @ a) / unit, np.zeros(len(goals))]

    start = best_for_mean(gram.double(), u.double()).numpy()
    start = np.append(start, losses(np.append(start, 0)).max())
    last = np.zeros(len(start))
    last[-1] = 1
    found = minimize(
        lambda x: x[-1],
        start,
        jac=lambda _: last,
        method="SLSQP",
        bounds=[(0, 1)] * (len(start) - 1) + [(0, None)],
        constraints=[
            {"type": "eq", "fun": lambda x: x[:-1].sum() - 1, "jac": lambda _: 1 - last},
            {
                "type": "ineq",
                "fun": lambda x: x[-1] - losses(x),
                "jac": lambda x: last - slopes(x),
            },
        ],
        options={"maxiter": 1000, "ftol": 1e-12},
    )
    best = found.x if losses(found.x).max() <= start[-1] else start
    weights = torch.from_numpy(best[:-1].clip(min=0))
    return weights / weights.sum()
