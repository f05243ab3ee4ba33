"""What a regression tells of itself: runs enough, better than the prior, and its tables."""

from __future__ import annotations

from typing import Any

import pytest
from report_runs import record_of

from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.report.regression import (
    compared_with,
    judge_distance,
    judge_gain,
    judge_regression,
    judge_runs,
    regression_tables,
    too_few_runs,
)
from bydore_pyro.report.run import RunRecord
from bydore_pyro.report.thresholds import Verdict
from bydore_pyro.report.verdicts import verdicts_of
from bydore_pyro.report.words import ABSENT, Table


def fitted(prior: tuple[float, ...] | None = (0.8, 0.2), **details: Any) -> RunRecord:
    mixture = Mixture(
        names=("a", "b"),
        weights=(0.6, 0.4),
        hdi=((0.55, 0.7), (0.3, 0.45)),
        prior=prior,
        predicted_loss={"weights": (3.0, 0.1), "prior": (3.2, None)},
    )
    return record_of(mixture, metrics={"method": "regmix", "details": {"runs": 3, **details}})


def level(verdict: Verdict | None) -> str | None:
    return None if verdict is None else verdict.level


def test_runs_are_held_against_domains() -> None:
    assert too_few_runs(fitted(runs=1))
    assert not too_few_runs(fitted(runs=2))
    found = judge_runs(fitted(runs=1))
    assert found is not None
    assert (found.level, found.answer) == ("bad", "No")
    assert "1 runs of 2 domains" in found.figures
    (decided,) = (v for v in verdicts_of(fitted(runs=1)) if v.question == "How much is decided?")
    assert decided.level == "bad"
    other = record_of(metrics={"method": "doremi"})
    assert judge_runs(other) is judge_gain(other) is judge_distance(other) is None


@pytest.mark.parametrize(
    ("gain", "expected"),
    [
        ({"mean": 0.2, "probability": 0.99, "sure": True}, "good"),
        ({"mean": 0.2, "probability": 0.8, "sure": False}, "careful"),
        ({"mean": 0.0, "probability": 0.0, "sure": False}, "bad"),
        ({"mean": 0.2}, "unknown"),
        ({"mean": 0.2, "probability": 0.99}, "unknown"),  # before runs noted `sure`
    ],
)
def test_an_improvement_is_called_one_where_it_is(gain: dict[str, Any], expected: str) -> None:
    found = judge_gain(fitted(gain_over_prior=gain))
    assert found is not None
    assert found.level == expected
    assert "these weights 3.0000 ± 0.1000; prior 3.2000" in found.figures
    assert ("cannot say how certain" in found.figures) == (gain.get("probability") is None)


def test_intervals_are_held_against_the_prior() -> None:
    """Against equal shares both would be decided the other way round."""
    (decided,) = (v for v in verdicts_of(fitted()) if v.question == "How much is decided?")
    assert "its share of the prior" in decided.figures
    assert compared_with(fitted(prior=None))[1] == "the uniform share 0.500"


def test_a_regression_is_judged_by_left_out_runs_and_by_the_nearest_run() -> None:
    for rank, expected in ((95.0, "good"), (40.0, "careful")):
        row = {"spearman_x100": rank, "rmse": 0.1, "coverage": 0.94}
        found = judge_regression(fitted(regression="linear", regressions={"linear": row}))
        assert level(found) == expected
        assert found is not None
        assert "94 % in their 94 % intervals" in found.figures
    assert judge_regression(fitted(regression="linear")) is None
    # Before runs noted `far`, words alone are there.
    for noted, expected in (({"far": True}, "careful"), ({"far": False}, "good"), ({}, "unknown")):
        found = judge_distance(fitted(distance={"words": "The nearest run.", **noted}))
        assert level(found) == expected


def test_only_what_is_known_is_told() -> None:
    def tables(**details: Any) -> list[Table]:
        return regression_tables(record_of(metrics={"details": details}))

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
        "weights": {"mean": 1.0, "interval": [0.5, 1.5]}, "prior": 3, "probability": 0.4,
    }  # fmt: skip
    (told,) = tables(scale_up=disagree)
    assert told.rows[0] == ("these weights", "1.0000", "0.5000", "1.5000")
    assert "The scales do not agree" in told.note
    metric = {"regression": "linear", "spearman_x100": 90.0, "weights": 3.0, "prior": 3.1}
    left_out, each = tables(regressions={"linear": {"rmse": 0.1}}, each_metric={"arc": metric})
    assert left_out.rows[0][:3] == ("linear", ABSENT, "0.1000")
    assert each.rows[0][:3] == ("arc", "linear", "90.0")
    assert all(len(row) == len(one.header) for one in (left_out, each, told) for row in one.rows)
