"""What is expected of a run on a mixture, beside the prior and the runs of a table."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from planted_tables import planted_table

pytest.importorskip("botorch")

from bydore_pyro.tables.decision import bounds_near
from bydore_pyro.tables.expected import difference_of, expected_of, nearness_of
from bydore_pyro.tables.regression import REACH, fit_runs


def test_an_expectation_and_a_difference_by_hand() -> None:
    table = planted_table(20)
    model = fit_runs(table.weights, table.losses)
    one, other = table.weights[:2]
    (expected,) = expected_of(model, np.ones(1), -1.0, one[None])
    half = REACH * model.deviation(one[None])[0, 0]
    assert expected.loss == pytest.approx(-model.predict(one[None])[0, 0])
    assert (expected.low, expected.high) == pytest.approx(
        (expected.loss - half, expected.loss + half)
    )
    (apart,), (deviation,) = model.apart(one, other)
    found = difference_of(model, np.ones(1), -1.0, one, other)
    assert found.loss == pytest.approx(-apart)
    assert found.better == pytest.approx(NormalDist().cdf(-apart / deviation))
    assert found.high - found.low == pytest.approx(2 * REACH * deviation)


def test_how_near_a_mixture_is_to_the_runs() -> None:
    table = planted_table(30)
    bounds = bounds_near(table.weights)
    near = nearness_of(table, table.weights[3], bounds)
    assert (near.run, near.distance, near.far) == ("run 3", 0.0, False)
    vertex = nearness_of(table, np.eye(4)[1], bounds)
    brute = np.abs(table.weights - np.eye(4)[1]).sum(1) / 2
    assert vertex.distance == pytest.approx(brute.min())
    assert vertex.run == table.runs[int(brute.argmin())]
    assert (vertex.far, "b" in vertex.held) == (True, True)
