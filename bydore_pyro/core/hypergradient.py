"""How much each domain's weight lowers the validation loss: finite differences, forward mode.

One virtual step `theta~ = theta - eta sum_k w_k grad ell_k(theta)` gives

    g_k = - d L_val(theta~) / d w_k = eta <grad L_val, grad ell_k>               (nats per token)

so `g_k > 0` means that training on domain `k` lowers the validation loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor

__all__ = ["Parameters", "balanced_step", "finite_difference", "forward_mode", "step_size"]

Parameters = Mapping[str, Tensor]  # a language model's parameters by name


def step_size(theta: Parameters, direction: Parameters, rule: Literal["paper", "darts"]) -> float:
    """Returns the finite difference's `epsilon`, > 0, which multiplies the direction.

    Args:
        theta: The parameters.
        direction: ``D``, of the same names and shapes.
        rule: ``"paper"`` for ``0.01 / ||theta||``, ``"darts"`` for ``0.01 / ||D||``.

    Raises:
        ValueError: When the rule is unknown or the norm it divides by is not positive and finite.

    References:
        Yuan et al., Bayesian Domain Reweighting, section 3;
        Liu et al., DARTS, arXiv 1806.09055, section 2.3.
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
) -> tuple[Tensor, Tensor]:
    """``g_k = eta (ell_k(theta + eps D) - ell_k(theta - eps D)) / (2 eps)``, error ``O(eps^2)``.

    `theta` is only read: the perturbed parameters are copies.

    Args:
        losses: Maps parameters to the domains' losses ``(K,)``, nats per token.
        theta: The parameters around which the losses are differenced.
        direction: ``D``, the gradient of the validation loss (a negative log-likelihood).
        eta: The step size of the virtual step, > 0.
        epsilon: The perturbation's scale, > 0.

    Returns:
        The losses at `theta` ``(K,)``, nats per token, as the mean of both sides (error
        ``O(eps^2)``), and ``g (K,)``, nats per token of validation loss per unit of weight,
        positive where the domain helps.

    Raises:
        ValueError: When `eta` or `epsilon` is not positive.

    References:
        Yuan et al., Bayesian Domain Reweighting, section 2.4 (the update of Phi) and appendix A.
    """
    _check_positive(eta=eta, epsilon=epsilon)
    with torch.no_grad():
        above = losses({name: p + epsilon * direction[name] for name, p in theta.items()})
        below = losses({name: p - epsilon * direction[name] for name, p in theta.items()})
    return (above + below) / 2, eta * (above - below) / (2 * epsilon)


def balanced_step(
    losses: Callable[[Parameters], Tensor],
    theta: Parameters,
    direction: Parameters,
    eta: float,
    start: float,
) -> tuple[float, float]:
    """Finds the `epsilon` at which truncation and round-off balance, and the error there.

    The quotient is computed on a ladder of steps, each four times the one before. Where steps are
    long, neighbours differ by truncation, where they are short, by round-off; the step whose
    quotient differs least from both its neighbours' is taken, and the larger difference is an
    estimate of its relative error. The other arguments are those of `finite_difference`.

    Args:
        start: The middle of the ladder, > 0.

    Returns:
        Epsilon, > 0, and the estimate of ``||g - exact|| / ||g||``, >= 0; NaN where g is 0.

    Raises:
        ValueError: When `eta` or `start` is not positive.
    """
    _check_positive(eta=eta, start=start)
    ladder = [start * 4.0**power for power in range(-3, 4)]
    quotients = torch.stack(
        [finite_difference(losses, theta, direction, eta, step)[1] for step in ladder]
    ).double()
    differences = (quotients[1:] - quotients[:-1]).norm(dim=1)
    error = torch.maximum(differences[1:], differences[:-1]) / quotients[1:-1].norm(dim=1)
    best = int(torch.nan_to_num(error, nan=float("inf")).argmin())
    return ladder[best + 1], float(error[best])


def forward_mode(
    losses: Callable[[Parameters], Tensor],
    theta: Parameters,
    direction: Parameters,
    eta: float,
) -> tuple[Tensor, Tensor]:
    """``g_k = eta <grad ell_k(theta), D>``, exact, by one Jacobian-vector product.

    Attention runs in torch's plain implementation: the fused ones have no forward-mode rule.
    Arguments and results are those of `finite_difference`.

    Raises:
        ValueError: When `eta` is not positive.
    """
    from torch.nn.attention import SDPBackend, sdpa_kernel

    _check_positive(eta=eta)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        found, derivative, *_ = torch.func.jvp(losses, (dict(theta),), (dict(direction),))
    return found, eta * derivative


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"Expected {name} > 0, actual {value}")


def _norm(tensors: Parameters) -> float:
    norms = [torch.linalg.vector_norm(t.detach(), dtype=torch.float64) for t in tensors.values()]
    return torch.stack(norms).norm().item()
