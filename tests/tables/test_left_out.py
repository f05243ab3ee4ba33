"""Runs left out: ranks, and intervals that hold what they say."""

from __future__ import annotations

import numpy as np
import pytest
from planted_tables import planted

pytest.importorskip("botorch")

from bydore_pyro.errors import DataError
from bydore_pyro.methods.regmix import fit_trees
from bydore_pyro.tables.left_out import Predictions, leave_out, scores_by_metric, spearman_x100
from bydore_pyro.tables.record import LeftOut
from bydore_pyro.tables.regression import fit_runs


def test_ranks_by_hand() -> None:
    assert spearman_x100(np.array([1.0, 2, 3]), np.array([5.0, 9, 7])) == pytest.approx(50)
    assert spearman_x100(np.ones(3), np.arange(3.0)) is None


def test_scores_by_hand() -> None:
    expected, measured = np.array([[1.0], [2.0], [3.0]]), np.array([[1.0], [2.5], [9.0]])
    found = Predictions(expected, np.ones((3, 1)), measured)
    (one,) = scores_by_metric(found, 1)
    assert one == found.scores(np.ones(1))
    assert one.spearman_x100 == pytest.approx(100)
    assert one.rmse == pytest.approx(np.sqrt((0.25 + 36) / 3))
    assert one.coverage == pytest.approx(2 / 3)
    assert scores_by_metric(None, 2) == [LeftOut()] * 2


def test_intervals_hold_as_many_left_out_runs_as_they_say() -> None:
    (weights, losses), folds = planted(60, noise=0.1), list[int]()
    found = leave_out(fit_runs, weights, losses[:, None], lambda: folds.append(1))
    assert len(folds) == 5
    assert (found.scores(np.ones(1)).coverage or 0) == pytest.approx(0.94, abs=0.06)


def test_copies_of_a_run_share_a_fold() -> None:
    """Each mixture twice with one loss: trees that saw the copy would have no error."""
    weights, losses = planted(48, noise=0.02)
    twice = leave_out(fit_trees, np.repeat(weights, 2, 0), np.repeat(losses, 2)[:, None])
    assert (twice.scores(np.ones(1)).rmse or 0) > 0.05
    with pytest.raises(DataError, match="at least 6 mixtures to cross-validate, found 5"):
        leave_out(fit_trees, np.repeat(weights[:5], 2, 0), np.repeat(losses[:5], 2)[:, None])
