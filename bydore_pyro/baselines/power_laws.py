"""The power laws of AutoScale: a domain's three runs tell how the loss falls with its tokens.

    loss(n) / loss(base) = (x + alpha)^-gamma + c,        x = n / base,

**How three points identify three constants.** With ``f(x) = (x + alpha)^-gamma``, ``alpha >= 0``,
the base run gives ``c = 1 - f(1)``. What remains are the two falls of the relative loss,

    F = f(cut) - f(1),      G = f(1) - f(grown),
    F / G = (exp(gamma u) - 1) / (1 - exp(-gamma v)),
    u = log((1 + alpha) / (cut + alpha)),   v = log((grown + alpha) / (1 + alpha)).

``F / G`` rises with gamma, from ``u / v`` to infinity, so each alpha has at most one gamma with
the measured ratio. Along that curve, from its smallest alpha on, G rises to one maximum and falls
to zero (seen numerically, not proved): up to **two** laws pass through the same three points, a
`slow` one (smaller gamma and alpha, a lower c) and a `fast` one, which levels off sooner. They
are all but equal between the cut and the grown count and differ beyond. The authors' notebook
starts its solver at (1, 1, 1) and, on the figures that it publishes, finds the fast one for each
domain; so that one is taken where there are two. On these figures the slow laws put hardly more
than a hundredth of the tokens elsewhere.

No law passes through the points where G is above the maximum, where the loss falls faster after the
base than convexity allows, or where it does not fall at both steps; the nearest one is returned,
and `PowerLaws.fits` tells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import optimize

__all__ = ["PowerLaws", "fit_power_laws"]

FitKind = Literal["exact", "nearest", "none"]

MOST_ALPHA, MOST_GAMMA = 1e3, 20.0  # beyond them a law is a line or a step over the three points
FLAT = 1e-9  # a fall of the relative loss that is smaller than this is none
ROUNDING = 1e-13  # of a relative loss
EXACT = 1e-9  # largest misfit, in relative loss, of a law that passes through its points


@dataclass(frozen=True, kw_only=True, eq=False)
class PowerLaws:
    """For each domain, ``loss / loss(base) = (n / base + alpha)^-gamma + constant``.

    Args:
        base: Tokens of the base run ``(K,)``.
        smallest: Fewest tokens that each law was fitted to ``(K,)``.
        gamma: Exponents ``(K,)``, >= 0; 0 where more tokens of the domain bring nothing.
        alpha: What the other domains are worth, in units of the base count ``(K,)``, >= 0.
        constant: What no amount of the domain's tokens lowers, in units of the base loss ``(K,)``.
        fits: ``exact``; ``nearest``, in least squares within the bounds, where no law passes
            through the three points; ``none`` where the loss falls not at all from the cut to the
            grown count (gamma 0).
    """

    base: np.ndarray
    smallest: np.ndarray
    gamma: np.ndarray
    alpha: np.ndarray
    constant: np.ndarray
    fits: tuple[FitKind, ...]


def fit_power_laws(counts: np.ndarray, losses: np.ndarray) -> PowerLaws:
    """Fits each domain's law to its three runs; see the module for the equation.

    Args:
        counts: Tokens of the runs ``(2 K + 1, K)``, > 0, in the order of `probe_counts`.
        losses: Target loss of the runs ``(2 K + 1,)``, > 0, in any unit.
    """
    base, domains = counts[0], counts.shape[1]
    cut, grown = (np.diag(part) / base for part in np.split(counts[1:], 2))  # (K,) each
    relative = losses[1:].reshape(2, domains) / losses[0]
    found = [_fit(np.array([cut[k], 1, grown[k]]), relative[:, k]) for k in range(domains)]
    alpha, gamma, constant = np.array([numbers for numbers, _ in found]).T
    return PowerLaws(
        base=base,
        smallest=cut * base,
        gamma=gamma,
        alpha=alpha,
        constant=constant,
        fits=tuple(fit for _, fit in found),
    )


def _fit(x: np.ndarray, relative: np.ndarray) -> tuple[tuple[float, ...], FitKind]:
    """Fits one domain.

    Args:
        x: Counts relative to the base: cut, 1, grown.
        relative: Losses of the cut and the grown run, relative to the base's.

    Returns:
        (alpha, gamma, constant) and how the law fits.
    """
    y = np.array([relative[0], 1.0, relative[1]])
    if y[0] - y[2] <= FLAT:
        constant = float(y.mean() - 1)  # the law's power is 1 everywhere
        return (0.0, 0.0, constant), "none"
    law = _law_through(x, y[0] - 1, 1 - y[2])
    alpha, gamma = law if law is not None else _nearest_law(x, y)
    powers = (x + alpha) ** -gamma
    constant = float(1 - powers[1] if law is not None else (y - powers).mean())
    misfit = np.abs(powers + constant - y).max()
    return (alpha, gamma, constant), "exact" if misfit < EXACT else "nearest"


def _law_through(x: np.ndarray, before: float, after: float) -> tuple[float, float] | None:
    """Returns (alpha, gamma) of the law that falls by F = before and G = after, or None.

    It is the fast one; where that would need an alpha out of range, the slow one.
    """
    if min(before, after) <= FLAT:
        return None
    ratio = before / after

    def margin(alpha: float) -> float:
        """Returns the least F / G of an alpha minus the measured one, > 0 where none fits."""
        u, v = _logs(x, alpha)
        return u / v - ratio

    def log_fall(alpha: float) -> float:
        """Returns log G, no unit, of the law with this alpha and the measured F / G."""
        gamma = _gamma_of(x, alpha, ratio)
        return float(-gamma * np.log1p(alpha) + np.log(-np.expm1(-gamma * _logs(x, alpha)[1])))

    def short(alpha: float) -> float:
        return float(np.exp(log_fall(alpha)) - after)

    if margin(MOST_ALPHA) >= 0:
        return None
    start = 0.0 if margin(0.0) <= 0 else float(optimize.brentq(margin, 0.0, MOST_ALPHA))
    peak = _peak(log_fall, start, MOST_ALPHA)
    if short(MOST_ALPHA) < 0 < short(peak):
        alpha = float(optimize.brentq(short, peak, MOST_ALPHA, xtol=1e-15))
    elif ends := [end for end in (start, peak) if abs(short(end)) < ROUNDING]:
        alpha = ends[0]
    elif short(start) < 0 < short(peak):
        alpha = float(optimize.brentq(short, start, peak, xtol=1e-15))
    else:
        return None
    gamma = _gamma_of(x, alpha, ratio)
    return (alpha, gamma) if gamma <= MOST_GAMMA else None


def _logs(x: np.ndarray, alpha: float) -> tuple[float, float]:
    """Returns u and v."""
    cut, one, grown = np.log(x + alpha)
    return float(one - cut), float(grown - one)


def _gamma_of(x: np.ndarray, alpha: float, ratio: float) -> float:
    """Returns the gamma with which the law of an alpha has this F / G; 0, nearly, if none has."""
    u, v = _logs(x, alpha)

    def excess(gamma: float) -> float:
        # Divided by gamma, for gamma = 0 is always a root.
        return float(np.expm1(gamma * u) + ratio * np.expm1(-gamma * v)) / gamma

    most = float(np.log1p(ratio) / u) * (1 + 1e-6)  # F / G is at least exp(gamma u) - 1
    least = most * 1e-9
    return float(optimize.brentq(excess, least, most, xtol=1e-15)) if excess(least) < 0 else least


def _peak(function: Callable[[float], float], low: float, high: float) -> float:
    """Returns where a function with one maximum has it; the range is wide, so on a log scale."""
    found = optimize.minimize_scalar(
        lambda t: -function(float(np.expm1(t))),
        bounds=(np.log1p(low), np.log1p(high)),
        method="bounded",
        options={"xatol": 1e-10},
    )
    inner = float(np.expm1(found.x))
    return low if function(low) >= function(inner) else inner


def _nearest_law(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Returns (alpha, gamma) of the least squares over the three points, the constant free."""

    def residuals(law: np.ndarray) -> np.ndarray:
        difference = y - (x + law[0]) ** -law[1]
        return difference - difference.mean()

    starts = [(0.1, 0.5), (1.0, 0.5), (1.0, 2.0), (1.0, 10.0), (10.0, 0.3), (100.0, 0.1)]
    bounds = ([0.0, 0.0], [MOST_ALPHA, MOST_GAMMA])
    fits = [optimize.least_squares(residuals, s, bounds=bounds, xtol=1e-12) for s in starts]
    alpha, gamma = min(fits, key=lambda fit: fit.cost).x
    return float(alpha), float(gamma)
