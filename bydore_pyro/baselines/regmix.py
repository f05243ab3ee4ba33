"""RegMix: small proxies on random mixtures, a regression of their losses, a simulated optimum.

Three steps: `sample_mixtures` gives the mixtures to train proxies on, `fit_regression` maps weights
to a target's loss, and `simulated_optimum` averages those of many random mixtures whose predicted
loss is least. The authors regress with a linear model and with LightGBM. The Gaussian process is
ours: it knows how sure it is.

References:
    Liu et al., RegMix: Data Mixture as Regression for Language Model Pre-training,
    arXiv 2407.01492.
"""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal, Protocol, get_args

import numpy as np

from bydore_pyro.errors import DataError, require_finite

__all__ = [
    "GaussianProcess",
    "PointRegression",
    "Regression",
    "SamplingConfig",
    "SimulatedOptimum",
    "fit_gaussian_process",
    "fit_regression",
    "sample_mixtures",
    "simulated_optimum",
]

Kind = Literal["linear", "lightgbm", "gaussian_process"]

# The authors' settings, LightGBM's own for the rest, and what makes it the same everywhere. Early
# stopping ends where either metric has not fallen for so many rounds.
TREES, PATIENCE_ROUNDS, MIN_RUNS_IN_LEAF = 1000, 3, 20
LIGHTGBM = {
    "objective": "regression",
    "metric": ["l1", "l2"],
    "learning_rate": 0.01,
    "seed": 42,
    "min_data_in_leaf": MIN_RUNS_IN_LEAF,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}
# A domain's log weight ends at this share, below which tables are rounded to zero.
OFFSET = 1e-3
SIGNAL, LENGTH, NOISE = (1e-3, 1e4), (1e-2, 1e4), (1e-6, 10.0)  # bounds of the kernel's parameters
ATTEMPTS = 2  # at them, each from where the last one ended
WIDER = (1e-2, 1e2)  # by how much a lower or upper bound is moved where a parameter lies at it
CHUNK = 4096  # mixtures whose losses are predicted at once
# Of 100,000 simulated mixtures so many are drawn jointly; see `simulated_optimum`.
CONTENDERS, POSTERIOR_DRAWS = 4000, 400


@dataclass(frozen=True, kw_only=True)
class SamplingConfig:
    """How the mixtures of the proxies are drawn; the defaults are RegMix's.

    Args:
        temperature: Exponent of the prior, in (0, 1]: below 1 small domains are drawn more often.
        lowest_strength: Least total concentration of the Dirichlet distributions, > 0.
        highest_strength: Largest one.
        strengths: Number of total concentrations, log-spaced between the two.
        most: No weight is above so many times its prior, > 1.
        least: Smaller weights are set to 0; in [0, 1).
    """

    temperature: float = 0.5
    lowest_strength: float = 0.1
    highest_strength: float = 5.0
    strengths: int = 15
    most: float = 15.0
    least: float = 2e-4

    def __post_init__(self) -> None:
        require_finite(self)
        if not 0 < self.temperature <= 1:
            raise ValueError(f"Expected temperature in (0, 1], actual {self.temperature}")
        if not 0 < self.lowest_strength <= self.highest_strength:
            raise ValueError(
                "Expected 0 < lowest_strength <= highest_strength, actual "
                f"{self.lowest_strength} and {self.highest_strength}"
            )
        if self.strengths < 1:
            raise ValueError(f"Expected strengths >= 1, actual {self.strengths}")
        if self.most <= 1:
            raise ValueError(f"Expected most > 1, actual {self.most}")
        if not 0 <= self.least < 1:
            raise ValueError(f"Expected least in [0, 1), actual {self.least}")


def sample_mixtures(
    prior: np.ndarray,
    count: int,
    seed: int | np.random.Generator,
    config: SamplingConfig | None = None,
) -> np.ndarray:
    """Draws the mixtures that the proxies are trained on.

        w ~ Dirichlet(c p),   p_k = prior_k^temperature / sum_j prior_j^temperature,

    with a total concentration c chosen anew for each draw. Weights under `least` become 0, the
    others are normalised, and draws with a weight above `most` times its prior are rejected.

    Args:
        prior: Shares of tokens ``(K,)``, not negative, summing to 1. A share of 0 is a
            weight of 0 in every mixture.
        count: Number of mixtures ``N``.
        seed: A seed, or a generator, which is used up.
        config: Temperature, concentrations and limits.

    Returns:
        Weights ``(N, K)``, each row on the simplex.

    Raises:
        ValueError: When the prior is not on the simplex, the count is not positive, or `least` is
            so large that it could set all weights to 0.
        DataError: When fewer than one draw in 1,000 keeps within the limit.
    """
    config = config or SamplingConfig()
    prior = _on_simplex(prior)
    if count < 1:
        raise ValueError(f"Expected count >= 1, actual {count}")
    if config.least * len(prior) > 1:
        raise ValueError(f"Expected least <= 1 / {len(prior)} domains, actual {config.least}")
    rng = np.random.default_rng(seed)
    has = prior > 0
    tempered = prior[has] ** config.temperature
    tempered /= tempered.sum()
    strengths = np.geomspace(config.lowest_strength, config.highest_strength, config.strengths)
    limit, block = config.most * prior, max(count, 1000)
    kept, tried = np.empty((0, len(prior))), 0
    while len(kept) < count:
        if tried > 10_000 + 1000 * count:
            raise DataError(
                f"Expected mixtures with no weight above {config.most:g} times its prior, found "
                f"{len(kept)} among {tried} draws; a larger limit or a larger strength gives more"
            )
        chosen = rng.choice(config.strengths, size=block)
        drawn = np.zeros((block, len(prior)))
        for number, strength in enumerate(strengths):
            rows = np.flatnonzero(chosen == number)
            drawn[np.ix_(rows, has)] = rng.dirichlet(strength * tempered, size=len(rows))
        drawn[drawn < config.least] = 0
        drawn /= drawn.sum(1, keepdims=True)
        kept = np.concatenate([kept, drawn[(drawn <= limit).all(1)]])
        tried += block
    return kept[:count]


class Regression(Protocol):
    """What maps weights ``(S, K)`` to a target's loss ``(S,)``, nats per token."""

    def predict(self, weights: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class PointRegression:
    """A fitted regression without uncertainty.

    Args:
        kind: "linear" or "lightgbm".
        estimator: Of scikit-learn or LightGBM, fitted.
        domains: Number ``K`` of weights that it takes.
        trees: Trees that predict, of LightGBM; None otherwise.
    """

    kind: str
    estimator: Any
    domains: int
    trees: int | None = None

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the predicted losses ``(S,)`` of mixtures ``(S, K)``, nats per token."""
        return self.estimator.predict(_mixtures(weights, self.domains))


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianProcess:
    """A fitted Gaussian process over log weights: a loss and how sure it is.

        loss(w) = centre + scale f(x),  x_k = log(w_k + 0.001),  f ~ GP(0, c Matern_5/2),
        measured = loss(w) + scale noise

    Args:
        estimator: scikit-learn's GaussianProcessRegressor, fitted to standardised losses.
        centre: Mean of the losses that it was fitted to, nats per token.
        scale: Their standard deviation, nats per token.
        domains: Number ``K`` of weights that it takes.
        notes: What the search for the kernel's parameters could not settle, and weights without
            influence; () where there is neither.
    """

    estimator: Any
    centre: float
    scale: float
    domains: int
    notes: tuple[str, ...] = ()

    @property
    def noise(self) -> float:
        """Standard deviation of one run's loss about the loss of its mixture, nats per token."""
        return self.scale * float(np.sqrt(self.estimator.kernel_.k2.noise_level))

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the expected losses ``(S,)`` of mixtures ``(S, K)``, nats per token."""
        return self._moments(weights)[0]

    def standard_deviation(self, weights: np.ndarray, *, new_run: bool = False) -> np.ndarray:
        """Returns how unsure the losses of mixtures ``(S, K)`` are, ``(S,)``, nats per token.

        Args:
            weights: The mixtures.
            new_run: Whether of the loss that one more run would measure, with the noise of a
                single run, instead of the loss of the mixture.
        """
        deviation = self._moments(weights)[1]
        return np.hypot(deviation, self.noise) if new_run else deviation

    def predict_interval(
        self, weights: np.ndarray, *, probability: float = 0.94, new_run: bool = False
    ) -> np.ndarray:
        """Returns the central intervals (low, high) of the losses, ``(S, 2)``, nats per token.

        Args:
            weights: The mixtures ``(S, K)``.
            probability: The mass of the intervals, in (0, 1).
            new_run: As for `standard_deviation`.
        """
        half = _normal_quantile(probability) * self.standard_deviation(weights, new_run=new_run)
        mean = self.predict(weights)
        return np.stack([mean - half, mean + half], axis=1)

    def sample(self, weights: np.ndarray, draws: int, seed: int) -> np.ndarray:
        """Draws the losses of mixtures ``(S, K)`` jointly: ``(draws, S)``, nats per token.

        The covariance of all ``S`` mixtures is held in memory, 8 S^2 bytes, several times.
        """
        inputs = _log_weights(_mixtures(weights, self.domains))
        mean, covariance = self.estimator.predict(inputs, return_cov=True)
        kernel = self.estimator.kernel_
        # The noise is of runs, not of mixtures. Mixtures that are alike make the covariance
        # singular, to which the added share of the signal is nothing.
        jitter = 1e-8 * kernel.k1.k1.constant_value
        covariance[np.diag_indices_from(covariance)] += jitter - kernel.k2.noise_level
        standard = np.random.default_rng(seed).multivariate_normal(
            mean, covariance, size=draws, method="cholesky", check_valid="ignore"
        )
        return self.centre + self.scale * standard

    def _moments(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns mean and standard deviation of the mixtures' losses, without a run's noise."""
        inputs = _log_weights(_mixtures(weights, self.domains))
        parts = [
            self.estimator.predict(inputs[start : start + CHUNK], return_std=True)
            for start in range(0, len(inputs), CHUNK)
        ]
        mean, deviation = (np.concatenate(values) for values in zip(*parts, strict=True))
        variance = np.maximum(deviation**2 - self.estimator.kernel_.k2.noise_level, 0)
        return self.centre + self.scale * mean, self.scale * np.sqrt(variance)


def fit_regression(
    kind: Kind,
    weights: np.ndarray,
    losses: np.ndarray,
    *,
    evaluation: tuple[np.ndarray, np.ndarray] | None = None,
) -> PointRegression | GaussianProcess:
    """Fits a regression of a target's loss on the weights.

    Args:
        kind: "linear": least squares. "lightgbm": 1000 trees, learning rate 0.01, seed 42, the same
            on every machine and with any number of threads. "gaussian_process": see
            `fit_gaussian_process`.
        weights: Of the runs ``(N, K)``.
        losses: Of the runs ``(N,)``, nats per token.
        evaluation: Weights and losses that stop LightGBM once its mean absolute or its mean squared
            error on them has not fallen for 3 trees. RegMix's notebook gives the runs that it
            also tests on, so its figures are not those of unseen runs.

    Returns:
        The fitted regression.

    Raises:
        ValueError: When the kind is unknown, a shape or number is not valid, or the library that
            fits is not installed.
        DataError: When there are too few runs, or all have one loss.

    Warns:
        UserWarning: When `evaluation` is given to a regression that does not stop early.
    """
    if kind not in get_args(Kind):
        raise ValueError(f"Expected one of {', '.join(get_args(Kind))}, actual {kind!r}")
    weights, losses = _runs(weights, losses)
    if kind != "lightgbm" and evaluation is not None:
        warnings.warn(f"{kind} does not stop early: evaluation has no effect", stacklevel=2)
    if kind == "gaussian_process":
        return fit_gaussian_process(weights, losses)
    domains = weights.shape[1]
    if kind == "linear":
        estimator = _extra("sklearn.linear_model").LinearRegression().fit(weights, losses)
        return PointRegression(kind=kind, estimator=estimator, domains=domains)
    if len(losses) < 2 * MIN_RUNS_IN_LEAF:
        raise DataError(
            f"Expected at least {2 * MIN_RUNS_IN_LEAF} runs for LightGBM, which puts "
            f"{MIN_RUNS_IN_LEAF} in every leaf, found {len(losses)}"
        )
    lightgbm = _extra("lightgbm")
    # LightGBM's own interface: the names of its scikit-learn interface change between versions.
    training = lightgbm.Dataset(weights, losses, params=LIGHTGBM)
    stop: dict[str, Any] = {}
    if evaluation is not None:
        stopping = lightgbm.Dataset(*_runs(*evaluation, domains=domains), reference=training)
        stop = {
            "valid_sets": [stopping],
            "callbacks": [lightgbm.early_stopping(PATIENCE_ROUNDS, verbose=False)],
        }
    estimator = lightgbm.train(LIGHTGBM, training, TREES, **stop)
    trees = estimator.best_iteration if evaluation is not None else estimator.num_trees()
    return PointRegression(kind=kind, estimator=estimator, domains=domains, trees=trees)


def fit_gaussian_process(
    weights: np.ndarray,
    losses: np.ndarray,
    *,
    length_scales: Literal["per_domain", "shared"] = "per_domain",
) -> GaussianProcess:
    """Fits a Gaussian process with a Matern-5/2 kernel and noise to log weights.

    The kernel's parameters maximise the marginal likelihood: first with one length scale for all
    domains, and from there with one for each. Where that ends at a bound or without convergence, it
    goes on from there, with that bound 100 times wider; what stays is told in the result's notes.
    A length scale at its upper bound is settled: the domain has no influence on the losses.

    Args:
        weights: Of the runs ``(N, K)``.
        losses: Of the runs ``(N,)``, nats per token.
        length_scales: "per_domain" finds out which domains matter; "shared" is K times faster.

    Raises:
        ValueError: When a shape or number is not valid, or scikit-learn is not installed.
        DataError: When there are fewer than 2 runs, or all have one loss.
    """
    if length_scales not in ("per_domain", "shared"):
        raise ValueError(f"Expected per_domain or shared length scales, actual {length_scales!r}")
    weights, losses = _runs(weights, losses)
    kernels = _extra("sklearn.gaussian_process.kernels")
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
        estimator=estimator, centre=centre, scale=scale, domains=domains, notes=tuple(notes)
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatedOptimum:
    """The mixture that a regression finds best, and how sure it is of it.

    Args:
        weights: Mean of the best simulated mixtures ``(K,)``, on the simplex.
        loss: Predicted for these weights, nats per token.
        loss_interval: Low and high of that loss ``(2,)``, None without uncertainty.
        weights_interval: Low and high of every weight ``(K, 2)``, None without uncertainty.
        weights_draws: Optimum of each posterior draw ``(draws, K)``, None without uncertainty.
        probability: The mass of the intervals, which are central.
    """

    weights: np.ndarray
    loss: float
    loss_interval: np.ndarray | None = None
    weights_interval: np.ndarray | None = None
    weights_draws: np.ndarray | None = None
    probability: float = 0.94


def simulated_optimum(
    model: Regression,
    prior: np.ndarray,
    *,
    draws: int = 100_000,
    best: int = 128,
    seed: int = 42,
    probability: float = 0.94,
) -> SimulatedOptimum:
    """Returns the mean of those simulated mixtures whose predicted loss is least.

    The mixtures are drawn from Dirichlet(prior), as the authors do, with NumPy's generator of their
    seed.

    A Gaussian process also gives intervals. That of the loss is of the loss at the returned
    weights. Those of the weights come from 400 functions drawn from the posterior, each with an
    optimum of its own, the mean of its own best mixtures. Such draws need the covariance of all
    mixtures, 80 GB for 100,000, so they are made for the contenders only: the 4,000 mixtures with
    the least mean - 2 standard deviations. On the runs that RegMix published, functions drawn on
    all 100,000 (by random Fourier features, conditioned on the runs) had 98 % of their best 128
    among the contenders, and the ends of their intervals were within 0.01.

    Args:
        model: What predicts losses.
        prior: Shares of tokens ``(K,)``, not negative, summing to 1. A share of 0 is a weight of 0.
        draws: Simulated mixtures.
        best: How many of them are averaged; with a Gaussian process at most 4,000.
        seed: Of the mixtures and of the posterior's draws.
        probability: The mass of the intervals, in (0, 1).

    Raises:
        ValueError: When the prior is not on the simplex, or a number is out of its range.
    """
    prior = _on_simplex(prior)
    if not 1 <= best <= draws:
        raise ValueError(f"Expected best in [1, draws], actual {best} of {draws}")
    if isinstance(model, GaussianProcess) and best > CONTENDERS:
        raise ValueError(f"Expected best <= {CONTENDERS} with a Gaussian process, actual {best}")
    _normal_quantile(probability)
    mixtures = np.zeros((draws, len(prior)))
    # The stream of the authors' np.random.seed(42); the newer generators give other mixtures.
    legacy = np.random.RandomState(seed)
    mixtures[:, prior > 0] = legacy.dirichlet(prior[prior > 0], size=draws)
    predicted = model.predict(mixtures)  # (S,)
    weights = mixtures[np.argsort(predicted, kind="stable")[:best]].mean(0)
    loss = float(model.predict(weights[None])[0])
    if not isinstance(model, GaussianProcess):
        return SimulatedOptimum(weights=weights, loss=loss, probability=probability)
    optima = _own_best(model, mixtures, predicted, best, seed)
    tails = [(1 - probability) / 2, (1 + probability) / 2]
    return SimulatedOptimum(
        weights=weights,
        loss=loss,
        loss_interval=model.predict_interval(weights[None], probability=probability)[0],
        weights_interval=np.quantile(optima, tails, axis=0).T,
        weights_draws=optima,
        probability=probability,
    )


def _own_best(
    model: GaussianProcess, mixtures: np.ndarray, predicted: np.ndarray, best: int, seed: int
) -> np.ndarray:
    """Returns the optimum of each function drawn from the posterior, ``(draws, K)``."""
    lower = predicted - 2 * model.standard_deviation(mixtures)
    contenders = mixtures[np.argsort(lower, kind="stable")[:CONTENDERS]]
    losses = model.sample(contenders, POSTERIOR_DRAWS, seed)  # (draws, S)
    own = np.argsort(losses, axis=1, kind="stable")[:, :best]
    return contenders[own].mean(1)


def _most_likely(kernel: Any, inputs: np.ndarray, outputs: np.ndarray) -> tuple[Any, list[str]]:
    """Fits a Gaussian process; returns it, and notes on the search for its kernel's parameters."""
    process = _extra("sklearn.gaussian_process").GaussianProcessRegressor
    unsettled = _extra("sklearn.exceptions").ConvergenceWarning
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
        long = np.flatnonzero(at_bound[1:-1, 1]) + 1
        at_bound[1:-1, 1] = False  # no longer scale would change anything
        bounds = np.exp(found.bounds)
        names = ["signal", *(f"length scale {k + 1}" for k in range(len(bounds) - 2)), "noise"]
        for row, side in np.argwhere(at_bound):
            notes.append(f"the {names[row]} lies at its bound {bounds[row, side]:g}")
        settled = not notes
        if len(long):
            which = ", ".join(map(str, long)) if len(bounds) > 3 else "all"
            notes.append(f"no influence is seen of these weights, counted from 1: {which}")
        if settled:
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


def _normal_quantile(probability: float) -> float:
    """Returns how many standard deviations a central interval reaches to either side."""
    if not 0 < probability < 1:
        raise ValueError(f"Expected probability in (0, 1), actual {probability}")
    return NormalDist().inv_cdf((1 + probability) / 2)


def _on_simplex(prior: np.ndarray) -> np.ndarray:
    """Returns a prior ``(K,)`` that sums to 1 to the last digit."""
    prior = np.asarray(prior, float)
    if prior.ndim != 1 or not np.isfinite(prior).all() or (prior < 0).any():
        raise ValueError(f"Expected a prior (K,) of shares >= 0, actual {prior}")
    if abs(prior.sum() - 1) > 1e-3:
        raise ValueError(f"Expected a prior that sums to 1, actual {prior.sum()}")
    return prior / prior.sum()


def _mixtures(weights: np.ndarray, domains: int) -> np.ndarray:
    """Returns weights, checked, as ``(S, K)``."""
    weights = np.asarray(weights, float)
    if weights.ndim != 2 or weights.shape[1] != domains:
        raise ValueError(f"Expected weights of shape (S, {domains}), actual {weights.shape}")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("Expected finite weights >= 0, found others")
    return weights


def _runs(
    weights: np.ndarray, losses: np.ndarray, domains: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Returns weights ``(N, K)`` and losses ``(N,)``, checked."""
    weights, losses = np.asarray(weights, float), np.asarray(losses, float)
    weights = _mixtures(weights, domains or weights.shape[-1])
    if losses.shape != (len(weights),):
        raise ValueError(f"Expected losses of shape ({len(weights)},), actual {losses.shape}")
    if not np.isfinite(losses).all():
        raise ValueError("Expected finite losses, found others")
    if domains is None:
        if len(losses) < 2:
            raise DataError(f"Expected at least 2 runs for a regression, found {len(losses)}")
        if np.ptp(losses) == 0:
            raise DataError(f"Expected runs that differ in loss, found {losses[0]:g} in all")
    elif not len(losses):
        raise DataError("Expected runs to stop early on, found none")
    return weights, losses


def _extra(module: str) -> Any:
    """Imports what only the baselines need."""
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:  # OSError: a shared library that is missing
        raise ValueError(
            f"Expected the package of {module}, found none ({error}): "
            "pip install 'bydore-pyro[baselines]'"
        ) from error
