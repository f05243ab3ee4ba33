"""A Gaussian process over log weights, by BoTorch: a loss, and how sure it is.

References:
    Balandat et al., BoTorch, arXiv 1910.06403; Hvarfner, Hellsten and Nardi, Vanilla Bayesian
    Optimization Performs Great in High Dimensions, arXiv 2402.02229 (the kernel's prior); Wilson
    et al., Efficiently Sampling Functions from Gaussian Process Posteriors, arXiv 2002.09309.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.utils import DataError, require

__all__ = ["GaussianProcess", "fit_gaussian_process"]

# A domain's log weight ends at this share, below which tables are rounded to zero.
OFFSET = 1e-3
ITERATIONS = 200  # of the search for the kernel, at most
LENGTH, NOISE = 1.5, 1e-2  # where it starts: lengths; variance of standardised losses
CHUNK = 4096  # mixtures whose losses are predicted at once


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianProcess:
    """A fitted Gaussian process; all losses are in the unit of those that it was fitted to.

        loss(w) ~ GP(mean, kernel(x, x')),     measured = loss(w) + noise,
        x_k = log(1 + 1000 w_k) / log(1001)

    Args:
        model: BoTorch's `SingleTaskGP`.
        width: Factor of all standard deviations, which cross-validation finds.
    """

    model: Any
    width: float = 1.0

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the expected losses ``(S,)`` of mixtures ``(S, K)``."""
        return self.moments(weights)[0]

    def moments(self, weights: np.ndarray, of_run: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Returns mean and standard deviation of each mixture's loss, or of a run's on it."""
        parts = []
        with torch.no_grad():
            for start in range(0, len(weights), CHUNK):
                inputs = _inputs(weights[start : start + CHUNK])
                found = self.model.posterior(inputs, observation_noise=of_run)
                parts.append(torch.cat([found.mean, found.variance.clamp(min=0).sqrt()], 1).numpy())
        mean, deviation = np.concatenate(parts).T
        return mean, self.width * deviation

    def deviation(self, weights: np.ndarray) -> np.ndarray:
        """Returns the standard deviation ``(S,)`` of the loss of one more run on each mixture."""
        return self.moments(weights, of_run=True)[1]

    def gap(self, weights: np.ndarray, other: np.ndarray) -> tuple[float, float]:
        """Returns mean and standard deviation of the other mixture's loss minus this one's, in the
        unit of the losses."""
        with torch.no_grad():
            found = self.model.posterior(_inputs(np.stack([other, weights])))
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
            drawn = paths(_inputs(weights)).reshape(draws, len(weights)).numpy()
        mean = self.predict(weights)
        return mean + self.width * (drawn - mean)


def fit_gaussian_process(weights: np.ndarray, losses: np.ndarray) -> GaussianProcess:
    """Fits BoTorch's `SingleTaskGP` with its default kernel, a length a domain, and prior.

    The prior of the lengths is one for inputs in [0, 1]. Lengths and noise are searched for by
    their logarithms, which takes a tenth of the time.

    Args:
        weights: Of the runs ``(N, K)``.
        losses: Of the runs ``(N,)``, in any unit.

    Raises:
        DataError: When BoTorch is not installed, or finds no kernel.
    """
    models = require("botorch.models", "baselines")
    marginal = require("gpytorch.mlls", "baselines").ExactMarginalLogLikelihood
    positive = require("gpytorch.constraints", "baselines").Positive
    fitting, problems = (require(f"botorch.{n}", "baselines") for n in ("fit", "exceptions"))
    with _seeded(0):
        model = models.SingleTaskGP(_inputs(weights), torch.from_numpy(losses)[:, None])
        kernel, noise = model.covar_module, model.likelihood.noise_covar
        kernel.register_constraint("raw_lengthscale", positive(torch.exp, torch.log))
        noise.register_constraint("raw_noise", positive(torch.exp, torch.log))
        kernel.lengthscale, noise.noise = LENGTH, NOISE
        try:
            fitting.fit_gpytorch_mll(
                marginal(model.likelihood, model),
                optimizer_kwargs={"options": {"maxiter": ITERATIONS}},
            )
        except problems.ModelFittingError as error:
            raise DataError(f"Expected runs that a Gaussian process fits: {error}") from error
    model.eval()
    return GaussianProcess(model=model)


def _inputs(weights: np.ndarray) -> Tensor:
    """Returns the log weights ``x`` of mixtures ``(S, K)``, in [0, 1]."""
    return torch.from_numpy(np.log1p(weights / OFFSET) / np.log1p(1 / OFFSET))


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """BoTorch draws from torch's own generator, and warns of each search that is cut short."""
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        torch.manual_seed(seed)
        warnings.simplefilter("ignore")
        yield
