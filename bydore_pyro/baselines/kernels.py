"""The parameters of a Gaussian process's kernel: their likelihood, and draws from their posterior.

scikit-learn differentiates the covariance by every length scale, an array ``(N, N, K)``: 512 runs
of 64 domains took over 20 minutes. The gradient needs only sums over that array, which are products
of ``(N, N)`` and ``(N, K)``:

    d L / d log l_k = sum_ij M_ij (z_ik - z_jk)^2 = 2 sum_i z_ik^2 m_i - 2 sum_ij z_ik M_ij z_jk,
    M = W * c 5/3 (1 + r) exp(-r),  W = (a a^T - C^-1) / 2,  a = C^-1 y,  m_i = sum_j M_ij,

with z = x / l, r = sqrt(5) |z_i - z_j| and C = c Matern_5/2 + noise.

References:
    Rasmussen and Williams, Gaussian Processes for Machine Learning, equations 2.30 and 5.9.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy import linalg, optimize

from bydore_pyro.utils import require

__all__ = ["kernel_draws", "likelihood_and_gradient", "quick_process"]

# Medians of the log-normal priors, and their standard deviations in logarithms. Losses are
# standardised and log weights span 7 units, so a length of 100 is a domain that hardly matters.
SIGNAL, LENGTH, NOISE = (10.0, 2.0), (10.0, 1.5), (1e-2, 2.0)
REACH = 5.0  # standard deviations of the prior within which parameters stay
STEP = 1e-3  # of the differences that make the Hessian out of gradients


def likelihood_and_gradient(
    inputs: np.ndarray, outputs: np.ndarray, theta: np.ndarray, alpha: float = 0.0
) -> tuple[float, np.ndarray]:
    """Returns the log marginal likelihood, nats, and its gradient by theta.

    Args:
        inputs: Of the runs ``(N, K)``.
        outputs: Of the runs ``(N,)``, standardised.
        theta: Logarithms of signal, length scales (one or ``K``) and noise.
        alpha: What scikit-learn adds to the diagonal.
    """
    signal, *lengths, noise = np.exp(theta)
    z = inputs / np.array(lengths)
    squares = (z * z).sum(1)
    gaps = squares[:, None] + squares - 2 * z @ z.T
    np.fill_diagonal(gaps, 0.0)
    r = np.sqrt(5 * np.maximum(gaps, 0.0))  # (N, N)
    decay = signal * np.exp(-r)
    kernel = (1 + r + r * r / 3) * decay
    covariance = kernel + (noise + alpha) * np.eye(len(z))
    try:
        factor = linalg.cholesky(covariance, lower=True, check_finite=False)
    except linalg.LinAlgError:
        return -np.inf, np.zeros_like(theta)
    inverse = linalg.cho_solve((factor, True), np.eye(len(z)), check_finite=False)
    a = inverse @ outputs
    value = -0.5 * outputs @ a - np.log(np.diag(factor)).sum() - 0.5 * len(z) * np.log(2 * np.pi)
    slope = (np.outer(a, a) - inverse) / 2
    by_gap = slope * (5 / 3) * (1 + r) * decay
    by_length = 2 * (by_gap.sum(1) @ (z * z) - (z * (by_gap @ z)).sum(0))
    if len(lengths) == 1:
        by_length = by_length.sum(keepdims=True)
    return float(value), np.r_[(slope * kernel).sum(), by_length, noise * np.trace(slope)]


@cache
def quick_process() -> type[Any]:
    """Returns scikit-learn's GaussianProcessRegressor with the gradient above.

    It is for kernels signal x Matern_5/2 + noise alone.
    """
    regressor = require("sklearn.gaussian_process", "baselines").GaussianProcessRegressor

    class QuickProcess(regressor):  # type: ignore[misc,valid-type]
        """scikit-learn asks for this value at every step of its search."""

        def log_marginal_likelihood(
            self, theta: Any = None, eval_gradient: bool = False, clone_kernel: bool = True
        ) -> Any:
            if not eval_gradient:
                return super().log_marginal_likelihood(theta, eval_gradient, clone_kernel)
            return likelihood_and_gradient(self.X_train_, self.y_train_, theta, self.alpha)

    return QuickProcess


def kernel_draws(estimator: Any, draws: int, seed: int = 0) -> tuple[Any, ...]:
    """Draws a Gaussian process's kernel parameters from a Laplace approximation.

        log p(theta | runs) = log marginal likelihood(theta) + log prior(theta),
        theta ~ N(its maximum, the inverse of its negative Hessian there),

    with theta the logarithms of signal, length scales and noise, under wide log-normal priors. With
    few runs for many domains the most likely parameters alone are far too sure of themselves: most
    length scales end at infinity, and the noise at nothing.

    Args:
        estimator: scikit-learn's fitted GaussianProcessRegressor, kernel signal x Matern + noise.
        draws: How many, >= 0.
        seed: Of the draws.

    Returns:
        As many processes on the same runs, each with parameters of its own.
    """
    process = quick_process()
    inputs, outputs = estimator.X_train_, estimator.y_train_
    count = len(estimator.kernel_.theta)
    priors = np.array([SIGNAL, *[LENGTH] * (count - 2), NOISE])
    middle, spread = np.log(priors[:, 0]), priors[:, 1]
    low, high = middle - REACH * spread, middle + REACH * spread

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The negative log posterior and its gradient."""
        value, gradient = estimator.log_marginal_likelihood(theta, eval_gradient=True)
        off = (theta - middle) / spread
        return 0.5 * float(off @ off) - value, off / spread - gradient

    if draws == 0:
        return ()
    found = optimize.minimize(
        objective, middle, jac=True, method="L-BFGS-B", bounds=list(zip(low, high, strict=True))
    )
    hessian = np.array([
        (objective(found.x + one)[1] - objective(found.x - one)[1]) / (2 * STEP)
        for one in STEP * np.eye(count)
    ])  # fmt: skip
    values, vectors = np.linalg.eigh((hessian + hessian.T) / 2)
    # Nowhere wider than the prior, which also mends a Hessian that is off its maximum.
    scales = 1 / np.sqrt(np.maximum(values, 1 / spread.max() ** 2))
    standard = np.random.default_rng(seed).standard_normal((draws, count))
    drawn = np.clip(found.x + (standard * scales) @ vectors.T, low, high)
    return tuple(
        process(estimator.kernel_.clone_with_theta(theta), optimizer=None).fit(inputs, outputs)
        for theta in drawn
    )
