"""Runs left out: ranks, and intervals that hold what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from planted_tables import planted

pytest.importorskip("botorch")

from bydore_pyro.errors import DataError
from bydore_pyro.tables.left_out import cross_validate, spearman_x100, validated
from bydore_pyro.tables.regression import fit_regression, interval_of_run


def test_ranks_by_hand() -> None:
    assert spearman_x100(np.array([1.0, 2, 3]), np.array([5.0, 9, 7])) == pytest.approx(50)
    assert spearman_x100(np.ones(3), np.arange(3.0)) is None


@pytest.mark.parametrize("kind", ["linear", "log_linear"])
def test_intervals_hold_as_many_new_runs_as_they_say(kind: Any) -> None:
    runs, folds = planted(80, noise=0.1), list[int]()
    told, _ = cross_validate(kind, *runs, progress=lambda: folds.append(1))
    model = validated(fit_regression(kind, *runs), told)
    assert len(folds) == 5
    assert told.coverage == pytest.approx(0.94, abs=0.05)
    assert (model.width, model.rank) == (told.width, told.spearman_x100)
    test, measured = planted(500, noise=0.1, seed=1)
    low, high = interval_of_run(model, test).T
    assert ((low <= measured) & (measured <= high)).mean() == pytest.approx(0.94, abs=0.06)


def test_copies_of_a_run_share_a_fold() -> None:
    """Each mixture twice with one loss: trees that saw the copy would have no error."""
    weights, losses = planted(48, noise=0.02)
    twice, _ = cross_validate("lightgbm", np.repeat(weights, 2, 0), np.repeat(losses, 2))
    assert (twice.rmse or 0) > 0.05
    with pytest.raises(DataError, match="at least 6 mixtures to cross-validate, found 5"):
        cross_validate("linear", np.repeat(weights[:5], 2, 0), np.repeat(losses[:5], 2))
    few, _ = cross_validate("linear", weights[:12], losses[:12])
    assert few.spearman_x100 is not None
    assert (few.width, few.coverage) == (None, None)
    assert validated(fit_regression("linear", weights, losses), None).rank == 0
