"""AutoScale: a power law a domain, the optimum at two small budgets, and its growth.

Around one base mixture, ``2 K`` more models are trained, each with one domain's tokens cut or
grown and all else as it was. Every domain's law (see `power_laws`) follows from its three runs, and
the mixture that minimises their sum under a budget from the laws (`optimal_counts`). Two such
optima, at two small budgets, are extrapolated to the budget wanted (`extrapolate`). `fit_table`
finds the design in a table of finished runs instead; one table is one budget.

References:
    Kang et al., AutoScale, arXiv 2407.20177.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from bydore_pyro.baselines.power_laws import PowerLaws, fit_power_laws
from bydore_pyro.baselines.problem import Fit, Problem, by_name
from bydore_pyro.baselines.proxy_runs import PlannedRun, train_runs
from bydore_pyro.baselines.runs_table import RunsTable
from bydore_pyro.mixture import Mixture
from bydore_pyro.utils import DataError, option, require_fields

__all__ = [
    "AutoScaleConfig",
    "counts_of",
    "extrapolate",
    "fit_autoscale",
    "fit_table",
    "optimal_counts",
    "probe_counts",
]

UNCHANGED = 0.01  # how far, relatively, the counts of the other domains may be from the base


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


def optimal_counts(laws: PowerLaws) -> np.ndarray:
    """Shares out the base run's tokens: minimises ``sum_i (n_i / base_i + alpha_i)^-gamma_i``.

    No domain gets fewer tokens than its law was fitted to, below which the law is a guess (the
    authors do the same). Each term is convex, so the conditions of Karush, Kuhn and Tucker are
    sufficient: with one multiplier mu, every domain has ``gamma_i / base_i (n_i / base_i +
    alpha_i)^(-gamma_i - 1) = mu``, or less than that at its lower bound. The counts fall with mu,
    and their sum has one root.

    Args:
        laws: The domains' laws. Those of gamma 0 stay at their lower bounds.

    Returns:
        Tokens of each domain ``(K,)``, which sum to the budget.

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
    free = counts > lower
    counts[free] += (budget - counts.sum()) * counts[free] / counts[free].sum()
    return counts


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
    """
    log_counts, log_growth = np.log(second), np.log(second / first)

    def excess(steps: float) -> float:
        return float(np.logaddexp.reduce(log_counts + steps * log_growth) - np.log(budget))

    # The sum is convex in s and larger at 0 than at -1, so it rises from 0 on.
    most = 1.0
    while excess(most) < 0:
        most *= 2
    steps = 0.0 if excess(0.0) >= 0 else float(optimize.brentq(excess, 0.0, most, xtol=1e-14))
    log_weights = log_counts + steps * log_growth
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
                    weights=by_name(problem.names, row / row.sum()),
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
    weights = extrapolate(optima[0], optima[1], max(tokens, optima[1].sum()))
    shares = [counts / counts.sum() for counts in optima]
    return Fit(
        mixture=problem.mixture(weights),
        details={
            "steps_of_the_base_runs": [small, small * growth],
            "fits": [dict(zip(problem.names, law.fits, strict=True)) for law in laws],
            "optimal_weights": [by_name(problem.names, weights) for weights in shares],
            "pinned": [_pinned(problem.names, *of) for of in zip(optima, laws, strict=True)],
        },
    )


def _pinned(names: Sequence[str], counts: np.ndarray, laws: PowerLaws) -> list[str]:
    """Returns the domains that an optimum leaves at their lower bounds."""
    return [n for n, at_bound in zip(names, counts <= laws.smallest, strict=True) if at_bound]


def counts_of(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Finds AutoScale's design in the shares of finished runs, in any order.

    One run is the base; of each domain, one run has less and one has more, and all others' tokens
    are the base's, so that shares tell the tokens of every run in units of the base's.

    Args:
        weights: Shares of the runs ``(2 K + 1, K)``, ``K >= 3``: of two domains shares do not tell
            whether one was cut or the other grown.

    Returns:
        The tokens ``(2 K + 1, K)`` in the order of `probe_counts`, the base's summing to 1; and the
        rows' places in `weights`.

    Raises:
        DataError: When the runs are no such design.
    """
    runs, count = weights.shape
    told = (
        "Expected AutoScale's runs, each with weight on every domain: a base run, and for each of "
        "at least three domains a run with less of it and a run with more of it, "
    )
    if count < 3 or runs != 2 * count + 1:
        raise DataError(f"{told}found {runs} runs of {count} domains")
    if not (weights > 0).all():
        raise DataError(f"{told}found a weight of 0")
    for base in range(runs):
        ratios = weights / weights[base]
        factors = ratios / np.median(ratios, axis=1, keepdims=True)
        changed = np.abs(factors - 1) > UNCHANGED
        others = np.delete(np.arange(runs), base)
        if (changed.sum(1) != (np.arange(runs) != base)).any():
            continue
        domain, more = changed.argmax(1), factors.max(1) > 1 + UNCHANGED
        order = [base, *sorted(others, key=lambda row: (more[row], domain[row]))]
        expected = [*range(count)] * 2
        found = [int(domain[row]) for row in order[1:]]
        if found == expected and (more[order[1:]] == np.repeat([False, True], count)).all():
            exact = np.where(changed, factors, 1.0)
            return (exact * weights[base] / weights[base].sum())[order], np.array(order)
    raise DataError(f"{told}found runs that differ in other ways")


def fit_table(table: RunsTable, target: str) -> Fit:
    """Finds the optimum of the budget of AutoScale's base run from finished runs; trains nothing.

    What is left of a cut domain, and the factor of a grown one, are the table's own. One table is
    one budget, so nothing is extrapolated.

    Raises:
        DataError: When there is no such target, the runs are not AutoScale's, or no domain's tokens
            lower the loss.
    """
    losses = table.losses_of(target)
    counts, order = counts_of(table.weights)
    if (losses <= 0).any():
        raise DataError(f"Expected losses > 0 of {target}, found {losses.min():g}")
    laws = fit_power_laws(counts, losses[order])
    optimum, names = optimal_counts(laws), table.domains
    cut, grown = (np.diag(part) for part in np.split(counts[1:] / counts[0], 2))
    return Fit(
        mixture=Mixture(names=names, weights=tuple((optimum / optimum.sum()).tolist())),
        details={
            "runs": len(table.runs),
            "target": target,
            "cut": by_name(names, cut),
            "grown": by_name(names, grown),
            "fits": dict(zip(names, laws.fits, strict=True)),
            "pinned": _pinned(names, optimum, laws),
        },
    )
