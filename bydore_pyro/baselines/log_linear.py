"""olmix's law: a loss falls exponentially along the weights.

    loss(w) = exp(c) + exp(t . w)

The slopes t are shrunk to their mean, by as much as leave-one-out prediction asks for: domains that
few runs hold would take any slope. For a mixture, `optimum` solves olmix's convex problem exactly.

References:
    allenai/olmix (Apache-2.0), the log-linear law and its exact proposer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize

from bydore_pyro.baselines.regression_input import require_runs
from bydore_pyro.mixture import within_caps
from bydore_pyro.utils import DataError

__all__ = ["LogLinear", "fit_log_linear", "relative_entropy"]

SHRINKAGE = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)  # in units of the losses' variance for a slope of 1
BELOW = (0.05, 0.5, 2.0)  # starts: the asymptote, so many ranges of the losses below the least
LARGEST = 50.0  # of an exponent, so that a step too far is only a bad one
EVALUATIONS = 200


@dataclass(frozen=True, kw_only=True, eq=False)
class LogLinear:
    """A fitted law, and how sure it is of itself.

    Args:
        parameters: c and the slopes t ``(1 + K,)``.
        covariance: Of the parameters, a Laplace approximation ``(1 + K, 1 + K)``.
        noise: Standard deviation of one run's loss about the law, in the losses' unit.
        width: Factor of `standard_deviation` and of the intervals, which cross-validation finds.
    """

    parameters: np.ndarray
    covariance: np.ndarray
    noise: float
    width: float = 1.0

    @property
    def members(self) -> tuple[LogLinear, ...]:
        """The regressions that predict: this one alone."""
        return (self,)

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the expected losses ``(S,)`` of mixtures ``(S, K)``."""
        return _law(self.parameters, weights)

    def moments(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns mean and standard deviation of the mixtures' losses, without a run's noise."""
        gradient = _gradient(self.parameters, weights)  # (S, 1 + K)
        variance = ((gradient @ self.covariance) * gradient).sum(1)
        return _law(self.parameters, weights), np.sqrt(np.maximum(variance, 0))

    def standard_deviation(self, weights: np.ndarray) -> np.ndarray:
        """Returns how unsure the loss of one more run on each mixture is ``(S,)``."""
        return self.width * np.hypot(self.moments(weights)[1], self.noise)

    def sample(self, weights: np.ndarray, draws: int, seed: int) -> np.ndarray:
        """Draws the losses of mixtures ``(S, K)`` jointly: ``(draws, S)``."""
        values, vectors = np.linalg.eigh(self.covariance)
        standard = np.random.default_rng(seed).standard_normal((draws, len(values)))
        drawn = self.parameters + (standard * np.sqrt(np.maximum(values, 0))) @ vectors.T
        exponents = np.clip(drawn[:, 1:] @ weights.T, -LARGEST, LARGEST)
        return np.exp(np.minimum(drawn[:, :1], LARGEST)) + np.exp(exponents)

    def optimum(self, natural: np.ndarray, kl: float, caps: np.ndarray | None = None) -> np.ndarray:
        """Returns the mixture ``(K,)`` that minimises ``loss(w) + kl KL(w || natural)``.

        The problem is convex. Where its gradient vanishes, w_k ~ natural_k exp(-s t_k / kl) within
        the caps, with s = exp(t . w); log s - t . w(s) rises with s, so one root is the optimum.

        Args:
            natural: Shares ``(K,)``, summing to 1.
            kl: Losses a nat, > 0; without it one domain would take all.
            caps: Largest weights ``(K,)``, adding up to 1 or more; none if not given.
        """
        slopes = self.parameters[1:]

        def weights(log_s: float) -> np.ndarray:
            exponents = -np.exp(log_s) * slopes / kl
            tilted = natural * np.exp(exponents - exponents[natural > 0].max())
            tilted /= tilted.sum()
            return tilted if caps is None else within_caps(tilted[None], caps)[0]

        low, high = float(slopes.min()) - 1e-9, float(slopes.max()) + 1e-9
        found = optimize.brentq(lambda x: x - slopes @ weights(x), low, high, xtol=1e-12)
        return weights(float(found))


def relative_entropy(weights: np.ndarray, natural: np.ndarray) -> np.ndarray:
    """Returns ``KL(w || natural) = sum_k w_k log(w_k / natural_k)`` of mixtures ``(S, K)``, nats.

    It is infinite where a mixture has a domain that the natural one lacks.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = weights * (np.log(weights) - np.log(natural))
    return np.where(weights > 0, terms, 0.0).sum(1)


def fit_log_linear(weights: np.ndarray, losses: np.ndarray) -> LogLinear:
    """Fits the law by least squares, with the shrinkage that predicts left-out runs best.

        sum_i (loss_i - law(w_i))^2 / var(loss) + shrinkage sum_k (t_k - mean t)^2

    Each shrinkage, from the largest on, starts at several asymptotes below the losses and at what
    the one before found. What leaving each run out would cost comes from the leverages at the
    optimum; so do the parameters' covariance and the noise.

    Args:
        weights: Of the runs ``(N, K)``.
        losses: Of the runs ``(N,)``, > 0.

    Raises:
        DataError: When there are fewer than 2 runs, all have one loss, or a loss is not positive.
    """
    require_runs(losses)
    if losses.min() <= 0:
        raise DataError(f"Expected losses > 0 for the log-linear law, found {losses.min():g}")
    tried: list[tuple[LogLinear, float]] = []
    start = None
    for shrinkage in SHRINKAGE:
        start = _least_squares(weights, losses, shrinkage, start)
        tried.append(_at(start, weights, losses, shrinkage))
    return min(tried, key=lambda one: one[1] if np.isfinite(one[1]) else np.inf)[0]


def _law(parameters: np.ndarray, weights: np.ndarray) -> np.ndarray:
    exponents = np.clip(weights @ parameters[1:], -LARGEST, LARGEST)
    return np.exp(min(parameters[0], LARGEST)) + np.exp(exponents)


def _gradient(parameters: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns the law's derivatives by c and the slopes ``(S, 1 + K)``."""
    rise = np.exp(np.clip(weights @ parameters[1:], -LARGEST, LARGEST))
    flat = np.full((len(weights), 1), np.exp(min(parameters[0], LARGEST)))
    return np.concatenate([flat, rise[:, None] * weights], axis=1)


def _least_squares(
    weights: np.ndarray, losses: np.ndarray, shrinkage: float, before: np.ndarray | None
) -> np.ndarray:
    """Returns the parameters of the best start ``(1 + K,)``."""
    domains, scale = weights.shape[1], losses.std()
    centred = np.sqrt(shrinkage) * (np.eye(domains) - 1 / domains)
    penalty = np.concatenate([np.zeros((domains, 1)), centred], axis=1)

    def residuals(p: np.ndarray) -> np.ndarray:
        return np.concatenate([(_law(p, weights) - losses) / scale, penalty @ p])

    def jacobian(p: np.ndarray) -> np.ndarray:
        return np.concatenate([_gradient(p, weights) / scale, penalty])

    starts = [] if before is None else [before]
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


def _at(
    parameters: np.ndarray, weights: np.ndarray, losses: np.ndarray, shrinkage: float
) -> tuple[LogLinear, float]:
    """Returns the law at its optimum, and the mean squared error of each run left out in turn."""
    domains, scale = weights.shape[1], losses.std()
    gradient = _gradient(parameters, weights) / scale  # (N, 1 + K)
    penalty = np.zeros((1 + domains, 1 + domains))
    penalty[1:, 1:] = shrinkage * (np.eye(domains) - 1 / domains)
    inverse = np.linalg.pinv(gradient.T @ gradient + penalty, hermitian=True)
    leverage = ((gradient @ inverse) * gradient).sum(1)
    residual = _law(parameters, weights) - losses
    free = max(len(losses) - leverage.sum(), 1.0)
    noise = float(np.sqrt((residual**2).sum() / free))
    covariance = inverse * (noise / scale) ** 2
    found = LogLinear(parameters=parameters, covariance=covariance, noise=noise)
    return found, float(np.mean((residual / (1 - np.minimum(leverage, 0.99))) ** 2))
