"""Given mixtures are ranked; a line carries predictions to a larger scale, as by hand."""

from __future__ import annotations

import numpy as np
import pytest
from planted_tables import planted
from scipy import stats

from bydore_pyro.baselines.regression import fit_regression
from bydore_pyro.baselines.scoring import ScaledUp, scale_up, score_mixtures
from bydore_pyro.baselines.simulated import TrustRegion
from bydore_pyro.utils.errors import DataError


def test_a_line_is_that_of_scipy_and_its_intervals_hold() -> None:
    weights, losses = planted(60)
    model = fit_regression("linear", weights, losses)
    rng, held = np.random.default_rng(0), []
    for _ in range(200):
        few, small = planted(12, seed=int(rng.integers(1e6)))[0], None
        small = model.predict(few)
        found = scale_up(model, few, 2 + 0.5 * small + 0.1 * rng.standard_normal(12))
        other = planted(1, seed=int(rng.integers(1e6)))[0]
        new = 2 + 0.5 * model.predict(other)[0] + 0.1 * rng.standard_normal()
        low, high = found.predict_interval(other)[0]
        held.append(low <= new <= high)
    assert np.mean(held) == pytest.approx(0.94, abs=0.05)
    assert isinstance(found, ScaledUp)
    assert found.slope == pytest.approx(0.5, abs=0.4)
    best, worst = weights[losses.argsort()[[0, -1]]]
    gain, probability = found.gain(best, worst)
    assert gain == pytest.approx(np.diff(found.predict(np.stack([best, worst])))[0])
    unsure = gain / found.slope
    error = found.error * np.sqrt(2 + unsure**2 / found.spread)
    assert probability == pytest.approx(stats.t.cdf(gain / error, 10))
    assert found.details(np.stack([best, worst]))["probability"] == probability
    with pytest.raises(DataError, match="at least 4 large runs, found 3"):
        scale_up(model, weights[:3], losses[:3])
    with pytest.raises(DataError, match="different predicted losses, found all equal"):
        scale_up(model, weights[[0] * 5], losses[:5])


def test_given_mixtures_are_ranked_with_their_distance() -> None:
    weights, losses = planted(40)
    model, region = fit_regression("linear", weights, losses), TrustRegion(weights[:5])
    given = np.stack([weights[0], np.eye(4)[1]])
    rows = score_mixtures(model, ("known", "vertex"), given, np.full(4, 0.25), region)
    assert [row["rank"] for row in rows] == [1, 2]
    assert rows[0]["predicted"] <= rows[1]["predicted"]
    by_name = {row["mixture"]: row for row in rows}
    assert by_name["known"]["nearest_run"] == 0
    expected = np.abs(weights[:5] - np.eye(4)[1]).sum(1).min() / 2
    assert by_name["vertex"]["nearest_run"] == pytest.approx(expected)
    assert by_name["vertex"]["better_than_prior"] is None
    assert by_name["known"]["low"] is None
