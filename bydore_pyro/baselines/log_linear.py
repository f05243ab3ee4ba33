"""olmix's law: a loss falls exponentially along the weights.

    loss(w) = exp(c) + exp(t . w)

The slopes t are shrunk to their mean, by as much as leave-one-out prediction asks for: domains that
few runs hold would take any slope.

References:
    allenai/olmix (Apache-2.0), the log-linear law.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize

from bydore_pyro.utils import DataError

__all__ = ["LogLinear", "fit_log_linear"]

SHRINKAGE = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)  # in units of the losses' variance for a slope of 1
BELOW = (0.05, 0.5, 2.0)  # starts: the asymptote, so many ranges of the losses below the least
LARGEST = 50.0  # of an exponent, so that a step too far is only a bad one
EVALUATIONS = 200


@dataclass(frozen=True, kw_only=True, eq=False)
class LogLinear:
    """A fitted law: c and the slopes t ``(1 + K,)``."""

    parameters: np.ndarray

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the expected losses ``(S,)`` of mixtures ``(S, K)``."""
        return _law(self.parameters, weights)


def fit_log_linear(weights: np.ndarray, losses: np.ndarray) -> LogLinear:
    """Fits the law by least squares, with the shrinkage that predicts left-out runs best.

        sum_i (loss_i - law(w_i))^2 / var(loss) + shrinkage sum_k (t_k - mean t)^2

    Each shrinkage, from the largest on, starts at several asymptotes below the losses and at what
    the one before found. What leaving each run out would cost comes from the leverages at the
    optimum.

    Args:
        weights: Of the runs ``(N, K)``.
        losses: Of the runs ``(N,)``, > 0.

    Raises:
        DataError: When a loss is not positive.
    """
    if losses.min() <= 0:
        raise DataError(f"Expected losses > 0 for the log-linear law, found {losses.min():g}")
    tried: list[tuple[float, np.ndarray]] = []
    for shrinkage in SHRINKAGE:
        before = [found for _, found in tried[-1:]]
        found = _least_squares(weights, losses, shrinkage, before)
        tried.append((_left_out_error(found, weights, losses, shrinkage), found))
    _, best = min(tried, key=lambda one: one[0] if np.isfinite(one[0]) else np.inf)
    return LogLinear(parameters=best)


def _law(parameters: np.ndarray, weights: np.ndarray) -> np.ndarray:
    exponents = np.clip(weights @ parameters[1:], -LARGEST, LARGEST)
    return np.exp(min(parameters[0], LARGEST)) + np.exp(exponents)


def _gradient(parameters: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns the law's derivatives by c and the slopes ``(S, 1 + K)``."""
    rise = np.exp(np.clip(weights @ parameters[1:], -LARGEST, LARGEST))
    flat = np.full((len(weights), 1), np.exp(min(parameters[0], LARGEST)))
    return np.concatenate([flat, rise[:, None] * weights], axis=1)


def _least_squares(
    weights: np.ndarray, losses: np.ndarray, shrinkage: float, before: list[np.ndarray]
) -> np.ndarray:
    """Returns the parameters of the best start ``(1 + K,)``."""
    domains, scale = weights.shape[1], losses.std()
    centred = np.sqrt(shrinkage) * (np.eye(domains) - 1 / domains)
    penalty = np.concatenate([np.zeros((domains, 1)), centred], axis=1)

    def residuals(p: np.ndarray) -> np.ndarray:
        return np.concatenate([(_law(p, weights) - losses) / scale, penalty @ p])

    def jacobian(p: np.ndarray) -> np.ndarray:
        return np.concatenate([_gradient(p, weights) / scale, penalty])

    starts = list(before)
    for below in BELOW:
        floor = max(losses.min() - below * np.ptp(losses), 1e-3 * losses.min())
        lines = np.concatenate([weights, centred + 0.1 * np.eye(domains)])
        slopes = np.linalg.lstsq(lines, np.append(np.log(losses - floor), np.zeros(domains)))[0]
        starts.append(np.append(np.log(floor), slopes))
    fits = [
        optimize.least_squares(residuals, p, jacobian, method="lm", max_nfev=EVALUATIONS)
        for p in starts
    ]
    return min(fits, key=lambda fit: fit.cost).x


def _left_out_error(
    parameters: np.ndarray, weights: np.ndarray, losses: np.ndarray, shrinkage: float
) -> float:
    """Returns the mean squared error of each run left out in turn."""
    domains = weights.shape[1]
    gradient = _gradient(parameters, weights) / losses.std()  # (N, 1 + K)
    penalty = np.zeros((1 + domains, 1 + domains))
    penalty[1:, 1:] = shrinkage * (np.eye(domains) - 1 / domains)
    inverse = np.linalg.pinv(gradient.T @ gradient + penalty, hermitian=True)
    leverage = ((gradient @ inverse) * gradient).sum(1)
    residual = _law(parameters, weights) - losses
    return float(np.mean((residual / (1 - np.minimum(leverage, 0.99))) ** 2))
