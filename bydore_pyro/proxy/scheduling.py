"""How weights become a training batch: the four strategies of the paper."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

__all__ = ["STRATEGIES", "Strategy", "schedule", "systematic_counts"]

Strategy = Literal["intra_sampling", "inter_sampling", "intra_weighting", "inter_weighting"]
STRATEGIES: tuple[str, ...] = get_args(Strategy)


def schedule(
    strategy: Strategy, weights: Tensor, batch_size: int, generator: torch.Generator | None = None
) -> tuple[Tensor, Tensor]:
    """Draws a batch's sequences by domain, and the factors that their losses get.

    A batch's loss is the mean over its sequences of factor times loss; under every strategy its
    expectation is ``sum_k w_k ell_k``.

    ==================  =======================================  ==================
    strategy            sequences                                factor of domain k
    ==================  =======================================  ==================
    `intra_sampling`    systematic sampling by the weights       1
    `inter_sampling`    all of one domain, drawn by the weights  1
    `intra_weighting`   systematic sampling, uniform             ``K w_k``
    `inter_weighting`   all of one domain, drawn uniformly       ``K w_k``
    ==================  =======================================  ==================

    Args:
        strategy: One of the four.
        weights: Weights on the simplex ``(K,)``.
        batch_size: ``B``, sequences in the batch, at least 1.
        generator: Source of the draws.

    Returns:
        Counts ``(K,)``, int64, that add up to ``B``, and factors ``(K,)``; both on the CPU.

    Raises:
        ValueError: When the strategy is unknown or the batch is empty.

    References:
        Yuan et al., Bayesian Domain Reweighting, appendix F, (i) to (iv). The factor K of (iv)
        holds for (iii) too, whose sum over domains is not a mean.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"Expected strategy one of {STRATEGIES}, actual {strategy!r}")
    weights = weights.detach().double().cpu()
    uniform = torch.full_like(weights, 1 / len(weights))
    sampling = strategy.endswith("sampling")
    shares = weights / weights.sum() if sampling else uniform
    if strategy.startswith("intra"):
        counts = systematic_counts(shares, batch_size, generator)
    else:
        counts = batch_size * systematic_counts(shares, 1, generator)
    factors = torch.ones_like(weights) if sampling else len(weights) * weights
    return counts, factors.float()


def systematic_counts(
    weights: Tensor, batch_size: int, generator: torch.Generator | None = None
) -> Tensor:
    """Draws how many sequences of a batch come from each domain, by systematic sampling.

    One uniform offset ``u`` places the points ``u, u + 1, ..., u + B - 1`` on the cumulated
    weights times ``B``: the counts add up to ``B``, ``E[n_k] = w_k B``, and each is the floor or
    the ceiling of ``w_k B``. (The paper's ``floor(w_k B)`` is biased and does not add up.)

    Args:
        weights: Weights on the simplex ``(K,)``.
        batch_size: ``B``, sequences in the batch, at least 1.
        generator: Source of the offset.

    Returns:
        Counts ``(K,)``, int64, on the CPU.

    Raises:
        ValueError: When the batch is empty.

    References:
        Yuan et al., Bayesian Domain Reweighting, appendix F, (i).
    """
    if batch_size < 1:
        raise ValueError(f"Expected batch_size >= 1, actual {batch_size}")
    edges = weights.detach().double().cpu().cumsum(0) * batch_size
    edges = edges * (batch_size / edges[-1])  # the last edge is B exactly, whatever the rounding
    offset = torch.rand((), generator=generator, dtype=torch.float64)
    # Points below an edge e: those u + i < e, that is ceil(e - u) of them.
    below = (edges - offset).ceil().clamp(0, batch_size).long()
    below[-1] = batch_size
    return torch.diff(below, prepend=below.new_zeros(1))
