"""How much each domain's weight lowers the validation loss: finite differences, forward mode.

One virtual step `theta~ = theta - eta sum_k w_k grad ell_k(theta)` gives

    g_k = - d L_val(theta~) / d w_k = eta <grad L_val, grad ell_k>               (nats per token)

so `g_k > 0` means that training on domain `k` lowers the validation loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

__all__ = ["Parameters", "finite_difference", "forward_mode"]

Parameters = Mapping[str, Tensor]  # a language model's parameters by name


def finite_difference(
    losses: Callable[[Parameters], Tensor],
    theta: Parameters,
    direction: Parameters,
    eta: float,
    epsilon: float | None = None,
) -> tuple[Tensor, Tensor]:
    """``g_k = eta (ell_k(theta + eps D) - ell_k(theta - eps D)) / (2 eps)``, error ``O(eps^2)``.

    `theta` is only read: the perturbed parameters are copies.

    Args:
        losses: Maps parameters to the domains' losses ``(K,)``, nats per token.
        theta: The parameters around which the losses are differenced.
        direction: ``D``, the gradient of the validation loss (a negative log-likelihood).
        eta: The step size of the virtual step, > 0.
        epsilon: The perturbation's scale, > 0; by default DARTS's ``0.01 / ||D||``.

    Returns:
        The losses at `theta` ``(K,)``, nats per token, as the mean of both sides (error
        ``O(eps^2)``), and ``g (K,)``, nats per token of validation loss per unit of weight,
        positive where the domain helps.

    Raises:
        ValueError: When `eta` or `epsilon` is not positive.

    References:
        Yuan et al., Bayesian Domain Reweighting, section 2.4 (the update of Phi) and appendix A;
        Liu et al., DARTS, arXiv 1806.09055, section 2.3.
    """
    if epsilon is None:
        norms = [torch.linalg.vector_norm(t, dtype=torch.float64) for t in direction.values()]
        norm = torch.stack(norms).norm().item()
        # Where there is no finite direction g is 0 or NaN, whatever the step.
        epsilon = 0.01 / norm if 0 < norm < float("inf") else 1.0
    for name, value in (("eta", eta), ("epsilon", epsilon)):
        if not value > 0:
            raise ValueError(f"Expected {name} > 0, actual {value}")
    with torch.no_grad():
        above = losses({name: p + epsilon * direction[name] for name, p in theta.items()})
        below = losses({name: p - epsilon * direction[name] for name, p in theta.items()})
    return (above + below) / 2, eta * (above - below) / (2 * epsilon)


def forward_mode(
    losses: Callable[[Parameters], Tensor],
    theta: Parameters,
    direction: Parameters,
    eta: float,
) -> tuple[Tensor, Tensor]:
    """``g_k = eta <grad ell_k(theta), D>``, exact, by one Jacobian-vector product.

    Attention runs in torch's plain implementation: the fused ones have no forward-mode rule.
    Arguments and results are those of `finite_difference`.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        found, derivative, *_ = torch.func.jvp(losses, (dict(theta),), (dict(direction),))
    return found, eta * derivative
