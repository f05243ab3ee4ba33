"""How weights become a training batch: strategy (i), intra-batch sampling."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["systematic_counts"]


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

    References:
        Yuan et al., Bayesian Domain Reweighting, appendix "Data Scheduling Strategies", (i).
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
