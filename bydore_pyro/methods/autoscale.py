"""AutoScale: a power law a domain, the optimum at two small budgets, and its growth.

Around one base mixture, ``2 K`` more models are trained, each with one domain's tokens cut or
grown and all else as it was. Every domain's law follows from its three runs,

    loss(n) / loss(base) = (x + alpha)^-gamma + c,        x = n / base,

and the mixture that minimises their sum under a budget from the laws (`optimal_counts`). Two such
optima, at two small budgets, are extrapolated to the budget wanted (`extrapolate`).

References:
    Kang et al., AutoScale, arXiv 2407.20177.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize

from bydore_pyro import mixture, trials
from bydore_pyro.errors import DataError
from bydore_pyro.methods.fit import Details, Fit

# The two small budgets' ratio; what is left of a domain that is cut; how much a domain grows.
GROWTH, CUT, GROW = 2.0, 1 / 3, 3.0
LIMITS = ([0.0, 0.0], [1e3, 20.0])  # beyond these alpha and gamma a law is a line or a step
FLAT = 1e-9  # a fall of the relative loss that is smaller than this is none


def probe_counts(base: np.ndarray, cut: float = CUT, grow: float = GROW) -> np.ndarray:
    """Returns how many tokens of each domain each run is trained on ``(2 K + 1, K)``.

    They are the base run's ``(K,)``, then with each domain cut, then with each domain grown; not
    rounded.
    """
    one = np.eye(len(base))
    factors = np.concatenate([np.ones((1, len(base))), 1 + (cut - 1) * one, 1 + (grow - 1) * one])
    return factors * base


@dataclass(frozen=True, kw_only=True, eq=False)
class PowerLaws:
    """For each domain, ``loss / loss(base) = (n / base + alpha)^-gamma + constant``.

    Up to two laws pass through the same three points: a slow one (smaller gamma and alpha) and a
    fast one, which levels off sooner. Between the cut and the grown count they are all but equal.
    The authors' solver starts at (1, 1) and finds the fast one; so does this one.

    Args:
        base: Tokens of the base run ``(K,)``.
        smallest: Fewest tokens that each law was fitted to ``(K,)``.
        gamma: Exponents ``(K,)``, >= 0; 0 where more tokens of the domain bring nothing.
        alpha: What the other domains are worth, in units of the base count ``(K,)``, >= 0.
    """

    base: np.ndarray
    smallest: np.ndarray
    gamma: np.ndarray
    alpha: np.ndarray


def fit_power_laws(counts: np.ndarray, losses: np.ndarray) -> PowerLaws:
    """Fits each domain's law to its three runs, by least squares within the bounds.

    Args:
        counts: Tokens of the runs ``(2 K + 1, K)``, > 0, in the order of `probe_counts`.
        losses: Target loss of the runs ``(2 K + 1,)``, > 0, in any unit.
    """
    base, domains = counts[0], counts.shape[1]
    cut, grown = (np.diag(part) / base for part in np.split(counts[1:], 2))  # (K,) each
    relative = losses[1:].reshape(2, domains) / losses[0]
    alpha, gamma = np.transpose(
        [
            _law(np.array([cut[k], 1, grown[k]]), np.array([relative[0, k], 1.0, relative[1, k]]))
            for k in range(domains)
        ]
    )
    return PowerLaws(base=base, smallest=cut * base, gamma=gamma, alpha=alpha)


def _law(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns alpha and gamma of the law nearest to three points."""
    if y[0] - y[2] <= FLAT:
        return np.zeros(2)  # the law's power is 1 everywhere

    def residuals(law: np.ndarray) -> np.ndarray:
        difference = y - (x + law[0]) ** -law[1]
        return difference - difference.mean()

    precise = dict.fromkeys(("xtol", "ftol", "gtol"), 1e-15)
    return optimize.least_squares(residuals, (1.0, 1.0), bounds=LIMITS, x_scale="jac", **precise).x


def optimal_counts(laws: PowerLaws) -> np.ndarray:
    """Shares out the base run's tokens: minimises ``sum_i (n_i / base_i + alpha_i)^-gamma_i``.

    No domain gets fewer tokens than its law was fitted to (the authors do the same); those of gamma
    0 get no more. The terms are convex, so the conditions of Karush, Kuhn and Tucker are
    sufficient: with one multiplier mu, every domain has ``gamma_i / base_i (n_i / base_i +
    alpha_i)^(-gamma_i - 1) = mu``, or less than that at its lower bound. The counts fall with mu,
    and their sum has one root.

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
    """Carries the optima of two budgets on to a larger one: ``n = n2 (n2 / n1)^s``.

    Each domain's tokens grow by a factor of its own; s is the number, whole or not, at which the
    counts sum to the budget.

    Args:
        first: Optimal tokens at the smaller budget ``(K,)``, > 0.
        second: Optimal tokens at the larger budget ``(K,)``, > 0, with a larger sum.
        budget: Tokens to reach, at least those of `second`.

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


def fit_autoscale(problem: trials.Problem) -> Fit:
    """Trains ``2 K + 1`` proxies at each of two small budgets, and extrapolates their optima.

    The base mixture is uniform; the extrapolation goes to the tokens of a plain training. Runs are
    whole steps, so counts are off by half a step at most.

    Raises:
        DataError: When the budget does not reach, or no domain's tokens lower the loss.
        NonFiniteError: When a loss is NaN or infinite.
    """
    factors = probe_counts(np.full(len(problem.names), 1 / len(problem.names)))
    # In units of the smaller base run's length.
    length = (1 + GROWTH) * factors.sum()
    spent = (2 * len(factors) - length) * problem.evaluation_steps()
    small = problem.steps_for("autoscale", length, spent)
    optima = []
    for steps in (small, small * GROWTH):
        text = problem.text_for(steps)  # the cut and the grown runs draw from the base's text
        probes = factors * steps * problem.batch_sequences  # sequences (2 K + 1, K)
        planned = [
            trials.PlannedRun(
                weights=mixture.by_name(problem.names, row / row.sum()),
                steps=max(1, round(row.sum() / problem.batch_sequences)),
                seed=problem.seed,
                text=text,
            )
            for row in probes
        ]
        finished = trials.train_runs(problem, planned, f"autoscale: {steps:.0f} steps")
        losses = np.array([run.target_loss(problem.target) for run in finished])
        optima.append(optimal_counts(fit_power_laws(probes, losses)))
    tokens = problem.steps * problem.batch_sequences
    weights = extrapolate(optima[0], optima[1], max(tokens, optima[1].sum()))
    return Fit(mixture=problem.mixture(weights), details=Details(steps=small))
