"""How much each domain's weight lowers the validation loss, by finite differences.

One virtual step `theta~ = theta - eta sum_k w_k grad ell_k(theta)` gives

    g_k = - d L_val(theta~) / d w_k = eta <grad L_val, grad ell_k>               (nats per token)

so `g_k > 0` means that training on domain `k` lowers the validation loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor

__all__ = ["Parameters", "finite_difference", "step_size"]

Parameters = Mapping[str, Tensor]  # a language model's parameters by name


def step_size(theta: Parameters, direction: Parameters, rule: Literal["paper", "darts"]) -> float:
    """Returns the finite difference's `epsilon`.

    Args:
        theta: The parameters.
        direction: ``D``, of the same names and shapes.
        rule: ``"paper"`` for ``0.01 / ||theta||``, ``"darts"`` for ``0.01 / ||D||``.

    Raises:
        ValueError: When the rule is unknown or the norm it divides by is not positive and finite.

    References:
        Yuan et al., Bayesian Domain Reweighting, section "Experimental Results";
        Liu et al., DARTS, section 2.3.
    """
    if rule not in ("paper", "darts"):
        raise ValueError(f"Expected rule 'paper' or 'darts', actual {rule!r}")
    norm = _norm(theta if rule == "paper" else direction)
    if not 0 < norm < float("inf"):
        raise ValueError(f"Expected a norm > 0 for the step size, actual {norm}")
    return 0.01 / norm


def finite_difference(
    losses: Callable[[Parameters], Tensor],
    theta: Parameters,
    direction: Parameters,
    eta: float,
    epsilon: float,
) -> Tensor:
    """``g_k = eta (ell_k(theta + eps D) - ell_k(theta - eps D)) / (2 eps)``, error ``O(eps^2)``.

    `theta` is only read: the perturbed parameters are copies.

    Args:
        losses: Maps parameters to the domains' losses ``(K,)``, nats per token.
        theta: The parameters around which the losses are differenced.
        direction: ``D``, the gradient of the validation loss (a negative log-likelihood).
        eta: The step size of the virtual step, > 0.
        epsilon: The perturbation's scale, > 0.

    Returns:
        ``g (K,)``, nats per token of validation loss per unit of weight, positive where the domain
        helps.

    Raises:
        ValueError: When `eta` or `epsilon` is not positive.

    References:
        Yuan et al., Bayesian Domain Reweighting, Eq. "phi_update_iter" and its appendix.
    """
    if not eta > 0:
        raise ValueError(f"Expected eta > 0, actual {eta}")
    if not epsilon > 0:
        raise ValueError(f"Expected epsilon > 0, actual {epsilon}")
    with torch.no_grad():
        above = losses({name: p + epsilon * direction[name] for name, p in theta.items()})
        below = losses({name: p - epsilon * direction[name] for name, p in theta.items()})
    return eta * (above - below) / (2 * epsilon)


def _norm(tensors: Parameters) -> float:
    norms = [torch.linalg.vector_norm(t.detach(), dtype=torch.float64) for t in tensors.values()]
    return torch.stack(norms).norm().item()
