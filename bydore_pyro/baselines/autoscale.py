"""AutoScale: a power law a domain, the optimum at two small budgets, and its growth.

Around one base mixture, ``2 K`` more models are trained, each with one domain's tokens cut or
grown and all else as it was. Every domain's law (see `power_laws`) follows from its three runs, and
the mixture that minimises their sum under a budget from the laws (`optimal_counts`). Two such
optima, at two small budgets, are extrapolated to the budget wanted (`extrapolate`). All but
`fit_autoscale` are functions of tables; nothing is trained.

References:
    Kang et al., AutoScale, arXiv 2407.20177.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize

from bydore_pyro.baselines.power_laws import PowerLaws, fit_power_laws
from bydore_pyro.baselines.problem import Fit, Problem
from bydore_pyro.baselines.proxy_runs import PlannedRun, train_runs
from bydore_pyro.utils import DataError, option, require_fields

__all__ = [
    "AutoScaleConfig",
    "OptimalCounts",
    "extrapolate",
    "fit_autoscale",
    "optimal_counts",
    "probe_counts",
]


@dataclass(frozen=True, kw_only=True)
class AutoScaleConfig:
    """AutoScale's settings."""

    autoscale_growth: float = option(
        2.0, "Ratio of the two small budgets from which AutoScale extrapolates.", above=1
    )
    autoscale_cut: float = option(
        1 / 3,
        "Share of a domain's tokens that remains in AutoScale's runs with less of it.",
        above=0,
        below=1,
    )
    autoscale_grow: float = option(
        3.0,
        "Factor by which a domain's tokens increase in AutoScale's runs with more of it.",
        above=1,
    )

    def __post_init__(self) -> None:
        require_fields(self)


@dataclass(frozen=True, kw_only=True, eq=False)
class OptimalCounts:
    """The best use of a budget.

    Args:
        counts: Tokens of each domain ``(K,)``; they sum to the budget.
        pinned: Which domains are at their lower bound ``(K,)``.
    """

    counts: np.ndarray
    pinned: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        """The counts as shares ``(K,)``."""
        return self.counts / self.counts.sum()


def probe_counts(base: np.ndarray, cut: float = 1 / 3, grow: float = 3.0) -> np.ndarray:
    """Returns how many tokens of each domain each run is trained on.

    Args:
        base: Tokens of the base run ``(K,)``, > 0.
        cut: Factor of the runs with less of one domain, in (0, 1).
        grow: Factor of the runs with more of one domain, > 1.

    Returns:
        ``(2 K + 1, K)``: the base, then each domain cut, then each domain grown. Not rounded; a
        fit takes the counts that were really trained on.
    """
    one = np.eye(len(base))
    factors = np.concatenate([np.ones((1, len(base))), 1 + (cut - 1) * one, 1 + (grow - 1) * one])
    return factors * base  # (2 K + 1, K)


def optimal_counts(laws: PowerLaws) -> OptimalCounts:
    """Shares out the base run's tokens: minimises ``sum_i (n_i / base_i + alpha_i)^-gamma_i``.

    No domain gets fewer tokens than its law was fitted to, below which the law is a guess (the
    authors do the same). Each term is convex, so the conditions of Karush, Kuhn and Tucker are
    sufficient: with one multiplier mu, every domain has ``gamma_i / base_i (n_i / base_i +
    alpha_i)^(-gamma_i - 1) = mu``, or less than that at its lower bound. The counts fall with mu,
    and their sum has one root.

    Args:
        laws: The domains' laws. Those of gamma 0 stay at their lower bounds.

    Raises:
        DataError: When no domain's tokens lower the loss.
    """
    budget, lower, useful = float(laws.base.sum()), laws.smallest, laws.gamma > 0
    if not useful.any():
        raise DataError("Expected at least one domain whose tokens lower the loss, found none")
    room = budget - lower.sum()
    base, alpha, gamma = laws.base[useful], laws.alpha[useful], laws.gamma[useful]

    def log_gain(counts: np.ndarray) -> np.ndarray:
        """The logarithm of what one more token lowers, at counts > 0."""
        return np.log(gamma / base) - (gamma + 1) * np.log(counts / base + alpha)

    def counts_at(log_multiplier: float) -> np.ndarray:
        counts = lower.copy()
        reached = np.exp((np.log(gamma / base) - log_multiplier) / (gamma + 1)) - alpha
        counts[useful] = np.maximum(lower[useful], base * reached)
        return counts

    # Where no domain is above its share of the room, too little is used; where the one of most
    # gain has the whole room, too much.
    much = float(log_gain(lower[useful] + room / useful.sum()).max()) + 1e-6
    little = float(log_gain(lower[useful] + room).max()) - 1e-6
    root = optimize.brentq(lambda m: counts_at(m).sum() - budget, little, much, xtol=1e-13)
    counts = counts_at(root)
    pinned = counts <= lower
    counts[~pinned] += (budget - counts.sum()) * counts[~pinned] / counts[~pinned].sum()
    return OptimalCounts(counts=counts, pinned=pinned)


def extrapolate(first: np.ndarray, second: np.ndarray, budget: float) -> np.ndarray:
    """Carries the optima of two budgets on to a larger one: ``n3 = n2 n2 / n1``, repeated.

    After s steps, which need not be whole, ``n = n2 (n2 / n1)^s``: each domain's tokens grow by a
    factor of its own.

    Args:
        first: Optimal tokens at the smaller budget ``(K,)``, > 0.
        second: Optimal tokens at the larger budget ``(K,)``, > 0, with a larger sum.
        budget: Tokens to reach, at least those of `second`; s is the one whose counts sum to it.

    Returns:
        Weights ``(K,)``, summing to 1.

    Raises:
        ValueError: When the budgets do not grow.
    """
    if not 0 < first.sum() < second.sum():
        raise ValueError(f"Expected budgets that grow, actual {first.sum()}, {second.sum()}")
    log_counts, log_growth = np.log(second), np.log(second / first)
    log_weights = log_counts + _steps_to(budget, log_counts, log_growth) * log_growth
    return np.exp(log_weights - np.logaddexp.reduce(log_weights))


def fit_autoscale(problem: Problem, config: AutoScaleConfig) -> Fit:
    """Trains ``2 K + 1`` proxies at each of two small budgets, and extrapolates their optima.

    The base mixture is uniform; the extrapolation goes to the tokens of a plain training. Runs are
    whole steps, so counts are off by half a step at most.

    Raises:
        DataError: When the budget does not reach, or no domain's tokens lower the loss.
        NonFiniteError: When a loss is NaN or infinite.
    """
    count, growth = len(problem.names), config.autoscale_growth
    factors = probe_counts(np.full(count, 1 / count), config.autoscale_cut, config.autoscale_grow)
    runs = 2 * len(factors)
    # In units of the smaller base run's length.
    length = (1 + growth) * factors.sum()
    spent = (runs - length) * problem.evaluation_steps()
    small = problem.steps_for("autoscale", length, spent)
    optima, laws = [], []
    for steps in (small, small * growth):
        text = problem.text_for(steps)  # the cut and the grown runs draw from the base's text
        probes = factors * steps * problem.batch_sequences  # sequences (2 K + 1, K)
        finished = train_runs(
            problem,
            [
                PlannedRun(
                    weights=dict(zip(problem.names, (row / row.sum()).tolist(), strict=True)),
                    steps=max(1, round(row.sum() / problem.batch_sequences)),
                    seed=problem.seed,
                    text=text,
                )
                for row in probes
            ],
            f"autoscale: {steps:.0f} steps",
        )
        losses = np.array([run.target_loss(problem.target) for run in finished])
        laws.append(fit_power_laws(probes, losses))
        optima.append(optimal_counts(laws[-1]))
    tokens = problem.steps * problem.batch_sequences
    first, second = (optimum.counts for optimum in optima)
    weights = extrapolate(first, second, budget=max(tokens, second.sum()))
    fits = [dict(zip(problem.names, law.fits, strict=True)) for law in laws]
    return Fit(
        mixture=problem.mixture(weights),
        details={
            "steps_of_the_base_runs": [small, small * growth],
            "fits": fits,
            "optimal_weights": [
                dict(zip(problem.names, optimum.weights.tolist(), strict=True))
                for optimum in optima
            ],
            "pinned": [
                [n for n, pin in zip(problem.names, optimum.pinned, strict=True) if pin]
                for optimum in optima
            ],
        },
    )


def _steps_to(budget: float, log_counts: np.ndarray, log_growth: np.ndarray) -> float:
    """Returns s with ``sum_i exp(log_counts_i + s log_growth_i) = budget``."""

    def excess(steps: float) -> float:
        return float(np.logaddexp.reduce(log_counts + steps * log_growth) - np.log(budget))

    if not np.exp(np.logaddexp.reduce(log_counts)) * (1 - 1e-12) <= budget < np.inf:
        raise ValueError(f"Expected a finite budget >= that of the second optimum, actual {budget}")
    # The sum is convex in s and larger at 0 than at -1, so it rises from 0 on.
    most = 1.0
    while excess(most) < 0:
        most *= 2
    return 0.0 if excess(0.0) >= 0 else float(optimize.brentq(excess, 0.0, most, xtol=1e-14))
