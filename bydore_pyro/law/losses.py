"""Losses of mixtures under the law, on targets that are made of its rows.

With ``C`` the targets' composition and ``f(w)`` the shares of fresh text that weights amount to ::

    L_q(w) = sum_t C_qt L_t(length f(w))
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from bydore_pyro.law.law import LawDraws

__all__ = ["PER_TOKEN", "loss_differences", "losses_of"]

PER_TOKEN = "nats per token"  # the unit of the law's losses


def losses_of(
    draws: LawDraws,
    mixtures: Tensor,
    composition: Tensor | None = None,
    effective: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Returns draws of the losses of M mixtures on Q targets ``(S, M, Q)``, nats per token.

    Args:
        draws: Of the law.
        mixtures: Weights ``(M, K)``.
        composition: See `Goal`; the law's T rows are the targets when None.
        effective: See `Goal`.

    Raises:
        ValueError: When a shape is not the law's, a weight is below 0, or a target's composition is
            not >= 0 of sum > 0.
    """
    made = checked_composition(composition, draws)
    shares = torch.as_tensor(mixtures).double()
    if effective is not None:
        shares = effective(shares)
    rows = draws.losses(draws.runs.length * shares)
    return rows if made is None else rows @ made.mT


def loss_differences(
    draws: LawDraws,
    mixture: Tensor,
    other: Tensor,
    composition: Tensor | None = None,
    effective: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Returns draws of the loss under a mixture less that under another ``(S, Q)``.

    They are paired: what both share, such as a target's level, drops out. Nats per token, below 0
    where the mixture is better.

    Args:
        draws: Of the law.
        mixture: Weights ``(K,)``.
        other: Likewise.
        composition: As for `losses_of`.
        effective: Likewise.

    Raises:
        ValueError: As `losses_of`.
    """
    losses = losses_of(draws, torch.stack([mixture, other]), composition, effective)
    return losses[:, 0] - losses[:, 1]


def checked_composition(composition: Tensor | None, draws: LawDraws) -> Tensor | None:
    """Returns a composition in float64; rows whose sum is nearly 1 have exactly that sum.

    Raises:
        ValueError: When it is not ``(Q, T)`` or ``(S, Q, T)``, finite, >= 0, with rows of sum > 0.
    """
    if composition is None:
        return None
    made, (count, rows) = torch.as_tensor(composition).double(), draws.level.shape
    fits = made.dim() in (2, 3) and made.shape[-1] == rows and made.shape[-2] > 0
    if not fits or (made.dim() == 3 and len(made) != count):
        raise ValueError(
            f"Expected a composition (Q, {rows}) or ({count}, Q, {rows}), "
            f"actual {tuple(made.shape)}"
        )
    sums = made.sum(-1, keepdim=True)
    least, lowest = float(made.min()), float(sums.min())
    if not (least >= 0 and lowest > 0 and float(sums.max()) < math.inf):  # nor is a NaN
        raise ValueError(
            "Expected a composition >= 0 with rows of sum > 0, actual least "
            f"{least:g}, a sum of {lowest:g}"
        )
    return torch.where((sums - 1).abs() < 1e-4, made / sums, made)
