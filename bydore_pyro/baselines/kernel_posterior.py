"""How unsure the parameters of a Gaussian process's kernel are: draws from their posterior."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize

from bydore_pyro.baselines.kernel_gradient import quick_process

__all__ = ["kernel_draws"]

# Medians of the log-normal priors, and their standard deviations in logarithms. Losses are
# standardised and log weights span 7 units, so a length of 100 is a domain that hardly matters.
SIGNAL, LENGTH, NOISE = (10.0, 2.0), (10.0, 1.5), (1e-2, 2.0)
REACH = 5.0  # standard deviations of the prior within which parameters stay
STEP = 1e-3  # of the differences that make the Hessian out of gradients


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
