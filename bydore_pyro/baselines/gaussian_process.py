"""A Gaussian process over log weights: a loss, and how sure it is."""

from __future__ import annotations

import dataclasses
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from bydore_pyro.baselines.kernels import kernel_draws as draw_kernels
from bydore_pyro.baselines.kernels import quick_process
from bydore_pyro.baselines.regression_input import require_runs
from bydore_pyro.utils import require

__all__ = ["KERNEL_DRAWS", "GaussianProcess", "fit_gaussian_process"]

# A domain's log weight ends at this share, below which tables are rounded to zero.
OFFSET = 1e-3
SIGNAL, LENGTH, NOISE = (1e-3, 1e4), (1e-2, 1e4), (1e-6, 10.0)  # bounds of the kernel's parameters
ATTEMPTS = 2  # at them, each from where the last one ended
WIDER = (1e-2, 1e2)  # by how much a lower or upper bound is moved where a parameter lies at it
KERNEL_DRAWS = 16
CHUNK = 4096  # mixtures whose losses are predicted at once
JITTERS = (1e-10, 1e-8, 1e-6)  # relative to the signal's variance


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianProcess:
    """A fitted Gaussian process over log weights: a loss and how sure it is.

        loss(w) = centre + scale f(x),  x_k = log(w_k + 0.001),  f ~ GP(0, c Matern_5/2),
        measured = loss(w) + scale noise

    All losses are in the unit of those that it was fitted to.

    Args:
        estimator: scikit-learn's GaussianProcessRegressor, fitted to standardised losses, with the
            most likely kernel.
        centre: Mean of the losses that it was fitted to.
        scale: Their standard deviation.
        others: The same with kernels drawn from their posterior. All that is predicted is the
            equal mixture of theirs; of `estimator` alone where there are none.
        notes: What the search for the kernel's parameters could not settle; () where all is well.
        width: Factor of `standard_deviation` and of the intervals, which cross-validation finds.
    """

    estimator: Any
    centre: float
    scale: float
    others: tuple[Any, ...] = ()
    notes: tuple[str, ...] = ()
    width: float = 1.0

    @property
    def members(self) -> tuple[GaussianProcess, ...]:
        """The processes that predict, each with one kernel."""
        return tuple(dataclasses.replace(self, estimator=e, others=()) for e in self._used)

    @property
    def _used(self) -> tuple[Any, ...]:
        return self.others or (self.estimator,)

    @property
    def noise(self) -> float:
        """Standard deviation of one run's loss about its mixture's, in the unit of the losses."""
        levels = [one.kernel_.k2.noise_level for one in self._used]
        return self.scale * float(np.sqrt(np.mean(levels)))

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the expected losses ``(S,)`` of mixtures ``(S, K)``."""
        return self.moments(weights)[0]

    def standard_deviation(self, weights: np.ndarray) -> np.ndarray:
        """Returns how unsure the loss of one more run on each mixture is ``(S,)``.

        It includes the noise of a single run: what a reader holds beside a loss of their own.
        """
        return self.width * np.hypot(self.moments(weights)[1], self.noise)

    def sample(self, weights: np.ndarray, draws: int, seed: int) -> np.ndarray:
        """Draws the losses of mixtures ``(S, K)`` jointly: ``(draws, S)``.

        Every kernel gets its share of the draws. The covariance of all ``S`` mixtures is held in
        memory, 8 S^2 bytes, several times.
        """
        inputs = _log_weights(weights)
        shares = np.diff(np.linspace(0, draws, len(self._used) + 1).astype(int))
        drawn = [
            _sample(
                one, inputs, int(share), np.random.default_rng([seed, place] if place else seed)
            )
            for place, (one, share) in enumerate(zip(self._used, shares, strict=True))
            if share
        ]
        return self.centre + self.scale * np.concatenate(drawn)

    def moments(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns mean and standard deviation of the mixtures' losses, without a run's noise."""
        inputs = _log_weights(weights)
        each = [_moments(one, inputs) for one in self._used]
        means, variances = (np.stack(values) for values in zip(*each, strict=True))
        spread = variances.mean(0) + means.var(0)  # within the kernels and between them
        return self.centre + self.scale * means.mean(0), self.scale * np.sqrt(spread)

    def believing(self, weights: np.ndarray) -> GaussianProcess:
        """Returns what would be known if a run on each mixture ``(n, K)`` measured the loss that
        is expected: the same kernels and means, but less doubt near these mixtures."""
        inputs = _log_weights(weights)
        each = tuple(_believing(one, inputs) for one in self._used)
        return dataclasses.replace(self, estimator=each[0], others=each if self.others else ())


def _believing(estimator: Any, inputs: np.ndarray) -> Any:
    """Returns a process of the same kernel on more inputs ``(n, K)``, as it expects them."""
    process = require("sklearn.gaussian_process", "baselines").GaussianProcessRegressor
    return process(estimator.kernel_, optimizer=None).fit(
        np.concatenate([estimator.X_train_, inputs]),
        np.concatenate([estimator.y_train_, estimator.predict(inputs)]),
    )


def _moments(estimator: Any, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns mean and variance ``(S,)`` of standardised losses, without a run's noise."""
    parts = [
        estimator.predict(inputs[start : start + CHUNK], return_std=True)
        for start in range(0, len(inputs), CHUNK)
    ]
    mean, deviation = (np.concatenate(values) for values in zip(*parts, strict=True))
    return mean, np.maximum(deviation**2 - estimator.kernel_.k2.noise_level, 0)


def _sample(estimator: Any, inputs: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Draws standardised losses jointly ``(draws, S)``, without a run's noise."""
    mean, covariance = estimator.predict(inputs, return_cov=True)
    kernel = estimator.kernel_
    diagonal = np.diag_indices_from(covariance)
    covariance[diagonal] -= kernel.k2.noise_level  # it is of runs, not of mixtures
    # Mixtures that are alike make the covariance singular; as little as will do is added.
    for jitter in JITTERS:
        covariance[diagonal] += jitter * kernel.k1.k1.constant_value
        try:
            return rng.multivariate_normal(
                mean, covariance, size=draws, method="cholesky", check_valid="ignore"
            )
        except np.linalg.LinAlgError:
            if jitter == JITTERS[-1]:
                raise
    raise AssertionError


def fit_gaussian_process(
    weights: np.ndarray,
    losses: np.ndarray,
    *,
    length_scales: Literal["per_domain", "shared"] = "per_domain",
    kernel_draws: int = KERNEL_DRAWS,
) -> GaussianProcess:
    """Fits a Gaussian process with a Matern-5/2 kernel and noise to log weights.

    The kernel's parameters maximise the marginal likelihood: first with one length scale for all
    domains, and from there with one for each. Where that ends at a bound or without convergence, it
    goes on from there, with that bound 100 times wider; what stays is told in the result's notes.
    A length scale at its upper bound is settled: the domain has no influence on the losses.

    Args:
        weights: Of the runs ``(N, K)``.
        losses: Of the runs ``(N,)``, in any unit.
        length_scales: "per_domain" finds out which domains matter; "shared" does not ask.
        kernel_draws: So many kernels are drawn from their posterior (see
            `bydore_pyro.baselines.kernels`), and all predictions are their mixture; 0
            takes the most likely one for the truth, whose intervals are too narrow where there
            are few runs for a domain.

    Raises:
        DataError: When there are fewer than 2 runs, all have one loss, or scikit-learn is not
            installed.
    """
    require_runs(losses)
    kernels = require("sklearn.gaussian_process.kernels", "baselines")
    centre, scale, domains = float(losses.mean()), float(losses.std()), weights.shape[1]
    inputs, outputs = _log_weights(weights), (losses - centre) / scale
    signal, length, noise = 10.0, np.array([3.0]), 1e-2
    for size in {"shared": [1], "per_domain": [1, domains]}[length_scales]:
        kernel = kernels.ConstantKernel(np.clip(signal, *SIGNAL), SIGNAL) * kernels.Matern(
            np.resize(np.clip(length, 0.1, 100.0), size), LENGTH, nu=2.5
        ) + kernels.WhiteKernel(np.clip(noise, *NOISE), NOISE)
        estimator, notes = _most_likely(kernel, inputs, outputs)
        found = estimator.kernel_
        signal, noise = found.k1.k1.constant_value, found.k2.noise_level
        length = np.atleast_1d(found.k1.k2.length_scale)
    return GaussianProcess(
        estimator=estimator,
        centre=centre,
        scale=scale,
        others=draw_kernels(estimator, kernel_draws),
        notes=tuple(notes),
    )


def _most_likely(kernel: Any, inputs: np.ndarray, outputs: np.ndarray) -> tuple[Any, list[str]]:
    """Fits a Gaussian process; returns it, and notes on the search for its kernel's parameters."""
    process = quick_process()
    unsettled = require("sklearn.exceptions", "baselines").ConvergenceWarning
    for _ in range(ATTEMPTS):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            estimator = process(kernel).fit(inputs, outputs)
        told = [warning for warning in caught if issubclass(warning.category, unsettled)]
        for other in caught:
            if other not in told:
                warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
        found = estimator.kernel_
        # Rows: signal, length scales, noise. Columns: whether at the low bound, at the high one.
        at_bound = np.isclose(found.theta[:, None], found.bounds)
        notes = [] if len(told) <= at_bound.sum() else ["the search did not converge"]
        at_bound[1:-1, 1] = False  # no longer scale would change anything
        bounds = np.exp(found.bounds)
        names = ["signal", *(f"length scale {k + 1}" for k in range(len(bounds) - 2)), "noise"]
        for row, side in np.argwhere(at_bound):
            notes.append(f"the {names[row]} lies at its bound {bounds[row, side]:g}")
        if not notes:
            break
        wider = np.where(at_bound, bounds * WIDER, bounds)
        kernel = found.clone_with_theta(found.theta).set_params(
            k1__k1__constant_value_bounds=wider[0],
            k1__k2__length_scale_bounds=wider[1:-1],
            k2__noise_level_bounds=wider[-1],
        )
    return estimator, notes


def _log_weights(weights: np.ndarray) -> np.ndarray:
    return np.log(weights + OFFSET)
