"""The best mixture by the runs of a table, within what the runs have tried.

No regression knows what lies far from every run. So no weight is above 1.25 times the largest that
a run has of its domain, nor below the smallest divided by 1.25: these are bounds of the law's
convex programme. From its solution, and from the best run, the mean that the law and the Gaussian
process predict together is descended within the same bounds; the better end counts. On planted runs
this is as good as the best of 100,000 random mixtures, and better than the law's solution alone
where the losses follow no law.

The posterior of the best weights is drawn from mixtures between the solution and others: the best
mixtures of single draws of the law, and the runs. Each draw of the losses has its best among them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from bydore_pyro import answer, mixture
from bydore_pyro.law import Goal, LawDraws, best_mixture, best_mixture_draws
from bydore_pyro.tables.regression import RunsRegression

BEYOND = 1.25  # times the largest weight of a run
MOST_OPTIMA, FEWEST_OPTIMA, OPTIMA_PER_DOMAIN = 200, 50, 5000  # each is a programme of its own
BETWEEN, FUNCTIONS = 300, 400  # mixtures between others; draws of the losses
SEED = 42
STEP, STEPS, ENOUGH = 1e-7, 100, 1e-8  # of the descent: for differences, at most, of the mean


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightBounds:
    """The least and the largest weight of each domain, ``(K,)`` each, that leave some mixture."""

    least: np.ndarray
    most: np.ndarray

    def held(self, weights: np.ndarray) -> np.ndarray:
        """Returns which of the weights ``(K,)`` lie at a bound other than 0 and 1, boolean."""
        at_most = (self.most < 1) & (weights > 0.999 * self.most)
        return at_most | ((self.least > 0) & (weights < 1.001 * self.least))


def bounds_near(runs: np.ndarray, caps: np.ndarray | None = None) -> WeightBounds:
    """Returns the bounds that runs on weights ``(N, K)`` set, and no weight above its cap ``(K,)``.

    Where the two leave no mixture, the caps count alone; their sum is at least 1.
    """
    most = np.minimum(BEYOND * runs.max(0), 1.0)
    if caps is not None:
        near = np.minimum(most, caps)
        most = near if near.sum() >= 1 else caps
    return WeightBounds(least=np.minimum(runs.min(0) / BEYOND, most), most=most)


def best_weights(model: RunsRegression, runs: np.ndarray, bounds: WeightBounds) -> np.ndarray:
    """Returns the mixture ``(K,)`` of the least expected mean of the metrics within the bounds.

    Args:
        model: Fitted to the runs.
        runs: Their weights ``(N, K)``.
        bounds: Of the weights.
    """
    best = best_mixture(*_programme(model, bounds)).weights.numpy()
    if model.law_alone:
        return best
    tried = mixture.within_bounds(runs, bounds.least, bounds.most)
    starts = [best, tried[(model.predict(tried) @ model.shares).argmin()]]
    ends = np.stack([_descended(model, start, bounds) for start in starts])
    found: np.ndarray = ends[(model.predict(ends) @ model.shares).argmin()]
    return found


def draws_of_best(
    model: RunsRegression, best: np.ndarray, runs: np.ndarray, bounds: WeightBounds
) -> np.ndarray:
    """Returns draws of the best mixture ``(D, K)`` from the posterior.

    Args:
        model: Fitted to the runs.
        best: What `best_weights` returns ``(K,)``.
        runs: Their weights ``(N, K)``.
        bounds: Of the weights.
    """
    law, goal = _programme(model, bounds)
    count = max(FEWEST_OPTIMA, min(MOST_OPTIMA, OPTIMA_PER_DOMAIN // len(best)))
    optima = best_mixture_draws(law[:count], goal).numpy()
    if model.law_alone:
        return optima
    rng = np.random.default_rng(SEED)
    ends = np.concatenate([optima, mixture.within_bounds(runs, bounds.least, bounds.most)])
    ends = ends[rng.integers(0, len(ends), BETWEEN)]
    between = best + rng.uniform(size=(BETWEEN, 1)) * (ends - best)
    mixtures = np.concatenate([best[None], optima, between])
    return mixtures[model.sample(mixtures, FUNCTIONS, SEED).argmin(1)]


def _programme(model: RunsRegression, bounds: WeightBounds) -> tuple[LawDraws, Goal]:
    """Returns draws of the law, and what is asked of a mixture."""
    count = answer.number_of_draws(len(bounds.most))
    importance = model.units * model.shares  # the law's losses are in units of their own
    return model.law.draws(count, SEED), Goal(
        importance=torch.from_numpy(importance / importance.sum()),
        at_least=torch.from_numpy(bounds.least),
        at_most=torch.from_numpy(bounds.most),
    )


def _descended(model: RunsRegression, start: np.ndarray, bounds: WeightBounds) -> np.ndarray:
    """Returns the mixture ``(K,)`` to which the expected mean falls from another one."""
    from scipy.optimize import minimize

    unit = model.units @ model.shares

    def mean(weights: np.ndarray) -> tuple[float, np.ndarray]:
        near = np.concatenate([weights[None], weights + STEP * np.eye(len(weights))])
        losses = model.predict(near) @ model.shares / unit
        return float(losses[0]), (losses[1:] - losses[0]) / STEP

    found = minimize(
        mean,
        start,
        jac=True,
        method="SLSQP",
        bounds=list(zip(bounds.least, bounds.most, strict=True)),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
        options={"maxiter": STEPS, "ftol": ENOUGH},
    )
    weights = mixture.within_bounds(found.x[None], bounds.least, bounds.most)[0]
    return weights if mean(weights)[0] < mean(start)[0] else start
