"""AutoScale from a table: its runs in any order, with the table's own cut."""

from __future__ import annotations

import numpy as np
import pytest
from planted_tables import AUTHORS, AUTHORS_OPTIMUM

from bydore_pyro.baselines.autoscale import probe_counts
from bydore_pyro.baselines.autoscale_table import counts_of, fit_table
from bydore_pyro.baselines.runs_table import RunsTable
from bydore_pyro.utils.errors import DataError


def authors_table(rows: np.ndarray) -> RunsTable:
    """The authors' figures as shares and losses, in another order, the shares rounded."""
    counts = probe_counts(np.full(7, 1 / 7), cut=0.2)
    return RunsTable(
        runs=tuple(str(n) for n in range(15)),
        domains=tuple("abcdefg"),
        weights=(counts / counts.sum(1, keepdims=True))[rows].round(5),
        targets=("perplexity",),
        losses=AUTHORS[rows][:, None],
    )


def test_the_authors_table_leads_to_their_optimum_in_any_order() -> None:
    rows = np.random.default_rng(0).permutation(15)
    table = authors_table(rows)
    counts, order = counts_of(table.weights)
    np.testing.assert_array_equal(rows[order], np.arange(15))
    np.testing.assert_allclose(7 * counts, probe_counts(np.ones(7), cut=0.2), rtol=1e-3)
    found = fit_table(table, "perplexity")
    np.testing.assert_allclose(7 * np.array(found.mixture.weights), AUTHORS_OPTIMUM, atol=2e-3)
    assert found.details["cut"]["a"] == pytest.approx(0.2, rel=1e-3), "the table's own"
    assert found.details["grown"]["g"] == pytest.approx(3, rel=1e-3)


@pytest.mark.parametrize("change", ["fewer", "two domains", "another", "negative loss"])
def test_tables_that_are_not_autoscales_are_refused(change: str) -> None:
    table = authors_table(np.arange(15))
    weights, losses = table.weights.copy(), table.losses.copy()
    if change == "fewer":
        weights, losses = weights[:14], losses[:14]
    elif change == "two domains":
        weights = weights[:5, :2] / weights[:5, :2].sum(1, keepdims=True)
        losses = losses[:5]
    elif change == "another":
        weights[3] = np.random.default_rng(0).dirichlet(np.ones(7))
    else:
        losses[2] = -1
    changed = RunsTable(
        runs=tuple(map(str, range(len(weights)))),
        domains=tuple("abcdefg"[: weights.shape[1]]),
        weights=weights / weights.sum(1, keepdims=True),
        targets=("t",),
        losses=losses,
    )
    with pytest.raises(DataError, match=r"Expected AutoScale's runs|losses > 0 of t"):
        fit_table(changed, "t")
