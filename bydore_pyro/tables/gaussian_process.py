"""Gaussian processes of a loss on the weights: the law of losses as one, and one over log weights.

    loss(w) ~ GP(mean(w), kernel(w, w')),    measured = loss(w) + noise

The law (`bydore_pyro.law.law`), linear in its parameters about the likeliest, is a process: its
kernel is ``J V J'``, from its derivatives and its prior. Over log weights,
``x_k = log(1 + 1000 w_k) / log(1001)``, the kernel is BoTorch's, with a length for each domain. It
is found from 256 runs at most; then all runs count. Losses are expected in a unit in which their
standard deviation is near 1.

References:
    Balandat et al., BoTorch, arXiv 1910.06403; Hvarfner, Hellsten and Nardi, Vanilla Bayesian
    Optimization Performs Great in High Dimensions, arXiv 2402.02229 (the kernel's prior).
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.errors import require
from bydore_pyro.law import Law

# A domain's log weight ends at this share, below which tables are rounded to zero.
OFFSET = 1e-3
ITERATIONS = 200  # of the search for the kernel, at most
LENGTH, NOISE = 1.5, 1e-2  # where it starts: lengths; variance of standardised losses
FLAT = 1e-3  # range of what a constant predicts for the runs, as a share of their losses' deviation
CHUNK = 4096  # mixtures whose losses are predicted at once
KERNEL_RUNS = 256  # from which a kernel, or the likeliest law, is found
TAIL = 0.97  # where Student's tails are compared with the normal ones: the end of 94 % intervals
JITTER = 1e-9  # of a kernel's mean variance

Mean = Callable[[np.ndarray], Tensor]  # of mixtures (S, K): (S,)
Kernel = Callable[[np.ndarray, np.ndarray | None], Tensor]  # (S, R); without others variances (S,)


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianProcess:
    """A process conditioned on runs.

    Args:
        mean: Of mixtures ``(S, K)``, before the runs ``(S,)``.
        kernel: Of mixtures and others ``(S, R)``; without others, the variances ``(S,)``.
        noise: Variance of a run's loss.
        runs: Their weights ``(N, K)``.
        root: Cholesky's of the runs' covariance ``(N, N)``.
        solved: The runs' covariance to the power -1, times their losses less their mean ``(N,)``.
        tails: Factor of all standard deviations, so that 94 % intervals hold what they say where
            few runs show the noise.
    """

    mean: Mean
    kernel: Kernel
    noise: float
    runs: np.ndarray
    root: Tensor
    solved: Tensor
    tails: float = 1.0

    @classmethod
    def conditioned(
        cls, mean: Mean, kernel: Kernel, noise: float, weights: np.ndarray, losses: np.ndarray
    ) -> GaussianProcess:
        """Returns the process given the losses ``(N,)`` of runs on weights ``(N, K)``."""
        with torch.no_grad():
            covariance = kernel(weights, weights)
            extra = noise + JITTER * float(covariance.diagonal().mean())
            root = torch.linalg.cholesky(covariance + extra * torch.eye(len(weights)))
            off = torch.from_numpy(losses).double() - mean(weights)
            solved = torch.cholesky_solve(off[:, None], root)[:, 0]
        given = {"noise": noise, "runs": weights, "root": root, "solved": solved}
        return cls(mean=mean, kernel=kernel, **given)

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the expected losses ``(S,)`` of mixtures ``(S, K)``."""
        with torch.no_grad():
            parts = [
                self.mean(some) + self.kernel(some, self.runs) @ self.solved
                for some in np.split(weights, range(CHUNK, len(weights), CHUNK))
            ]
        return torch.cat(parts).numpy()

    def deviation(self, weights: np.ndarray, of_run: bool = True) -> np.ndarray:
        """Returns the standard deviation ``(S,)`` of a run's loss on each mixture, or of the
        expected loss."""
        with torch.no_grad():
            parts = []
            for some in np.split(weights, range(CHUNK, len(weights), CHUNK)):
                seen = torch.linalg.solve_triangular(
                    self.root, self.kernel(self.runs, some), upper=False
                )
                parts.append(self.kernel(some, None) - seen.square().sum(0))
        variance = torch.cat(parts).clamp(min=0) + of_run * self.noise
        return self.tails * variance.sqrt().numpy()

    def covariance(self, weights: np.ndarray) -> np.ndarray:
        """Returns the covariance ``(S, S)`` of the mixtures' expected losses."""
        with torch.no_grad():
            seen = torch.linalg.solve_triangular(
                self.root, self.kernel(self.runs, weights), upper=False
            )
            return self.tails**2 * (self.kernel(weights, weights) - seen.T @ seen).numpy()

    def left_out(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns each run's loss less what the others predict ``(N,)``, and the standard deviation
        that they predict ``(N,)``, for the kernel of all runs."""
        precision = torch.cholesky_inverse(self.root).diagonal()
        return (self.solved / precision).numpy(), self.tails * precision.rsqrt().numpy()


@dataclass(frozen=True, kw_only=True, eq=False)
class Either:
    """One of two processes is right: the law, with probability `share`, or the other."""

    law: GaussianProcess
    process: GaussianProcess
    share: float

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the expected losses ``(S,)`` of mixtures ``(S, K)``."""
        return self._mean(self.law.predict(weights), self.process.predict(weights))

    def deviation(self, weights: np.ndarray, of_run: bool = True) -> np.ndarray:
        """Returns the standard deviation ``(S,)`` of a run's loss, or of the expected loss."""
        own, other = (one.deviation(weights, of_run) for one in (self.law, self.process))
        between = self.share * (1 - self.share) * self._apart(weights) ** 2
        return np.sqrt(self._mean(own**2, other**2) + between)

    def covariance(self, weights: np.ndarray) -> np.ndarray:
        """Returns the covariance ``(S, S)`` of the mixtures' expected losses."""
        apart = self._apart(weights)
        within = self._mean(self.law.covariance(weights), self.process.covariance(weights))
        return within + self.share * (1 - self.share) * np.outer(apart, apart)

    def _mean(self, law: np.ndarray, process: np.ndarray) -> np.ndarray:
        return self.share * law + (1 - self.share) * process

    def _apart(self, weights: np.ndarray) -> np.ndarray:
        return self.law.predict(weights) - self.process.predict(weights)


def law_processes(law: Law, weights: np.ndarray, losses: np.ndarray) -> list[GaussianProcess]:
    """Returns the law as a process for each metric.

    Where the law predicts left-out runs worse than it expects, by all metrics together, its
    deviations are that much larger.

    Args:
        law: Fitted to these runs, or to some of them.
        weights: Of the runs ``(N, K)``.
        losses: Of the runs ``(N, T)``.
    """
    from scipy import stats

    noise, degrees = law.noise()
    found = [
        GaussianProcess.conditioned(*_parts_of(law, t), float(noise[t]), weights, column)
        for t, column in enumerate(losses.T)
    ]
    off = [error / deviation for error, deviation in (one.left_out() for one in found)]
    worse = max(1.0, float(np.sqrt(np.mean(np.square(off)))))
    tails = worse * stats.t.ppf(TAIL, degrees.numpy()) / stats.norm.ppf(TAIL)
    return [replace(one, tails=float(tail)) for one, tail in zip(found, tails, strict=True)]


def _parts_of(law: Law, target: int) -> tuple[Mean, Kernel]:

    def mean(weights: np.ndarray) -> Tensor:
        return law.linearised(torch.from_numpy(weights), target)[0]

    def kernel(weights: np.ndarray, others: np.ndarray | None) -> Tensor:
        features = law.linearised(torch.from_numpy(weights), target)[1]
        if others is None:
            return features.square().sum(1)
        return features @ law.linearised(torch.from_numpy(others), target)[1].T

    return mean, kernel


def likeliest_process(weights: np.ndarray, losses: np.ndarray) -> GaussianProcess | None:
    """Fits the kernel of BoTorch's `SingleTaskGP`, with its prior for inputs in [0, 1].

    Lengths and noise are searched for by their logarithms, which takes a tenth of the time. Runs on
    one mixture say how large the noise is. None if the search ends with a constant, or fails.

    Args:
        weights: Of the runs ``(N, K)``, no copies of each other.
        losses: Of the runs ``(N,)``.

    Raises:
        DataError: When BoTorch is not installed.
    """
    models = require("botorch.models", "baselines")
    marginal = require("gpytorch.mlls", "baselines").ExactMarginalLogLikelihood
    positive = require("gpytorch.constraints", "baselines").Positive
    fitting, problems = (require(f"botorch.{n}", "baselines") for n in ("fit", "exceptions"))
    chosen = kernel_runs(len(weights))
    with _seeded(0):
        target = torch.from_numpy(losses[chosen])[:, None]
        model = models.SingleTaskGP(_inputs(weights[chosen]), target)
        kernel, noise = model.covar_module, model.likelihood.noise_covar
        kernel.register_constraint("raw_lengthscale", positive(torch.exp, torch.log))
        noise.register_constraint("raw_noise", positive(torch.exp, torch.log))
        kernel.lengthscale, noise.noise = LENGTH, NOISE
        objective = marginal(model.likelihood, model)
        try:
            fitting.fit_gpytorch_mll(
                objective, optimizer_kwargs={"options": {"maxiter": ITERATIONS}}
            )
        except (problems.ModelFittingError, torch.linalg.LinAlgError):
            return None
    model.eval().requires_grad_(False)
    centre, unit = float(model.outcome_transform.means), float(model.outcome_transform.stdvs)
    constant = centre + unit * float(model.mean_module.constant)

    def found(some: np.ndarray, others: np.ndarray | None) -> Tensor:
        if others is None:
            return unit**2 * kernel(_inputs(some), diag=True)
        return unit**2 * kernel(_inputs(some), _inputs(others)).to_dense()

    process = GaussianProcess.conditioned(
        lambda some: torch.full((len(some),), constant).double(),
        *(found, unit**2 * float(noise.noise), weights, losses),
    )
    return process if np.ptp(process.predict(weights)) > FLAT * losses.std() else None


def kernel_runs(runs: int) -> np.ndarray:
    """Returns the places of those runs from which a kernel, or the likeliest law, is found."""
    if runs <= KERNEL_RUNS:
        return np.arange(runs)
    return np.sort(np.random.default_rng(0).permutation(runs)[:KERNEL_RUNS])


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
