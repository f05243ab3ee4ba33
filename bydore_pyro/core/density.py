"""The density of the Gamma-Dirichlet compound: two nested one-dimensional integrals.

With ``s = log t``, ``x = log beta`` and ``c = b_k - log(t w_k)``::

    q(w)     = prod_k 1 / w_k  int ds exp(-e^s) prod_k h_k(e^s w_k)
    h_k(t w) = b_k^a_k / Gamma(a_k)  int dx exp((a_k + 1) x - c e^x - log Gamma(1 + e^x))

Both integrands have a single peak. The code first finds it with ``psi(1 + beta) ~ log(beta +
1/2)``, which is accurate enough to place a window. In the window the trapezoid rule takes equal
steps in a variable ``y`` that shortens the long left tails (exponential in x, algebraic in s). The
rule converges geometrically, because the integrands are smooth and vanish at both ends::

    x = x_peak + stretch(scale * y),    stretch(z) = (z + 1 - exp(-z)) / 2

The gradient treats the nodes as constants. The derivatives are expectations of ``beta`` and
``log beta`` under the integrand, and come almost for free with the value.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

__all__ = ["log_density"]

INNER_NODES = 36
OUTER_SPACING = 0.85  # in y, where the peak is narrow: a Gaussian
OUTER_SPACING_WIDE = 0.35  # in z, where it is not
NEGLIGIBLE = 24.0  # nats below the peak: where an integrand is cut off
BLOCK = 2**16  # values of the inner integrand that are held at a time
PEAK_STEPS = 8  # Newton's method for a peak over beta
MOST_STRIDES = 100  # to an end of the window over s: far more than parameters in range need
SADDLE_STEPS = 50  # Newton's method for a peak over s, at most


def log_density(log_w: Tensor, concentration: Tensor, rate: Tensor) -> Tensor:
    """Returns ``log q(w)``, nats, with first derivatives in all three arguments.

    Args:
        log_w: Logs of the weights ``(..., K)``.
        concentration: Gamma shapes ``a > 0``, broadcastable to ``(..., K)``.
        rate: Gamma rates ``b > 0``, broadcastable to ``(..., K)``.

    Returns:
        The log density with respect to the first ``K - 1`` weights, ``(...)``, in float64; NaN
        where an argument is NaN.

    Raises:
        NotImplementedError: Where a second derivative is asked for: there is none.

    References:
        The density follows from Yuan et al., Bayesian Domain Reweighting, section 2.3, with
        ``Gamma(B) = int t^(B - 1) e^-t dt`` for the Dirichlet's normaliser.
    """
    log_w, a, b = torch.broadcast_tensors(log_w.double(), concentration.double(), rate.double())
    if log_w.numel() == 0:
        return log_w.sum(-1)
    return _LogDensity.apply(log_w, a, b)


class _LogDensity(torch.autograd.Function):
    """The value, and the gradient as expectations under the integrand; arguments of one shape."""

    @staticmethod
    def forward(ctx: Any, log_w: Tensor, a: Tensor, b: Tensor) -> Tensor:
        shape = log_w.shape
        rows = max(1, BLOCK // (INNER_NODES * shape[-1]))
        parts = zip(*(x.reshape(-1, shape[-1]).split(rows) for x in (log_w, a, b)), strict=True)
        blocks = [_integrate(*part) for part in parts]
        value, beta, log_beta = (torch.cat(column) for column in zip(*blocks, strict=True))
        ctx.save_for_backward(a, b, beta.reshape(shape), log_beta.reshape(shape))
        return value.reshape(shape[:-1])

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, ...]:
        if torch.is_grad_enabled():  # what follows is to be differentiated again
            raise NotImplementedError("The density of GammaDirichlet has no second derivative")
        a, b, beta, log_beta = ctx.saved_tensors
        by = beta - 1, b.log() - torch.digamma(a) + log_beta, a / b - beta
        return tuple(upstream.unsqueeze(-1) * each for each in by)


def _integrate(log_w: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns ``log q(w) (N,)`` and ``E[beta | w], E[log beta | w] (N, K)`` for rows ``(N, K)``."""
    s, step = _outer_nodes(log_w, a, b)
    constant = (a * b.log() - torch.lgamma(a) - log_w).sum(-1)
    # Sums relative to the largest height so far.
    total, largest = torch.zeros_like(a[:, 0]), torch.full_like(a[:, 0], -math.inf)
    beta_sum, log_beta_sum = torch.zeros_like(a), torch.zeros_like(a)
    at_a_time = max(1, BLOCK // (INNER_NODES * a.numel()))
    for s_part, step_part in zip(s.split(at_a_time, 1), step.split(at_a_time, 1), strict=True):
        c = (b - log_w).unsqueeze(1) - s_part.unsqueeze(-1)  # (N, t, K)
        log_h, beta, log_beta = _inner_integral(a.unsqueeze(1), c)
        height = log_h.sum(-1) - s_part.exp()  # (N, t)
        previous, largest = largest, torch.maximum(largest, height.amax(1))
        rescale = (previous - largest).exp()
        mass = (height - largest.unsqueeze(-1)).exp() * step_part
        total = rescale * total + mass.sum(1)
        mass, rescale = mass.unsqueeze(-1), rescale.unsqueeze(-1)
        beta_sum = rescale * beta_sum + (mass * beta).sum(1)
        log_beta_sum = rescale * log_beta_sum + (mass * log_beta).sum(1)
    by_row = total.unsqueeze(-1)
    return total.log() + largest + constant, beta_sum / by_row, log_beta_sum / by_row


def _inner_integral(a: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Integrates over x; returns the log integral, ``E[beta]`` and ``E[log beta]``, like `c`."""
    mode, precision = _inner_peak(a, c)
    # Where the exponent has fallen by NEGLIGIBLE, at a distance d from the peak. For d > 0 it
    # falls at least by precision (e^d - 1 - d), for d < 0 at least by (a + 1/2) (e^d - 1 - d) and
    # at least by beta (d e^d - e^d + 1).
    above = _distance(NEGLIGIBLE / precision, 1.0)
    below = _distance(NEGLIGIBLE / (a + 0.5), -1.0)
    r = NEGLIGIBLE / mode
    below = torch.where(r < 0.5, torch.minimum(below, (2 * r).sqrt() + 2 * r), below)
    low, high = -torch.log1p(2 * below), torch.minimum(2 * above, above + above.square() / 2)
    for _ in range(3):  # Newton's method for stretch(low) = -below and stretch(high) = above
        low = low - (_stretch(low) + below) / _stretch_slope(low)
        high = high - (_stretch(high) - above) / _stretch_slope(high)
    step = (high - low) / (INNER_NODES - 1)
    places = torch.arange(INNER_NODES, dtype=c.dtype, device=c.device)
    z = low.unsqueeze(-1) + step.unsqueeze(-1) * places
    decay = torch.exp(-z)
    log_mode = mode.log()
    peak = (a + 1) * log_mode - c * mode - torch.lgamma(1 + mode)
    # In place, for most of the density's time goes here: exponent, relative to the peak, and mass.
    x = (z + 1).sub_(decay).div_(2).add_(log_mode.unsqueeze(-1))
    beta = x.exp()
    mass = torch.lgamma(1 + beta).neg_().addcmul_((a + 1).unsqueeze(-1), x)
    mass.addcmul_(c.unsqueeze(-1), beta, value=-1).sub_(peak.unsqueeze(-1)).exp_()
    mass.mul_(decay.add_(1))  # times step / 2
    total = mass.sum(-1)
    log_integral = total.log() + peak + (step / 2).log()
    dot = torch.linalg.vecdot
    return log_integral, dot(mass, beta) / total, dot(mass, x) / total


def _distance(fall: Tensor, sign: float) -> Tensor:
    """Returns ``d > 0`` with ``e^x - 1 - x >= fall`` at ``x = sign d``, and barely so."""
    d = fall + (2 * fall).sqrt()
    d = torch.log1p(d) if sign > 0 else d
    for _ in range(2):  # convex: Newton's method stays above the root
        growth = torch.expm1(sign * d)
        d = d - (growth - sign * d - fall) / (sign * growth)
    return d


def _outer_nodes(log_w: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Returns nodes ``s (N, T)`` and their weights ``(N, T)``.

    The window is placed by Laplace's approximation of the height.
    """
    peak_s, scale = _saddle_point(log_w, a, b)

    def height(y: Tensor) -> Tensor:
        s = peak_s + _stretch(scale * y)
        c = b - log_w - s.unsqueeze(-1)
        beta, precision = _inner_peak(a, c)
        log_h = (a + 1) * beta.log() - c * beta - torch.lgamma(1 + beta) - precision.log() / 2
        return log_h.sum(-1) - s.exp() + _stretch_slope(scale * y).log()

    peak = height(torch.zeros_like(peak_s))
    ends = []
    for direction in (-1.0, 1.0):
        y, stride = torch.zeros_like(peak_s), 0.5
        inside = torch.ones_like(peak_s, dtype=torch.bool)
        for _ in range(MOST_STRIDES):
            if not inside.any():
                break
            y = torch.where(inside, y + direction * stride, y)
            inside &= height(y) > peak - NEGLIGIBLE
            stride *= 1.1
        ends.append(y)
    low, high = ends
    needed = (high - low) * (scale / OUTER_SPACING_WIDE).clamp(min=1 / OUTER_SPACING)
    needed = needed.nan_to_num(nan=1.0, posinf=1.0, neginf=1.0)  # NaN in, NaN out
    count = math.ceil(float(needed.max())) + 1
    step = ((high - low) / (count - 1)).unsqueeze(-1)
    y = low.unsqueeze(-1) + step * torch.arange(count, dtype=a.dtype, device=a.device)
    z = scale.unsqueeze(-1) * y
    s = peak_s.unsqueeze(-1) + _stretch(z)
    return s, step * scale.unsqueeze(-1) * _stretch_slope(z)


def _saddle_point(log_w: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Returns where ``e^s = sum_k E[beta_k | s]``, the outer peak, and a width there, ``(N,)``.

    ``s - log sum_k E[beta_k | s]`` rises with a slope in (0, 1), which Newton's method takes from
    a difference.
    """
    s = torch.zeros_like(a[..., 0])
    ahead = torch.tensor([0.0, 1e-3], dtype=a.dtype, device=a.device).unsqueeze(-1)  # (2, 1)
    for _ in range(SADDLE_STEPS):
        beta, precision = _inner_peak(a, b - log_w - (s + ahead).unsqueeze(-1))  # (2, N, K)
        # The derivative of Laplace's log h by s; the second term is that of -log(precision) / 2.
        bend = beta * (beta + 1) / (beta + 0.5).square()
        log_total = (beta - (beta / precision).square() * bend / 2).sum(-1).log()
        slope = (log_total[1] - log_total[0]) / 1e-3
        change = (s - log_total[0]) / (1 - slope).clamp(min=1e-6)
        s = s - change
        if change.abs().max() < 1e-3:
            break
    # Not wider than 1: on the right exp(-e^s) falls within one unit of s, however flat the rest is.
    return s, (s.exp() * (1 - slope)).clamp(min=1.0).rsqrt()


def _inner_peak(a: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Returns ``beta`` at the inner integrand's peak over ``log beta``, and its precision there.

    Solves ``beta (c + log(beta + 1/2)) = a + 1`` from above; the left side is convex, so Newton's
    method falls to the root without passing it.
    """
    beta = torch.maximum(a + 1, torch.exp((1 - c).clamp(max=600.0)))
    for _ in range(PEAK_STEPS):
        level = c + torch.log(beta + 0.5)
        beta = beta - (beta * level - (a + 1)) / (level + beta / (beta + 0.5))
    return beta, a + 1 + beta.square() / (beta + 0.5)


def _stretch(y: Tensor) -> Tensor:
    return (y + 1 - torch.exp(-y)) / 2


def _stretch_slope(z: Tensor) -> Tensor:
    return (1 + torch.exp(-z)) / 2
