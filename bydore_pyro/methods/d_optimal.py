"""Marin's few runs: a D-optimal design, and a law of few parameters whose optimum is convex.

The mixtures of the proxies are chosen from a pool, one by one, so that a Bayesian linear model of
generic features would learn most from them. The law that is fitted to their losses is DS-RE-CEQ in
its form for one phase: what domains teach levels off, and is combined with a constant elasticity.

References:
    https://github.com/marin-community/marin/issues/3489, and its code (Apache-2.0), in
    experiments/domain_phase_mix: static_batch_selection.py and dsre_ceq_tools.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bydore_pyro import trials
from bydore_pyro.command_line import Checked, option
from bydore_pyro.methods.fit import Details, Fit

# The authors': prior precision of the linear model; fits of the law from random starts.
RIDGE, STARTS, SHRINKAGE = 1e-3, 8, 1e-4
POOL = 10  # 2^POOL candidates
SMALL = 1e-12  # of what a domain teaches


@dataclass(frozen=True, kw_only=True)
class DOptimalConfig(Checked):
    """The design's setting."""

    d_optimal_runs: int = option(
        16, "Number of proxies that the D-optimal design trains on mixtures.", least=3, most=2**POOL
    )


def design_features(weights: np.ndarray) -> np.ndarray:
    """Returns features of mixtures ``(S, K)``, standardised, and a constant ``(S, 3 K + 3)``.

    The weights stand three times: the authors' epochs of a phase and in all are weights here.
    """
    from scipy import special

    entropy = special.entr(weights).sum(1) / np.log(weights.shape[1])
    extreme = ((weights <= 0.05) | (weights >= 0.95)).mean(1)
    raw = np.column_stack([weights, weights, weights, entropy, extreme])
    spread = raw.std(0)
    standard = (raw - raw.mean(0)) / np.where(spread > 1e-8, spread, 1.0)
    return np.column_stack([np.ones(len(raw)), standard])


def greedy_design(features: np.ndarray, count: int, ridge: float = RIDGE) -> np.ndarray:
    """Returns the places ``(count,)`` of features ``(S, F)`` that tell most of a linear model.

    Each adds most to ``log det(ridge I + sum_i x_i x_i')``: the one of largest ``x' P^-1 x``.
    """
    inverse, chosen = np.eye(features.shape[1]) / ridge, list[int]()
    for _ in range(count):
        gains = ((features @ inverse) * features).sum(1)
        gains[chosen] = -np.inf
        chosen.append(int(gains.argmax()))
        along = inverse @ features[chosen[-1]]
        inverse -= np.outer(along, along) / (1 + gains[chosen[-1]])
    return np.array(chosen)


def elastic_losses(
    parameters: np.ndarray, weights: np.ndarray, epochs: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns what mixtures ``(S, K)`` lose by the law ``(S,)``, in the runs' unit.

        loss(w) = c - A (sum_k a_k log(1 + e_k)^rho)^(1 / rho) + B softplus(sum_small e_k - tau)^2,
        e_k = epochs_k w_k,      convex in w

    Beside them its derivatives by the parameters ``(S, 5 + K)`` and by the weights ``(S, K)``.

    Args:
        parameters: ``c, log A, log B, r, log tau``, with ``rho = 5 tanh r`` below 1, then the
            logits of a ``(5 + K,)``.
        weights: Rows on the simplex.
        epochs: Of each domain where it is all of a run ``(K,)``; those above 1 are small.
    """
    from scipy import special

    (level, gain, price, shape, limit), logits = parameters[:5], parameters[5:]
    gain, price, limit = np.exp(np.clip([gain, price, limit], -9, 9))
    rho, small, read = min(5 * np.tanh(shape), 0.99), epochs > 1, weights * epochs
    slope = 5 * (1 - np.tanh(shape) ** 2) * (rho < 0.99)
    rho = rho if abs(rho) > 1e-4 else 1e-4
    seen = np.maximum(np.log1p(read), SMALL)  # (S, K)
    terms = rho * np.log(seen) + special.log_softmax(logits)
    log_taught = special.logsumexp(terms, axis=1) / rho
    parts, taught = special.softmax(terms, axis=1), gain * np.exp(log_taught)
    excess = read[:, small].sum(1) - limit
    over, rising = np.logaddexp(0, excess), 2 * price * special.expit(excess)
    by_rho = ((parts * np.log(seen)).sum(1) - log_taught) / rho
    by_share = (parts - special.softmax(logits)) / rho
    price_paid, taught_more = price * over**2, -taught[:, None]
    columns = [np.ones(len(read)), -taught, price_paid, -taught * by_rho * slope]
    derivatives = np.column_stack([*columns, -rising * over * limit, taught_more * by_share])
    by_read = taught_more * parts / (seen * (1 + read)) + (rising * over)[:, None] * small
    return level - taught + price_paid, derivatives, by_read * epochs


def fit_elastic(
    weights: np.ndarray, losses: np.ndarray, epochs: np.ndarray, seed: int
) -> np.ndarray:
    """Fits the law's parameters ``(5 + K,)`` to mixtures ``(N, K)`` and their losses ``(N,)``.

    A pseudo-Huber loss and the parameters' squares are minimised from 8 random starts, as the
    authors do; the best is taken.
    """
    from scipy import optimize

    rng, middle = np.random.default_rng(seed), np.median(losses)
    delta = np.clip(1.345 * np.median(np.abs(losses - middle)) / 0.6745, 0.02, 0.30)
    read = np.median((weights * epochs)[:, epochs > 1].sum(1)) + 1e-6

    def objective(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        predicted, derivatives, _ = elastic_losses(parameters, weights, epochs)
        apart = (predicted - losses) / delta
        root = np.sqrt(1 + apart**2)
        value = delta**2 * (root - 1).sum() + SHRINKAGE * parameters @ parameters
        return value, delta * (apart / root) @ derivatives + 2 * SHRINKAGE * parameters

    fits = []
    for _ in range(STARTS):
        own = rng.normal([middle, 0, -2, 0, np.log(read)], [0, 1, 1, 0.7, 0.3])
        start = np.append(own, rng.normal(0, 0.5, len(epochs)))
        fits.append(optimize.minimize(objective, start, jac=True, method="L-BFGS-B"))
    return min(fits, key=lambda fit: fit.fun).x


def elastic_optimum(parameters: np.ndarray, epochs: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Returns the mixture of least loss ``(K,)``, searched from another ``(K,)``, > 0."""
    from scipy import optimize, special

    def objective(logits: np.ndarray) -> tuple[float, np.ndarray]:
        weights = special.softmax(logits)
        losses, _, by_weight = elastic_losses(parameters, weights[None], epochs)
        return losses[0], weights * (by_weight[0] - weights @ by_weight[0])

    tight = {"ftol": 1e-12, "gtol": 1e-9}
    found = optimize.minimize(objective, np.log(start), jac=True, method="L-BFGS-B", options=tight)
    return special.softmax(found.x)


def fit_d_optimal(problem: trials.Problem, config: DOptimalConfig) -> Fit:
    """Trains proxies on a D-optimal design of mixtures, and returns the optimum of the law.

    Raises:
        DataError: When the budget does not reach.
        NonFiniteError: When a loss is NaN or infinite.
    """
    steps = problem.steps_for("d_optimal", config.d_optimal_runs)
    drawn = d_optimal_design(len(problem.names), config.d_optimal_runs, problem.seed)
    runs = trials.train_mixtures(problem, drawn, steps, "d_optimal: proxies")
    losses = np.array([run.target_loss(problem.target) for run in runs])
    tokens = problem.run_tokens or steps * problem.batch_tokens
    epochs = tokens / np.array([problem.corpus.size(name) for name in problem.names], float)
    weights = elastic_proposal(drawn, losses, epochs, problem.seed)
    details = Details(steps=steps, runs=len(drawn))
    return Fit(mixture=problem.mixture(weights), details=details)


def d_optimal_design(domains: int, count: int, seed: int) -> np.ndarray:
    """Returns a design of mixtures ``(count, K)``; a larger one begins with the smaller ones."""
    pool = _pool(domains, seed)
    return pool[greedy_design(design_features(pool), count)]


def elastic_proposal(
    weights: np.ndarray, losses: np.ndarray, epochs: np.ndarray, seed: int
) -> np.ndarray:
    """Returns the mixture ``(K,)`` of least loss by the law fitted to runs, as `fit_elastic`."""
    law, pool = fit_elastic(weights, losses, epochs, seed), _pool(weights.shape[1], seed)
    return elastic_optimum(law, epochs, pool[elastic_losses(law, pool, epochs)[0].argmin()])


def _pool(domains: int, seed: int) -> np.ndarray:
    """Returns mixtures ``(2^POOL, K)``, even over the simplex, by Sobol's sequence, as the
    authors'."""
    from scipy.stats import qmc  # half a second, which --help need not wait for

    sequence = qmc.Sobol(domains, rng=seed).random_base2(POOL)
    pool = -np.log(np.clip(sequence, 1e-9, 1 - 1e-9))
    return pool / pool.sum(1, keepdims=True)
