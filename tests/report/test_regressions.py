"""What the report of a fit to a table of finished runs says."""

from __future__ import annotations

from typing import Any

import pytest
from report_runs import record_of

from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.report.regressions import regression_tables, regression_verdicts
from bydore_pyro.report.run import RunRecord
from bydore_pyro.report.verdicts import verdicts_of
from bydore_pyro.report.words import Verdict

BETTER, RANKS = "Is it better than the prior?", "Does it predict runs that it has not seen?"
MIXTURE = Mixture(names=("a", "b"), weights=(0.6, 0.4), hdi=((0.55, 0.7), (0.3, 0.45)))


def metric(better: float = 0.99, unit: float = 1.0, rank: float | None = 95.0) -> dict[str, Any]:
    def expected(loss: float) -> dict[str, float]:
        return {"loss": unit * loss, "low": unit * (loss - 0.1), "high": unit * (loss + 0.1)}

    apart = {"loss": -0.2 * unit, "low": -0.3 * unit, "high": -0.1 * unit, "better": better}
    return {
        "left_out": {"spearman_x100": rank, "rmse": 0.1 * unit, "coverage": 0.94},
        "expected": {"answer": expected(3.0), "prior": expected(3.2)},
        "differences": {"prior": apart},
    }


def fitted(mean: dict[str, Any] | None = None, **table: Any) -> RunRecord:
    table = {"runs": 3, "prior": {"a": 0.8, "b": 0.2}, "mean": mean or metric(), **table}
    return record_of(MIXTURE, metrics={"method": "bydore", "table": table})


def verdict(record: RunRecord, question: str) -> Verdict:
    (found,) = (one for one in regression_verdicts(record) if one.question == question)
    return found


@pytest.mark.parametrize(
    ("better", "answer", "level"),
    [(0.99, "Yes", "good"), (0.6, "Open", "careful"), (0.05, "No", "bad")],
)
def test_an_improvement_is_judged_as_that_of_a_search(
    better: float, answer: str, level: str
) -> None:
    found = verdict(fitted(metric(better)), BETTER)
    assert (found.answer, found.level) == (answer, level)
    assert "3.0000 (2.9000 to 3.1000); prior 3.2000" in found.figures


def test_nothing_is_clear_where_no_run_is_alike_or_none_is_ranked() -> None:
    far = {"run": "r", "distance": 0.5, "usual": 0.2, "reach": 0.3, "held": ["a"]}
    record = fitted(nearness=far)
    found = verdict(record, BETTER)
    assert (found.level, found.answer) == ("careful", "Yes")
    assert found.figures.endswith("But no run is like this mixture.")
    near = verdict(record, "Was anything like it run?")
    assert (near.answer, near.level) == ("No", "careful")
    assert "this holds a." in near.figures
    assert "are not ranked" in verdict(fitted(metric(rank=40.0)), BETTER).figures
    assert "are not ranked" in verdict(fitted(metric(rank=None)), BETTER).figures


def test_verdicts_are_about_losses_and_a_run_without_a_table_has_none() -> None:
    questions = [one.question for one in verdicts_of(fitted())]
    assert BETTER in questions
    assert "How much is decided?" not in questions
    assert regression_verdicts(record_of(MIXTURE)) == []
    assert regression_tables(record_of(MIXTURE)) == []


@pytest.mark.parametrize(
    ("rank", "level"), [(95.0, "good"), (60.0, "careful"), (40.0, "bad"), (None, "unknown")]
)
def test_predictions_are_judged_by_left_out_runs(rank: float | None, level: str) -> None:
    assert verdict(fitted(metric(rank=rank)), RANKS).level == level


def test_how_the_table_was_read_is_said() -> None:
    columns = {"weights": ["a", "b"], "metrics": ["loss"], "ignored": {"lr": "a setting"}}
    record = fitted(columns=columns, reading=["left out: 1 of 9"])
    found = verdict(record, "How was the table read?")
    assert (found.level, found.answer) == ("good", "2 columns as weights, 1 as metrics")
    assert found.figures == (
        "Weights: a, b. Metrics: loss. Neither: lr (a setting). Left out: 1 of 9."
    )
    found = verdict(fitted(columns={**columns, "phase": "phase 0"}), "How was the table read?")
    assert found.level == "careful"


@pytest.mark.parametrize("unit", [1e-9, 1e25])
def test_predictions_may_be_in_any_unit(unit: float) -> None:
    found = verdict(fitted(metric(unit=unit)), BETTER)
    assert found.answer == "Yes"
    assert f"{3 * unit:.4g} ({2.9 * unit:.4g} to {3.1 * unit:.4g})" in found.figures


@pytest.mark.parametrize(
    ("direction", "subject"),
    [
        ("minimised", "Expected loss"),
        ("maximised", "Expected mmlu (higher is better)"),
        (
            "both",
            "Expected mean of the metrics (lower is better; those that are maximised count "
            "negatively)",
        ),
    ],
)
def test_tables_name_what_is_expected_with_its_direction(direction: str, subject: str) -> None:
    asked: dict[str, Any] = {"mmlu": {"direction": "maximised", "best": 0.5, "run": "r"}}
    if direction == "both":
        asked["loss"] = {"direction": "minimised"}
    rows = [{"mixture": f"m{i}", "rank": i + 1, "expected": 1.0} for i in range(25)]
    record = fitted(asked=asked, direction=direction, predictions=rows, metrics={"mmlu": metric()})
    assert verdict(record, BETTER).figures.startswith(f"{subject} of a run: 3.0")
    first, each, given = regression_tables(record)
    assert first.rows[0] == ("mmlu", "maximised", "0.5000", "r")
    assert [row[0] for row in each.rows] == ["mmlu", "mean"]
    assert each.rows[0][3:6] == ("99 %", "95.0", "0.1000")
    assert given.caption == f"{subject} of given mixtures: 25, all in predictions.csv"
    assert [row[0] for row in given.rows] == [f"m{i}" for i in range(20)]
    assert all(len(row) == len(one.header) for one in (first, each, given) for row in one.rows)
