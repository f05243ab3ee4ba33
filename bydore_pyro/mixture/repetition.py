"""Text that is read again teaches less: the share of fresh text that a weight amounts to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

REPETITION_CONSTANT = 15.0  # R by Muennighoff et al.; up to 7 readings mixtures of ours agree


def effective_shares(
    weights: Tensor, epochs_per_unit_weight: Tensor | float, constant: Tensor | float
) -> Tensor:
    """Returns the shares ``v`` of fresh text that teach as much as the repeated text of a run.

    With ``e_k = w_k N / U_k`` epochs of domain k, in a run of N tokens::

        v_k = w_k                                             where e_k <= 1
        v_k = U_k / N (1 + R (1 - exp(-(e_k - 1) / R)))       beyond

    So ``v <= w``. It grows with ``w``, with the slope ``exp(-(e_k - 1) / R)``, which is continuous:
    a reading that is R later teaches 1 / e as much. At most ``1 + R`` epochs' worth can be learned.

    Args:
        weights: ``w``, shares of the run, at least 0, ``(..., K)``.
        epochs_per_unit_weight: ``N / U_k``, at least 0: how often a run of the domain alone would
            read it; ``(K,)`` or one for all. 0 for text without end.
        constant: ``R > 0``, in epochs, ``(K,)`` or one for all.

    Returns:
        Shares of the run ``(..., K)``; less than 1 in sum where text is repeated.

    Raises:
        ValueError: When a rate is below 0 or a constant not above 0, or one is not finite.

    References:
        Muennighoff et al. (2023), Scaling Data-Constrained Language Models, arXiv 2305.16264,
        equation 5, with R of their fit.
    """
    import torch

    rate = torch.as_tensor(epochs_per_unit_weight, dtype=weights.dtype, device=weights.device)
    fading = torch.as_tensor(constant, dtype=weights.dtype, device=weights.device)
    if not bool(((rate >= 0) & rate.isfinite()).all()):
        raise ValueError(f"Expected finite epochs_per_unit_weight >= 0, actual {rate.tolist()}")
    if not bool(((fading > 0) & fading.isfinite()).all()):
        raise ValueError(f"Expected a finite constant R > 0, actual {fading.tolist()}")
    again = (weights * rate - 1).clamp(min=0)  # epochs beyond the first
    # What is lost, in epochs: exactly 0, with slope 0, up to the first epoch's end.
    lost = again + fading * torch.expm1(-again / fading)
    return weights - lost / rate.clamp(min=torch.finfo(weights.dtype).tiny)
