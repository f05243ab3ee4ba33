"""Gaussian processes of a loss on the weights: one over log weights, and the law of losses as one.

    loss(w) ~ GP(mean(w), kernel(w, w')),    measured = loss(w) + noise

Over log weights, ``x_k = log(1 + 1000 w_k) / log(1001)``, the kernel is BoTorch's, a length a
domain. The law (`bydore_pyro.law.law`), linear in its parameters about the likeliest, is a process
too: its kernel is ``J V J'``, from its derivatives and its prior. Whatever the number of runs, the
kernel and the likeliest law are found from 256 of them; then all runs count.

References:
    Balandat et al., BoTorch, arXiv 1910.06403; Hvarfner, Hellsten and Nardi, Vanilla Bayesian
    Optimization Performs Great in High Dimensions, arXiv 2402.02229 (the kernel's prior).
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.errors import DataError, require
from bydore_pyro.law import Law, fit_law

# A domain's log weight ends at this share, below which tables are rounded to zero.
OFFSET = 1e-3
ITERATIONS = 200  # of the search for the kernel, at most
LENGTH, NOISE = 1.5, 1e-2  # where it starts: lengths; variance of standardised losses
FLAT = 1e-3  # range of what a constant predicts for the runs, as a share of their losses' deviation
USUAL = (1e-3, 1e3)  # deviations of losses that are fitted as they are
CHUNK = 4096  # mixtures whose losses are predicted at once
WORTH_DRAWS = 400
KERNEL_RUNS = 256  # from which a kernel, or the likeliest law, is found
APART = 5.0  # targets' standard deviations are brought within this factor of the median's
TAIL = 0.97  # where Student's tails are compared with the normal ones: the end of 94 % intervals
JITTER = 1e-9  # of a kernel's mean variance

Mean = Callable[[np.ndarray], Tensor]  # of mixtures (S, K): (S,)
Kernel = Callable[[np.ndarray, np.ndarray | None], Tensor]  # (S, R); without others variances (S,)


@dataclass(frozen=True, kw_only=True, eq=False)
class GaussianProcess:
    """A process conditioned on runs; all losses are in the unit of theirs.

    Args:
        mean: Of mixtures ``(S, K)``, before the runs ``(S,)``.
        kernel: Of mixtures and others ``(S, R)``; without others, the variances ``(S,)``.
        noise: Variance of a run's loss.
        runs: Their weights ``(N, K)``.
        root: Cholesky's of the runs' covariance ``(N, N)``.
        solved: The runs' covariance to the power -1, times their losses less their mean ``(N,)``.
        tails: Factor of all standard deviations, so that 94 % intervals hold what they say where
            few runs tell the noise.
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
        that they tell ``(N,)``, for the kernel of all runs."""
        precision = torch.cholesky_inverse(self.root).diagonal()
        return (self.solved / precision).numpy(), self.tails * precision.rsqrt().numpy()


def fit_law_processes(
    weights: np.ndarray, losses: np.ndarray, own: Sequence[int], worth: np.ndarray | None = None
) -> list[GaussianProcess]:
    """Fits the law of losses to all targets at once; returns it as a process a target.

    Transfer is learned from the runs. Targets in very different units are brought near each other
    first. Where the runs are told worse than the law expects when each is left out, by all targets
    together, deviations are that much larger.

    Args:
        weights: Of the runs ``(N, K)``.
        losses: Of the runs ``(N, T)``; a target's are not all equal.
        own: The domain ``(T,)`` that each target is held-out text of, -1 for none.
        worth: What smaller models say of the transfer ``(T, K)``, see `worth_of`.
    """
    from scipy import stats

    chosen, unit = _some(len(weights)), _units(losses) * unit_of(losses)
    law = fit_law(
        torch.from_numpy(weights[chosen]),
        torch.from_numpy(losses[chosen] / unit),
        None if worth is None else torch.from_numpy(worth),
        list(own),
    )
    noise, degrees = law.noise()
    found = [
        GaussianProcess.conditioned(
            *_parts_of(law, place), float(noise[place]), weights, losses[:, place] / unit[place]
        )
        for place in range(len(unit))
    ]
    off = [error / deviation for error, deviation in (one.left_out() for one in found)]
    worse = max(1.0, float(np.sqrt(np.mean(np.square(off)))))
    tails = worse * stats.t.ppf(TAIL, degrees.numpy()) / stats.norm.ppf(TAIL)
    return [_scaled(one, float(u), float(t)) for one, u, t in zip(found, unit, tails, strict=True)]


def worth_of(weights: np.ndarray, losses: np.ndarray, own: Sequence[int]) -> np.ndarray:
    """Returns what a token of each domain is worth for each target ``(T, K)`` by the law of many
    runs: the arguments are those of `fit_law_processes`."""
    unit = _units(losses) * unit_of(losses)
    law = fit_law(torch.from_numpy(weights), torch.from_numpy(losses / unit), own=list(own))
    return law.draws(WORTH_DRAWS).worth().mean(0).numpy()


def _units(losses: np.ndarray) -> np.ndarray:
    """Returns factors of targets' losses ``(T,)`` whose deviations lie too far apart."""
    deviations = losses[_some(len(losses))].std(0)
    spread = deviations / np.median(deviations)
    return spread / np.clip(spread, 1 / APART, APART)


def unit_of(losses: np.ndarray) -> float:
    """Returns a unit > 0, in the losses' own, in which losses ``(N,)`` or ``(N, T)`` are of a usual
    size: 1 if they are, else a power of two, which changes no digit, near their median deviation.
    """
    deviation = float(np.median(losses.std(0)))
    if USUAL[0] <= deviation <= USUAL[1] or not deviation > 0:
        return 1.0
    return float(2.0 ** np.round(np.log2(deviation)))


def _parts_of(law: Law, target: int) -> tuple[Mean, Kernel]:

    def mean(weights: np.ndarray) -> Tensor:
        return law.linearised(torch.from_numpy(weights), target)[0]

    def kernel(weights: np.ndarray, others: np.ndarray | None) -> Tensor:
        features = law.linearised(torch.from_numpy(weights), target)[1]
        if others is None:
            return features.square().sum(1)
        return features @ law.linearised(torch.from_numpy(others), target)[1].T

    return mean, kernel


def _scaled(process: GaussianProcess, unit: float, tails: float) -> GaussianProcess:
    """Returns a process in another unit, of which the given one's is `unit`."""
    mean, kernel = process.mean, process.kernel
    return GaussianProcess(
        mean=lambda weights: unit * mean(weights),
        kernel=lambda weights, others: unit**2 * kernel(weights, others),
        noise=unit**2 * process.noise,
        runs=process.runs,
        root=unit * process.root,
        solved=process.solved / unit,
        tails=tails,
    )


def fit_gaussian_process(weights: np.ndarray, losses: np.ndarray) -> GaussianProcess:
    """Fits a Gaussian process, see `likeliest_process`, to runs whose losses it can explain.

    Args:
        weights: Of the runs ``(N, K)``, no copies of each other.
        losses: Of the runs ``(N,)``, in any unit.

    Raises:
        DataError: When BoTorch is not installed, or no kernel is found by which the weights matter.
    """
    process = likeliest_process(weights, losses)
    if process is None:
        raise DataError(
            "Expected losses that depend on the weights, found that a Gaussian process takes those "
            f"of all {len(losses)} runs for noise around one value"
        )
    return process


def likeliest_process(weights: np.ndarray, losses: np.ndarray) -> GaussianProcess | None:
    """Fits the kernel of BoTorch's `SingleTaskGP`, with its prior for inputs in [0, 1].

    Lengths and noise are searched for by their logarithms, which takes a tenth of the time. Runs on
    one mixture say how large the noise is. None if the search ends with a constant, or fails.

    Args:
        weights: Of the runs ``(N, K)``, no copies of each other.
        losses: Of the runs ``(N,)``, in any unit.

    Raises:
        DataError: When BoTorch is not installed.
    """
    unit = unit_of(losses)
    process = _likeliest(weights, losses / unit)
    if process is None or not np.ptp(process.predict(weights)) > FLAT * (losses / unit).std():
        return None
    return process if unit == 1 else _scaled(process, unit, 1.0)


def _likeliest(weights: np.ndarray, losses: np.ndarray) -> GaussianProcess | None:
    models = require("botorch.models", "baselines")
    marginal = require("gpytorch.mlls", "baselines").ExactMarginalLogLikelihood
    positive = require("gpytorch.constraints", "baselines").Positive
    fitting, problems = (require(f"botorch.{n}", "baselines") for n in ("fit", "exceptions"))
    chosen = _some(len(weights))
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

    return GaussianProcess.conditioned(
        lambda some: torch.full((len(some),), constant).double(),
        *(found, unit**2 * float(noise.noise), weights, losses),
    )


def _some(runs: int) -> np.ndarray:
    """Returns the places of those runs from which a kernel is found."""
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
