"""The density of the Gamma-Dirichlet compound: two nested one-dimensional integrals.

With ``s = log t``, ``x = log beta`` and ``d_k = log w_k - b_k``::

    q(w)         = prod_k b_k^a_k / (Gamma(a_k) w_k)  int ds exp(-e^s) prod_k h_k(s + d_k)
    h_k(s + d_k) = int dx exp((a_k + 1) x + (s + d_k) e^x - log Gamma(1 + e^x))

Both integrands have a single peak. The code first finds it with ``psi(1 + beta) ~ log(beta +
1/2)``, which is accurate enough to place a window. In the window the trapezoid rule takes equal
steps in a variable that shortens the long left tails (exponential in x, algebraic in s). The rule
converges geometrically, because the integrands are smooth and vanish at both ends::

    s    = s_peak + stretch(scale * y),              stretch(z) = (z + 1 - exp(-z)) / 2
    beta = (a + 1) softplus(y / 2)^2,                y = y_peak + stretch(z)

The nodes over x are the same for every s: in ``y`` the inner peaks have about one width, wherever
they are. So ``log Gamma`` is evaluated once a node, and the rest is one exponential a node and s.

The derivatives treat the nodes as constants. They are expectations and covariances of ``beta`` and
``log beta`` under the integrand; the first come almost for free with the value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import softplus

__all__ = ["log_density"]

WIDE, NARROW = 1.8, 1.1  # nodes a unit of z: where a peak is as wide as its tails, and where not
OUTER_SPACING = 0.85  # in y, where the peak is narrow: a Gaussian
OUTER_SPACING_WIDE = 0.35  # in z, where it is not
BLOCK = 2**20  # values of the integrand that are held at a time
MOST_NODES = 300  # over x: with more, parts of the window over s have nodes of their own
MOST_STEPS = 500  # far more than parameters in range need
PEAK_STEPS, ROUGH_STEPS = 5, 3  # Newton's method for a peak over beta; in search of a window
SADDLE_STEPS = 50  # Newton's method for a peak over s, at most
STRIDES, GROWTH = 32, 1.25  # from the peak over s to where it is looked for the window's ends


class _Rule(NamedTuple):
    """How exactly the trapezoid rule integrates."""

    negligible: float  # nats below the peak: where an integrand is cut off
    nodes: float  # how many there are in a window, as a share of what the spacings above say


FINE = _Rule(negligible=24.0, nodes=1.0)
COARSE = _Rule(negligible=15.0, nodes=0.8)  # within the rounding of float32


def log_density(
    log_w: Tensor, concentration: Tensor, rate: Tensor, *, precise: bool = True
) -> Tensor:
    """Returns ``log q(w)``, nats, with first and second derivatives in all three arguments.

    It works under `torch.func`: `vmap`, `grad`, `jacfwd`, `jacrev` and `hessian`.

    Args:
        log_w: Logs of the weights ``(..., K)``.
        concentration: Gamma shapes ``a > 0``, broadcastable to ``(..., K)``.
        rate: Gamma rates ``b > 0``, broadcastable to ``(..., K)``.
        precise: Whether fit for float64. If not, fewer nodes bring errors of up to 5e-7 of the
            value (of 1 where that is less) and 1e-5 of each first derivative (1 where less).

    Returns:
        The log density with respect to the first ``K - 1`` weights, ``(...)``, in float64; NaN
        where an argument is NaN.

    Raises:
        NotImplementedError: Where a third derivative is asked for: there is none.

    References:
        The density follows from Yuan et al., Bayesian Domain Reweighting, section 2.3, with
        ``Gamma(B) = int t^(B - 1) e^-t dt`` for the Dirichlet's normaliser.
    """
    log_w, a, b = torch.broadcast_tensors(log_w.double(), concentration.double(), rate.double())
    constant = (a * b.log() - torch.lgamma(a) - log_w).sum(-1)
    if log_w.numel() == 0:
        return constant
    return constant + _LogIntegral.apply(log_w - b, a, FINE if precise else COARSE)[0]


class _LogIntegral(Function):
    """``log int ds ...`` of `d` and `a`, and its gradient by both: ``E[beta], E[log beta]``."""

    @staticmethod
    def forward(d: Tensor, a: Tensor, rule: _Rule) -> tuple[Tensor, ...]:
        return _in_blocks(rule, d, a)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs[:2], *output[1:])
        ctx.save_for_forward(*inputs[:2], *output[1:])

    @staticmethod
    def backward(ctx: Any, value: Tensor | None, *moments: Tensor | None) -> Any:
        d, a, beta, log_beta = ctx.saved_tensors
        found = [torch.zeros_like(d), torch.zeros_like(d)]
        if value is not None:
            found = [value.unsqueeze(-1) * x for x in (beta, log_beta)]
        if any(x is not None for x in moments):
            u, v = (torch.zeros_like(d) if x is None else x for x in moments)
            bent = _Curvature.apply(d, a, u, v)
            found = [x + y for x, y in zip(found, bent, strict=True)]
        return *found, None

    @staticmethod
    def jvp(ctx: Any, u: Tensor | None, v: Tensor | None, _: None) -> Any:
        d, a, beta, log_beta = ctx.saved_tensors
        u, v = (torch.zeros_like(d) if x is None else x for x in (u, v))
        return (u * beta + v * log_beta).sum(-1), *_Curvature.apply(d, a, u, v)

    @staticmethod
    def vmap(info: Any, in_dims: Any, d: Tensor, a: Tensor, rule: _Rule) -> Any:
        return _over_rows(lambda *x: _LogIntegral.apply(*x, rule), info, in_dims, (d, a))


class _Curvature(Function):
    """The product of the second derivatives by ``(d, a)`` with ``(u, v)``, all of one shape."""

    @staticmethod
    def forward(d: Tensor, a: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        return _in_blocks(FINE, d, a, u, v)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise NotImplementedError("The density of GammaDirichlet has no third derivative")

    jvp = backward

    @staticmethod
    def vmap(info: Any, in_dims: Any, *tensors: Tensor) -> Any:
        return _over_rows(_Curvature.apply, info, in_dims, tensors)


def _over_rows(
    function: Callable[..., Any], info: Any, in_dims: Any, tensors: tuple[Tensor, ...]
) -> Any:
    """torch.func's rule: the leading dimensions are a batch already."""
    given = [
        x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)
        for x, dim in zip(tensors, in_dims[: len(tensors)], strict=True)
    ]
    found = function(*given)
    return found, (0,) * len(found)


def _in_blocks(rule: _Rule, d: Tensor, a: Tensor, *along: Tensor) -> tuple[Tensor, ...]:
    """Returns what `_integrate` does, for arguments ``(..., K)``."""
    shape = d.shape
    flat = [x.reshape(-1, shape[-1]) for x in (d, a, *along)]
    rows = max(1, BLOCK // (8 * STRIDES * shape[-1]))
    blocks = [_integrate(rule, *part) for part in zip(*(x.split(rows) for x in flat), strict=True)]
    columns = [torch.cat(column) for column in zip(*blocks, strict=True)]
    return tuple(x.reshape(shape[: -1 if x.dim() == 1 else None]) for x in columns)


def _integrate(rule: _Rule, d: Tensor, a: Tensor, *along: Tensor) -> tuple[Tensor, ...]:
    """Integrates over s and x, for rows ``(N, K)``.

    Returns:
        The log integral ``(N,)`` and the means of ``beta`` and ``log beta`` ``(N, K)``; along
        ``(u, v)`` the covariances of ``sum_k u_k beta_k + v_k log beta_k`` with both instead.
    """
    s, step = _outer_nodes(rule, d, a)
    log_h, *means = _inner_integrals(rule, d, a, s, 6 if along else 3).unbind(-1)  # (N, K, T)
    height = log_h.sum(1) - s.exp() + step.log()
    value = height.logsumexp(-1)
    share = (height - value.unsqueeze(-1)).exp().unsqueeze(-1)  # (N, T, 1)

    def over_s(each: Tensor) -> Tensor:  # (N, K, T) to (N, K)
        return (each @ share).squeeze(-1)

    if not along:
        return value, over_s(means[0]), over_s(means[1])
    u, v = (x.unsqueeze(-1) for x in along)
    by_beta, by_x, beta_2, beta_x, x_2 = means
    own = u * by_beta + v * by_x  # (N, K, T)
    rest = own.sum(1, keepdim=True)
    rest = rest - rest @ share - own
    return (
        over_s(u * beta_2 + v * beta_x + rest * by_beta),
        over_s(u * beta_x + v * x_2 + rest * by_x),
    )


def _inner_integrals(rule: _Rule, d: Tensor, a: Tensor, s: Tensor, size: int) -> Tensor:
    """Returns ``(N, K, T, size)``: ``log h``, means of beta, log beta; of the products of two."""
    x, beta, base = _inner_nodes(rule, d, a, s)
    if s.shape[1] > 1 and (x.shape[-1] > MOST_NODES or x[0].numel() * s.shape[1] > BLOCK):
        halves = s.split((s.shape[1] + 1) // 2, 1)
        return torch.cat([_inner_integrals(rule, d, a, half, size) for half in halves], 2)
    powers = [torch.ones_like(x), beta, x]
    if size > len(powers):
        powers += [beta.square(), beta * x, x.square()]
    at = (s.unsqueeze(1) + d.unsqueeze(-1)).unsqueeze(-1)  # (N, K, T, 1)
    rows = max(1, BLOCK // (x[0].numel() * s.shape[1]))
    given = (
        y.split(rows) for y in (at, base.unsqueeze(2), beta.unsqueeze(2), torch.stack(powers, -1))
    )
    return torch.cat([_sums(*part) for part in zip(*given, strict=True)])


def _sums(at: Tensor, base: Tensor, beta: Tensor, powers: Tensor) -> Tensor:
    """Returns what `_inner_integrals` does, of some rows."""
    exponent = torch.addcmul(base, beta, at)  # (N, K, T, n)
    largest = exponent.amax(-1, keepdim=True)
    sums = exponent.sub_(largest).exp_() @ powers
    total = sums[..., :1]
    return torch.cat([total.log() + largest, sums[..., 1:] / total], -1)


def _inner_nodes(rule: _Rule, d: Tensor, a: Tensor, s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns nodes ``x (N, K, n)``, ``e^x`` and what the exponent has without ``(s + d) e^x``."""
    order = a + 1
    ends = torch.stack([s.amin(-1), s.amax(-1)]).unsqueeze(-1)  # (2, N, 1)
    mode, precision = _inner_peak(a, -d - ends)
    # Where the exponent has fallen by `negligible`, at a distance from the peak. For e > 0 it falls
    # at least by precision (e^e - 1 - e), for e < 0 at least by (a + 1/2) (e^-e - 1 + e) and at
    # least by beta (e e^e - e^e + 1).
    above = _distance(rule.negligible / precision[1], 1.0)
    below = _distance(rule.negligible / (a + 0.5), -1.0)
    r = rule.negligible / mode[0]
    below = torch.where(r < 0.5, torch.minimum(below, (2 * r).sqrt() + 2 * r), below)
    lowest, first, last = mode[0] * (-below).exp(), mode[0], mode[1] * above.exp()
    root = (torch.stack([lowest, first, last]) / order).sqrt()
    y = 2 * torch.where(root > 30, root, root.clamp(max=30).expm1().log())
    reach = torch.stack([y[0] - y[1], y[2] - y[1]])
    z = torch.where(
        reach < 0, -torch.log1p(-2 * reach), torch.minimum(2 * reach, reach + reach.square() / 2)
    )
    for _ in range(3):  # Newton's method for stretch(z) = reach
        z = z - (_stretch(z) - reach) / _stretch_slope(z)
    width = z[1] - z[0]
    count = _count(rule.nodes * width * (WIDE + NARROW * order.sqrt()))
    dz = (width / (count - 1)).unsqueeze(-1)
    z = z[0].unsqueeze(-1) + dz * torch.arange(count, dtype=a.dtype, device=a.device)
    half = (y[1].unsqueeze(-1) + _stretch(z)) / 2
    soft, order = softplus(half, threshold=40), order.unsqueeze(-1)
    x, beta = order.log() + 2 * soft.log(), order * soft.square()
    slope = torch.sigmoid(half) / soft * _stretch_slope(z) * dz  # dx
    return x, beta, order * x - torch.lgamma(1 + beta) + slope.log()


def _distance(fall: Tensor, sign: float) -> Tensor:
    """Returns ``d > 0`` with ``e^x - 1 - x >= fall`` at ``x = sign d``, and barely so."""
    d = fall + (2 * fall).sqrt()
    d = torch.log1p(d) if sign > 0 else d
    for _ in range(2):  # convex: Newton's method stays above the root
        growth = torch.expm1(sign * d)
        d = d - (growth - sign * d - fall) / (sign * growth)
    return d


def _outer_nodes(rule: _Rule, d: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
    """Returns nodes ``s (N, T)`` and their weights ``(N, T)``.

    The window is placed by Laplace's approximation of the height.
    """
    peak_s, scale = (x.unsqueeze(-1) for x in _saddle_point(d, a))  # (N, 1)
    places = torch.arange(STRIDES + 1, dtype=a.dtype, device=a.device)
    strides = 0.5 * (GROWTH**places - 1) / (GROWTH - 1)
    y = torch.cat([-strides, strides])  # (2 S,)
    z = scale * y
    s = peak_s + _stretch(z)
    c = -d.unsqueeze(1) - s.unsqueeze(-1)  # (N, 2 S, K)
    a = a.unsqueeze(1)
    beta, precision = _inner_peak(a, c, ROUGH_STEPS)
    log_h = (a + 1) * beta.log() - c * beta - torch.lgamma(1 + beta) - precision.log() / 2
    height = log_h.sum(-1) - s.exp() + _stretch_slope(z).log()
    outside = (height <= height[:, :1] - rule.negligible).unflatten(-1, (2, -1))
    outside[..., -1] = True
    end = strides[outside.int().argmax(-1)]  # (N, 2)
    needed = rule.nodes * end.sum(-1, keepdim=True)
    needed = needed * (scale / OUTER_SPACING_WIDE).clamp(min=1 / OUTER_SPACING)
    count = _count(needed)
    dy = end.sum(-1, keepdim=True) / (count - 1)
    y = dy * torch.arange(count, dtype=a.dtype, device=a.device) - end[:, :1]
    z = scale * y
    return peak_s + _stretch(z), dy * scale * _stretch_slope(z)


def _count(needed: Tensor) -> int:
    """Returns the number of nodes that the row that needs most steps has; NaN in, NaN out."""
    needed = needed.nan_to_num(nan=1.0, posinf=1.0, neginf=1.0)
    return math.ceil(min(float(needed.max()), MOST_STEPS)) + 1


def _saddle_point(d: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
    """Returns where ``e^s = sum_k E[beta_k | s]``, the outer peak, and a width there, ``(N,)``.

    ``s - log sum_k E[beta_k | s]`` rises with a slope in (0, 1), for which that of the peaks stands
    in Newton's method.
    """
    s = torch.zeros_like(a[..., 0])  # a rough peak does: the window is wide
    for _ in range(SADDLE_STEPS):
        beta, precision = _inner_peak(a, -d - s.unsqueeze(-1))
        ratio = beta.square() / precision
        # The derivative of Laplace's log h by s; the second term is that of -log(precision) / 2.
        bend = beta * (beta + 1) / (beta + 0.5).square()
        log_total = (beta - ratio / precision * bend / 2).sum(-1).log()
        slope = ratio.sum(-1) / beta.sum(-1)
        change = (s - log_total) / (1 - slope).clamp(min=1e-6)
        s = s - change
        if change.abs().max() < 0.03:
            break
    # Not wider than 1: on the right exp(-e^s) falls within one unit of s, however flat the rest is.
    return s, (s.exp() * (1 - slope)).clamp(min=1.0).rsqrt()


def _inner_peak(a: Tensor, c: Tensor, steps: int = PEAK_STEPS) -> tuple[Tensor, Tensor]:
    """Returns ``beta`` at the inner integrand's peak over ``log beta``, and its precision there.

    Solves ``beta (c + log(beta + 1/2)) = a + 1`` from above; the left side is convex, so Newton's
    method falls to the root without passing it.
    """
    beta = torch.maximum(a + 1, torch.exp((1 - c).clamp(max=600.0)))
    for _ in range(steps):
        half = beta + 0.5
        level = half.log().add_(c)
        excess = torch.addcmul(-1 - a, beta, level)
        beta = torch.addcdiv(beta, excess, torch.addcdiv(level, beta, half), value=-1)
    return beta, a + 1 + beta.square() / (beta + 0.5)


def _stretch(z: Tensor) -> Tensor:
    return (z + 1 - torch.exp(-z)) / 2


def _stretch_slope(z: Tensor) -> Tensor:
    return (1 + torch.exp(-z)) / 2
