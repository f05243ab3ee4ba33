"""Given mixtures, scored and ranked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from planted_tables import planted

from bydore_pyro.baselines.candidates import COLUMNS, read_mixtures, score_mixtures
from bydore_pyro.baselines.regression import fit_regression
from bydore_pyro.baselines.scale_up import scale_up
from bydore_pyro.utils.errors import DataError

PRIOR = np.full(4, 0.25)


def test_mixtures_are_ranked_with_intervals_and_chances(tmp_path: Path) -> None:
    path = tmp_path / "mixtures.csv"
    path.write_text(
        "d,name,c,b,a\n0.1,bad,0.0,0.9,0\n0.1,good,0.2,0.1,0.6\n0.25,same,0.25,0.25,0.25"
    )
    names, given = read_mixtures(path, ("a", "b", "c", "d"))
    assert names == ("bad", "good", "same")
    weights, losses = planted(60, noise=0.05)
    model = fit_regression("gaussian_process", weights, losses)
    rows = score_mixtures(model, names, given, PRIOR, weights)
    assert [row["mixture"] for row in rows] == ["good", "same", "bad"]
    assert [row["rank"] for row in rows] == [1, 2, 3]
    assert set(rows[0]) == set(COLUMNS)
    assert rows[0]["better_than_prior"] > 0.97
    assert rows[2]["better_than_prior"] < 0.03
    for row in rows:
        assert row["low"] < row["predicted"] < row["high"]
    large = scale_up(model, weights, 1 + 0.5 * losses)
    scaled = score_mixtures(large, names, given, PRIOR, weights)
    assert [row["mixture"] for row in scaled] == ["good", "same", "bad"]
    assert scaled[0]["predicted"] == pytest.approx(1 + 0.5 * rows[0]["predicted"], abs=0.05)
    unknown = fit_regression("linear", weights, losses)
    first = score_mixtures(unknown, names, given, PRIOR, weights)[0]
    assert first["better_than_prior"] is first["low"] is first["high"] is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("name,a\nx,1\n", "each of the runs' domains"),
        ("a,b\n0.5,0.5\n", "Expected a column 'mixture' or"),
        ("name,a,b\nx,0.5,0.1\n", "sum to 1"),
        ("name,a,b\nx,1.5,-0.5\n", "weights >= 0"),
    ],
)
def test_mistakes(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mixtures.csv"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_mixtures(path, ("a", "b"))
