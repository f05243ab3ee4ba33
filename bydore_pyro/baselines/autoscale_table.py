"""AutoScale on a table of finished runs: the design is found in its shares."""

from __future__ import annotations

import numpy as np

from bydore_pyro.baselines.autoscale import optimal_counts
from bydore_pyro.baselines.power_laws import UNCHANGED, fit_power_laws
from bydore_pyro.baselines.problem import Fit
from bydore_pyro.baselines.runs_table import RunsTable
from bydore_pyro.mixture import Mixture
from bydore_pyro.utils import DataError

__all__ = ["counts_of", "fit_table"]


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
        "Expected AutoScale's runs: a base run with weight on every domain, and for each of at "
        "least three domains a run with less of it and a run with more of it, "
    )
    if count < 3 or runs != 2 * count + 1:
        raise DataError(f"{told}found {runs} runs of {count} domains")
    for base in np.flatnonzero((weights > 0).all(1)):
        ratios = weights / weights[base]
        factors = ratios / np.maximum(np.median(ratios, axis=1, keepdims=True), 1e-300)
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
    optimum = optimal_counts(laws)
    names = table.domains
    factors = counts[1:] / counts[0]
    cut, grown = (np.diag(part) for part in np.split(factors, 2))
    return Fit(
        mixture=Mixture(names=names, weights=tuple(optimum.weights.tolist())),
        details={
            "runs": len(table.runs),
            "target": target,
            "cut": dict(zip(names, cut.tolist(), strict=True)),
            "grown": dict(zip(names, grown.tolist(), strict=True)),
            "fits": dict(zip(names, laws.fits, strict=True)),
            "pinned": [n for n, pin in zip(names, optimum.pinned, strict=True) if pin],
        },
    )
