"""What a regression tells of itself, as tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bydore_pyro.report.regression_tables import regression_tables
from bydore_pyro.report.run_record import RunRecord
from bydore_pyro.report.table import Table


def tables(**details: Any) -> list[Table]:
    record = RunRecord(path=Path("run"), label="run", metrics={"details": details})
    return regression_tables(record)


def test_only_what_is_known_is_told() -> None:
    assert tables() == []
    rows = [
        {"mixture": f"m{i}", "rank": i + 1, "predicted": 1.0, "low": None, "high": None,
         "better_than_prior": None, "nearest_run": 0.1}
        for i in range(25)
    ]  # fmt: skip
    (told,) = tables(predictions=rows)
    assert [row[0] for row in told.rows] == [f"m{i}" for i in range(20)]
    assert told.note == "and 5 more in predictions.csv"
    disagree = {
        "runs": 8, "spearman_x100": -50.0, "slope": -0.1,
        "weights": {"mean": 1.0, "interval": [0.5, 1.5]},
        "prior": {"mean": 1.0, "interval": [0.5, 1.5]}, "probability": 0.4,
    }  # fmt: skip
    (told,) = tables(scale_up=disagree)
    assert told.rows[0] == ("these weights", "1.0000", "0.5000", "1.5000")
    assert "The scales do not agree" in told.note


@pytest.mark.parametrize("part", ["regressions", "each_metric", "scale_up", "predictions"])
@pytest.mark.parametrize("damage", [3, "x", [], [3], {}, {"a": 3}, {"weights": 3}])
def test_damaged_parts_are_not_told(part: str, damage: Any) -> None:
    assert all(len(row) == len(one.header) for one in tables(**{part: damage}) for row in one.rows)
