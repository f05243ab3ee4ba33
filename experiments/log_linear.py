"""olmix's log-linear law of one target: a floor, and an exponential of the weights.

References:
    allenai/olmix (Apache-2.0).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize

from bydore_pyro.errors import DataError

SHRINKAGE = 1e-3  # in units of the losses' variance for a slope of 1
BELOW = (0.05, 0.5, 2.0)  # starts: the asymptote, so many ranges of the losses below the least
LARGEST = 50.0  # of an exponent, so that a step too far is only a bad one
EVALUATIONS = 200


@dataclass(frozen=True, kw_only=True, eq=False)
class LogLinear:
    """olmix's law, ``loss(w) = exp(c) + exp(t . w)``: c and the slopes t ``(1 + K,)``."""

    parameters: np.ndarray

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the expected losses ``(S,)`` of mixtures ``(S, K)``."""
        exponents = np.clip(weights @ self.parameters[1:], -LARGEST, LARGEST)
        return np.exp(min(self.parameters[0], LARGEST)) + np.exp(exponents)

    def gradient(self, weights: np.ndarray) -> np.ndarray:
        """Returns the law's derivatives by c and the slopes ``(S, 1 + K)``."""
        rise = np.exp(np.clip(weights @ self.parameters[1:], -LARGEST, LARGEST))
        flat = np.full((len(weights), 1), np.exp(min(self.parameters[0], LARGEST)))
        return np.concatenate([flat, rise[:, None] * weights], axis=1)


def fit_log_linear(weights: np.ndarray, losses: np.ndarray) -> LogLinear:
    """Fits the law by least squares; slopes of domains that few runs hold stay near the mean's.

        sum_i (loss_i - law(w_i))^2 / var(loss) + 0.001 sum_k (t_k - mean t)^2

    The search starts at several asymptotes below the losses.

    Args:
        weights: Of the runs ``(N, K)``.
        losses: Of the runs ``(N,)``, > 0.

    Raises:
        DataError: When a loss is not positive.
    """
    if losses.min() <= 0:
        raise DataError(
            f"Expected losses > 0 for the log-linear law, found {losses.min():g} (a maximised "
            "metric counts negatively)"
        )
    domains, scale = weights.shape[1], losses.std()
    centred = np.sqrt(SHRINKAGE) * (np.eye(domains) - 1 / domains)
    penalty = np.concatenate([np.zeros((domains, 1)), centred], axis=1)

    def residuals(p: np.ndarray) -> np.ndarray:
        own = (LogLinear(parameters=p).predict(weights) - losses) / scale
        return np.concatenate([own, penalty @ p])

    def jacobian(p: np.ndarray) -> np.ndarray:
        return np.concatenate([LogLinear(parameters=p).gradient(weights) / scale, penalty])

    fits = []
    for below in BELOW:
        floor = max(losses.min() - below * np.ptp(losses), 1e-3 * losses.min())
        lines = np.concatenate([weights, centred + 0.1 * np.eye(domains)])
        slopes = np.linalg.lstsq(lines, np.append(np.log(losses - floor), np.zeros(domains)))[0]
        start = np.append(np.log(floor), slopes)
        fits.append(
            optimize.least_squares(residuals, start, jacobian, method="lm", max_nfev=EVALUATIONS)
        )
    return LogLinear(parameters=min(fits, key=lambda fit: fit.cost).x)
