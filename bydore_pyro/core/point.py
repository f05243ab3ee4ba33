"""The one mixture that stands for a posterior of mixtures."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["central_weights"]


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
