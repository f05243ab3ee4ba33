"""RegMix: runs on random mixtures, trees that predict their losses, and a simulated optimum.

The runs are proxies that are trained here, or those of a table. The authors train 512 proxies,
regress with LightGBM, and take the mean of the best 128 of 100,000 simulated mixtures.

References:
    Liu et al., RegMix: Data Mixture as Regression for Language Model Pre-training,
    arXiv 2407.01492.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bydore_pyro import mixture, tables, trials
from bydore_pyro.command_line import Checked, option
from bydore_pyro.errors import DataError, require
from bydore_pyro.methods.fit import Details, Fit

# How the authors draw the mixtures of their proxies.
TEMPERATURE = 0.5  # exponent of the prior: below 1 small domains are drawn more often
STRENGTHS = np.geomspace(0.1, 5.0, 15)  # total concentrations of the Dirichlet distributions
MOST = 15.0  # no weight is above so many times its prior
LEAST = 2e-4  # smaller weights are set to 0

# The authors' regression, LightGBM's own for the rest, and what makes it the same everywhere.
TREES, RUNS_IN_LEAF = 1000, 20
LIGHTGBM = {
    "objective": "regression",
    "metric": ["l1", "l2"],
    "learning_rate": 0.01,
    "seed": 42,
    "min_data_in_leaf": RUNS_IN_LEAF,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}
BEST = 128  # simulated mixtures that are averaged


@dataclass(frozen=True, kw_only=True)
class RegMixConfig(Checked):
    """RegMix's settings. Its authors train 512 proxies."""

    regmix_proxies: int = option(
        24, "Number of proxies that RegMix trains on random mixtures.", least=2
    )
    regmix_draws: int = option(
        100_000, f"Mixtures that RegMix simulates; the best {BEST} are averaged.", least=BEST
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class Trees:
    """LightGBM's trees of T metrics.

    Args:
        boosters: Of each metric, with a method `predict`.
        shares: Of the metrics in their mean ``(T,)``, summing to 1.
        errors: Root mean squared errors on runs that were left out ``(T,)``: what a run's losses
            deviate by, since trees do not predict that. NaN where it is not known.
    """

    boosters: tuple[Any, ...]
    shares: np.ndarray
    errors: np.ndarray

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Returns the expected losses ``(S, T)`` of mixtures ``(S, K)``."""
        return np.stack([booster.predict(weights) for booster in self.boosters], 1)

    def deviation(self, weights: np.ndarray) -> np.ndarray:
        """Returns the standard deviations ``(S, T)`` of a run's losses on each mixture."""
        return np.tile(self.errors, (len(weights), 1))

    def apart(self, weights: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the losses of a run on one mixture ``(K,)`` less those of a run on another, and
        their standard deviations, ``(T,)`` each."""
        losses = self.predict(np.stack([weights, other]))
        return losses[0] - losses[1], np.sqrt(2) * self.errors


def fit_trees(weights: np.ndarray, losses: np.ndarray, shares: np.ndarray | None = None) -> Trees:
    """Fits 1000 trees to each metric by the authors' settings.

    Their leaves hold 20 runs at least, so that no tree could divide fewer than 40: of these a leaf
    holds a quarter.

    Args:
        weights: Of the runs ``(N, K)``.
        losses: Of the runs ``(N, T)``.
        shares: Of the metrics in their mean ``(T,)``; equal when None.

    Raises:
        DataError: When LightGBM is not installed.
    """
    lightgbm = require("lightgbm", "baselines")
    settings = dict(LIGHTGBM)
    if len(losses) < 2 * RUNS_IN_LEAF:
        settings["min_data_in_leaf"] = max(1, len(losses) // 4)
    # LightGBM's own interface: the names of its scikit-learn interface change between versions.
    boosters = [
        lightgbm.train(settings, lightgbm.Dataset(weights, column, params=settings), TREES)
        for column in np.ascontiguousarray(losses.T)
    ]
    count = losses.shape[1]
    return Trees(
        boosters=tuple(boosters),
        shares=np.full(count, 1 / count) if shares is None else shares,
        errors=np.full(count, np.nan),
    )


def simulated_optimum(
    predict: Callable[[np.ndarray], np.ndarray], prior: np.ndarray, draws: int = 100_000
) -> np.ndarray:
    """Returns the mean ``(K,)`` of those 128 simulated mixtures whose predicted loss is least.

    They are drawn from Dirichlet(prior) with NumPy's generator of the authors' seed.

    Args:
        predict: Returns the losses ``(S,)`` of mixtures ``(S, K)``.
        prior: Shares of tokens ``(K,)``, not negative. A share of 0 is a weight of 0.
        draws: Simulated mixtures.
    """
    prior = prior / prior.sum()
    mixtures = np.zeros((draws, len(prior)))
    # The stream of the authors' np.random.seed(42); the newer generators give other mixtures.
    legacy = np.random.RandomState(42)
    mixtures[:, prior > 0] = legacy.dirichlet(prior[prior > 0], size=draws)
    best: np.ndarray = mixtures[np.argsort(predict(mixtures), kind="stable")[:BEST]].mean(0)
    return best


def sample_mixtures(prior: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Draws the mixtures that the proxies are trained on.

        w ~ Dirichlet(c p),   p_k = sqrt(prior_k) / sum_j sqrt(prior_j),

    with a total concentration c chosen anew for each draw. Weights under `LEAST` become 0, the
    others are normalised, and draws with a weight above `MOST` times its prior are rejected.

    Args:
        prior: Shares of tokens ``(K,)``, not negative; 0 is a weight of 0 in every mixture.
        count: Number of mixtures ``N``, >= 1.
        seed: Of the draws.

    Returns:
        Weights ``(N, K)``, each row on the simplex.

    Raises:
        DataError: When fewer than one draw in 1,000 keeps within the limit.
    """
    prior = prior / prior.sum()
    rng, has = np.random.default_rng(seed), prior > 0
    tempered = prior[has] ** TEMPERATURE
    tempered /= tempered.sum()
    block = max(count, 1000)
    kept, tried = np.empty((0, len(prior))), 0
    while len(kept) < count:
        if tried > 10_000 + 1000 * count:
            raise DataError(
                f"Expected mixtures with no weight above {MOST:g} times its prior, found "
                f"{len(kept)} among {tried} draws"
            )
        chosen = rng.choice(len(STRENGTHS), size=block)
        drawn = np.zeros((block, len(prior)))
        for number, strength in enumerate(STRENGTHS):
            rows = np.flatnonzero(chosen == number)
            drawn[np.ix_(rows, has)] = rng.dirichlet(strength * tempered, size=len(rows))
        drawn[drawn < LEAST] = 0
        drawn /= drawn.sum(1, keepdims=True)
        kept = np.concatenate([kept, drawn[(drawn <= MOST * prior).all(1)]])
        tried += block
    return kept[:count]


def fit_regmix(problem: trials.Problem, config: RegMixConfig) -> Fit:
    """Trains proxies on random mixtures, regresses their target losses, simulates the optimum.

    The prior is the text's own token shares.

    Raises:
        DataError: When the budget does not reach, or LightGBM is not installed.
        NonFiniteError: When a loss is NaN or infinite.
    """
    steps = problem.steps_for("regmix", config.regmix_proxies)
    drawn = sample_mixtures(problem.token_shares, config.regmix_proxies, problem.seed)
    runs = trials.train_mixtures(problem, drawn, steps, "regmix: proxies")
    trees = fit_trees(drawn, np.array([[run.target_loss(problem.target)] for run in runs]))
    weights = simulated_optimum(_mean_of(trees), problem.token_shares, config.regmix_draws)
    return Fit(mixture=problem.mixture(weights), details=Details(steps=steps, runs=len(drawn)))


def fit_regmix_to_table(
    table: tables.RunsTable,
    metrics: Mapping[str, float],
    config: RegMixConfig,
    *,
    prior: np.ndarray | None = None,
    caps: np.ndarray | None = None,
    mixtures: tables.Mixtures | None = None,
) -> tables.TableFit:
    """Regresses the metrics of finished runs, and simulates the optimum of their mean.

    The arguments are those of `bydore_pyro.tables.fit_table`; mixtures are simulated around the
    prior. The weights have no intervals.

    Raises:
        DataError: When there are fewer runs than domains, fewer than 6 mixtures, or the runs are
            all alike.
    """
    wanted = tables.Wanted.of(table, metrics)
    runs, domains = table.weights.shape
    if runs < domains:
        raise DataError(f"Expected at least as many runs as domains ({domains}), found {runs}")
    prior = tables.prior_of(table)[0] if prior is None else prior
    fit = partial(fit_trees, shares=wanted.shares)
    left = tables.leave_out(fit, table.weights, wanted.losses)
    errors = np.sqrt(np.square(left.expected - left.measured).mean(0))
    trees = replace(fit(table.weights, wanted.losses), errors=errors)
    left = left._replace(deviation=np.tile(errors, (runs, 1)))
    weights = simulated_optimum(_mean_of(trees), prior, config.regmix_draws)
    found = mixture.Mixture(names=table.domains, weights=tuple((weights / weights.sum()).tolist()))
    if caps is not None:
        found = found.capped(dict(zip(table.domains, caps.tolist(), strict=True)))
    anywhere = tables.WeightBounds(least=np.zeros(domains), most=np.ones(domains))
    record = tables.recorded(table, wanted, trees, left, found, prior, anywhere, mixtures)
    return tables.TableFit(mixture=replace(found, notes=tuple(wanted.notes())), record=record)


def _mean_of(trees: Trees) -> Callable[[np.ndarray], np.ndarray]:
    return lambda weights: trees.predict(weights) @ trees.shares
