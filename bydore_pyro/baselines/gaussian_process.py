"""A Gaussian process over log weights, by BoTorch: a loss, how sure it is, and what to run next.

References:
    Balandat et al., BoTorch, arXiv 1910.06403; Ament et al., Unexpected Improvements to Expected
    Improvement, arXiv 2310.20708 (the acquisition); Hvarfner, Hellsten and Nardi, Vanilla Bayesian
    Optimization Performs Great in High Dimensions, arXiv 2402.02229 (the kernel's prior); Wilson
    et al., Efficiently Sampling Functions from Gaussian Process Posteriors, arXiv 2002.09309.
"""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bydore_pyro.mixture import within_caps
from bydore_pyro.utils import DataError, require

__all__ = ["GaussianProcess", "NextMixtures", "acquisition", "fit_gaussian_process",
           "propose"]  # fmt: skip

# A domain's log weight ends at this share, below which tables are rounded to zero.
OFFSET = 1e-3
ITERATIONS = 200  # of the search for the kernel, at most
STARTS, NOISE = (3.0, 30.0), 1e-2  # of that search: lengths; variance of standardised losses
CHUNK = 4096  # mixtures whose losses are predicted at once
LEAST = 2e-4  # smaller weights of a proposed run are set to 0
RESTARTS = 4  # of the search for the next mixture


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianProcess:
    """A fitted Gaussian process; all losses are in the unit of those that it was fitted to.

        loss(w) ~ GP(mean, kernel(x, x')),   x_k = log(w_k + 0.001),   measured = loss(w) + noise

    Args:
        model: BoTorch's `SingleTaskGP`.
        width: Factor of all standard deviations, which cross-validation finds.
    """

    model: Any
    width: float = 1.0

    @property
    def noise(self) -> float:
        """Standard deviation of one run's loss about its mixture's, in the unit of the losses."""
        scale = float(self.model.outcome_transform.stdvs)
        return scale * float(self.model.likelihood.noise.detach().sqrt())

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the expected losses ``(S,)`` of mixtures ``(S, K)``."""
        return self.moments(weights)[0]

    def moments(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns mean and standard deviation of the mixtures' losses, without a run's noise."""
        parts = []
        with torch.no_grad():
            for start in range(0, len(weights), CHUNK):
                found = self.model.posterior(_tensor(weights[start : start + CHUNK]))
                parts.append(torch.cat([found.mean, found.variance.clamp(min=0).sqrt()], 1).numpy())
        mean, deviation = np.concatenate(parts).T
        return mean, self.width * deviation

    def standard_deviation(self, weights: np.ndarray) -> np.ndarray:
        """Returns how unsure the loss of one more run on each mixture is ``(S,)``."""
        return np.hypot(self.moments(weights)[1], self.width * self.noise)

    def gap(self, weights: np.ndarray, other: np.ndarray) -> tuple[float, float]:
        """Returns mean and standard deviation of the other mixture's loss minus this one's, in the
        unit of the losses."""
        with torch.no_grad():
            found = self.model.posterior(_tensor(np.stack([other, weights])))
            covariance = found.distribution.covariance_matrix.numpy()
            mean = found.mean[:, 0].numpy()
        difference = np.array([1.0, -1.0])
        variance = float(difference @ covariance @ difference)
        return float(difference @ mean), self.width * float(np.sqrt(max(variance, 0.0)))

    def sample(self, weights: np.ndarray, draws: int, seed: int) -> np.ndarray:
        """Draws functions from the posterior: their losses of mixtures ``(draws, S)``."""
        pathwise = require("botorch.sampling.pathwise", "baselines")
        with _seeded(seed), torch.no_grad():
            paths = pathwise.draw_matheron_paths(self.model, sample_shape=torch.Size([draws]))
            drawn = paths(_tensor(weights)).reshape(draws, len(weights)).numpy()
        mean = self.predict(weights)
        return mean + self.width * (drawn - mean)


def fit_gaussian_process(weights: np.ndarray, losses: np.ndarray) -> GaussianProcess:
    """Fits BoTorch's `SingleTaskGP` with its default kernel, a length a domain, and prior.

    Lengths and noise are searched for by their logarithms, which takes a tenth of the time, from
    two starts; the more probable kernel is taken.

    Args:
        weights: Of the runs ``(N, K)``.
        losses: Of the runs ``(N,)``, in any unit.

    Raises:
        DataError: When BoTorch is not installed, or finds no kernel.
    """
    models = require("botorch.models", "baselines")
    settings = require("botorch.settings", "baselines")
    marginal = require("gpytorch.mlls", "baselines").ExactMarginalLogLikelihood
    positive = require("gpytorch.constraints", "baselines").Positive
    fitting, problems = (require(f"botorch.{n}", "baselines") for n in ("fit", "exceptions"))
    tried: list[tuple[float, Any]] = []
    with _seeded(0), settings.validate_input_scaling(False):
        for length in STARTS:
            model = models.SingleTaskGP(
                _tensor(weights), _tensor(losses)[:, None], input_transform=_log_weights()()
            )
            kernel, noise = model.covar_module, model.likelihood.noise_covar
            kernel.register_constraint("raw_lengthscale", positive(torch.exp, torch.log))
            noise.register_constraint("raw_noise", positive(torch.exp, torch.log))
            kernel.lengthscale, noise.noise = length, NOISE
            objective = marginal(model.likelihood, model)
            try:
                fitting.fit_gpytorch_mll(
                    objective, optimizer_kwargs={"options": {"maxiter": ITERATIONS}}
                )
            except problems.ModelFittingError as error:
                raise DataError(f"Expected runs that a Gaussian process fits: {error}") from error
            model.train()
            tried.append((float(objective(model(*model.train_inputs), model.train_targets)), model))
    model = max(tried, key=lambda one: one[0])[1]
    model.eval()
    return GaussianProcess(model=model)


@dataclass(frozen=True, kw_only=True, eq=False)
class NextMixtures:
    """The mixtures to train next, in this order.

    Args:
        weights: The mixtures ``(n, K)``.
        expected_gain: How far the first is expected to lower the least loss of all mixtures
            measured so far, >= 0.
        noise: Standard deviation of one run's loss.
    """

    weights: np.ndarray
    expected_gain: float
    noise: float

    @property
    def worthwhile(self) -> bool:
        """Whether a run is expected to gain at least its noise."""
        return self.expected_gain >= self.noise

    def details(self) -> dict[str, Any]:
        """Returns all of it as plain values, with a sentence."""
        advice = "worth training" if self.worthwhile else "no further run is needed"
        return {**dataclasses.asdict(self), "weights": self.weights.tolist(),
                "told": f"--adaptive: {advice}: {self.told()}"}  # fmt: skip

    def told(self) -> str:
        """Returns what is expected of the next run, as the end of a sentence."""
        return (
            f"the next run is expected to lower the least loss by {self.expected_gain:.2g}, and "
            f"one run's noise is {self.noise:.2g}"
        )


def acquisition(process: GaussianProcess, measured: np.ndarray, seed: int = 0) -> Any:
    """Returns BoTorch's log of the noisy expected improvement on the mixtures ``(N, K)``.

    Its value is the logarithm of a loss: how far a run is expected to lower the least one.
    """
    logei = require("botorch.acquisition.logei", "baselines")
    objective = require("botorch.acquisition.objective", "baselines")
    sampler = require("botorch.sampling", "baselines").SobolQMCNormalSampler
    with _seeded(seed):
        return logei.qLogNoisyExpectedImprovement(
            process.model,
            _tensor(measured),
            sampler=sampler(torch.Size([128]), seed=seed),
            objective=objective.LinearMCObjective(_tensor(np.array([-1.0]))),
            prune_baseline=True,
        )


def propose(
    process: GaussianProcess,
    measured: np.ndarray,
    starts: np.ndarray,
    count: int,
    *,
    caps: np.ndarray | None = None,
    seed: int = 0,
    progress: Callable[[], object] = int,
) -> NextMixtures:
    """Returns the mixtures whose noisy expected improvement is largest, one after the other.

    Args:
        process: Fitted to the runs.
        measured: Their mixtures ``(N, K)``.
        starts: Mixtures ``(S, K)`` at the best of which the search begins.
        count: How many, >= 1.
        caps: Largest weights ``(K,)``, none if not given.
        seed: Of the draws of the posterior.
        progress: Is called after each.
    """
    optim = require("botorch.optim", "baselines")
    domains = starts.shape[1]
    most = np.ones(domains) if caps is None else caps
    bounds = _tensor(np.stack([np.zeros(domains), most]))
    one = (torch.arange(domains), torch.ones(domains, dtype=torch.float64), 1.0)
    starts = within_caps(starts, most)
    function, chosen, first = acquisition(process, measured, seed), list[np.ndarray](), 0.0
    for number in range(count):
        with _seeded(seed):
            with torch.no_grad():
                values = torch.cat([function(part[:, None]) for part in _tensor(starts).split(256)])
            best = _tensor(starts)[values.topk(min(RESTARTS, len(starts))).indices][:, None]
            found, value = optim.optimize_acqf(
                function, bounds, q=1, num_restarts=len(best), batch_initial_conditions=best,
                equality_constraints=[one], options={"maxiter": 100},
            )  # fmt: skip
        if number == 0:
            first = float(value.exp())
        weights = found.numpy().clip(0, most)
        weights[weights < LEAST] = 0
        weights = within_caps(weights / weights.sum(), most)
        chosen.append(weights[0])
        function.set_X_pending(_tensor(np.stack(chosen)))
        progress()
    return NextMixtures(weights=np.stack(chosen), expected_gain=first, noise=process.noise)


@cache
def _log_weights() -> type[Any]:
    """Returns BoTorch's input transform ``x = log(w + 0.001)``."""
    base = require("botorch.models.transforms.input", "baselines").InputTransform

    class LogWeights(base):  # type: ignore[misc,valid-type]
        transform_on_train = transform_on_eval = transform_on_fantasize = True

        def __init__(self) -> None:
            nn.Module.__init__(self)

        def transform(self, X: Tensor) -> Tensor:
            return (X + OFFSET).log()

    return LogWeights


def _tensor(values: np.ndarray) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """BoTorch draws from torch's own generator, and warns of each search that is cut short."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        torch.manual_seed(seed)
        warnings.simplefilter("ignore")
        yield
