"""What a fit on tables of finished runs tells."""

from __future__ import annotations

from typing import Any

import pytest
from report_runs import record_of

from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.report.regressions import regression_tables, regression_verdicts
from bydore_pyro.report.run import RunRecord
from bydore_pyro.report.verdicts import verdicts_of
from bydore_pyro.report.words import ABSENT, Verdict
from bydore_pyro.terminal import Table

BETTER = "Is it better than the prior?"


def fitted(
    prior: tuple[float, ...] = (0.8, 0.2),
    other: float = 3.2,
    gain_over_prior: dict[str, Any] | None = None,
    **details: Any,
) -> RunRecord:
    mixture = Mixture(names=("a", "b"), weights=(0.6, 0.4), hdi=((0.55, 0.7), (0.3, 0.45)))
    losses = {"weights": (3.0, 0.1), "prior": (other, None)}
    gain = {
        "prior": dict(zip("ab", prior, strict=False)),
        "predicted_loss": predicted(losses),
        **(gain_over_prior or {}),
    }
    return record_of(
        mixture, metrics={"method": "regmix", "runs": 3, "gain_over_prior": gain, **details}
    )


def predicted(losses: dict[str, tuple[float, float | None]]) -> dict[str, Any]:
    return {
        name: {"mean": mean, "standard_deviation": deviation}
        for name, (mean, deviation) in losses.items()
    }


def verdict(record: RunRecord, question: str) -> Verdict:
    (found,) = (one for one in regression_verdicts(record) if one.question == question)
    return found


@pytest.mark.parametrize(
    ("gain", "expected"),
    [
        ({"mean": 0.2, "probability": 0.99, "sure": True}, "good"),
        ({"mean": 0.2, "probability": 0.8, "sure": False}, "careful"),
        ({"mean": 0.0, "probability": 0.0, "sure": False}, "bad"),
        ({"mean": 0.2}, "unknown"),
    ],
)
def test_an_improvement_is_called_one_where_it_is(gain: dict[str, Any], expected: str) -> None:
    found = verdict(fitted(gain_over_prior=gain), BETTER)
    assert found.level == expected
    assert "weights 3.0000 ± 0.1000; prior 3.2000" in found.figures
    assert ("cannot say how certain" in found.figures) == (gain.get("probability") is None)


def test_a_probability_that_a_regression_overstates_is_not_left_alone() -> None:
    found = verdict(
        fitted(gain_over_prior={"mean": 0.2, "probability": 1.0, "sure": False}), BETTER
    )
    assert (found.level, found.answer) == ("careful", "Perhaps")
    assert found.figures.endswith(
        "with probability 100 %. But the regression's predictions are not sure, and so this is not."
    )


def test_intervals_are_held_against_the_prior() -> None:
    for prior, told in (((0.8, 0.2), "its share of the prior"), ((), "the uniform share 0.500")):
        (found,) = (v for v in verdicts_of(fitted(prior)) if v.question == "How much is decided?")
        assert f"lies above {told}" in found.figures


@pytest.mark.parametrize(("rank", "level"), [(95.0, "good"), (60.0, "careful"), (40.0, "bad")])
def test_a_regression_is_judged_by_left_out_runs(rank: float, level: str) -> None:
    row = {"spearman_x100": rank, "rmse": 0.1, "coverage": 0.94}
    record = fitted(regression="linear", regressions={"linear": row})
    found = verdict(record, "Does it predict runs that it has not seen?")
    assert found.level == level
    assert "94 % in their 94 % intervals" in found.figures


def test_how_the_table_was_read_is_said() -> None:
    columns = {"weights": ["a", "b"], "metrics": ["loss"], "ignored": {"lr": "a setting"}}
    found = verdict(
        fitted(columns=columns, reading=["left out: 1 of 9"]), "How was the table read?"
    )
    assert (found.level, found.answer) == ("good", "2 columns as weights, 1 as metrics")
    assert found.figures == (
        "Weights: a, b. Metrics: loss. Neither: lr (a setting). Left out: 1 of 9."
    )
    found = verdict(fitted(columns={**columns, "phase": "phase 0"}), "How was the table read?")
    assert found.level == "careful"
    (asked,) = regression_tables(
        record_of(metrics={"asked": {"acc": {"direction": "maximised", "best": 0.5, "run": "r"}}})
    )
    assert asked.rows == [("acc", "maximised", "0.5000", "r")]


@pytest.mark.parametrize("unit", [1e-9, 1e25])
def test_predictions_in_any_unit_are_told_apart(unit: float) -> None:
    mixture = Mixture(names=("a", "b"), weights=(0.6, 0.4))
    losses = predicted({"weights": (3.0 * unit, 0.1 * unit), "prior": (3.2 * unit, None)})
    gain = {"mean": 0.2 * unit, "probability": 0.99, "sure": True, "predicted_loss": losses}
    found = verdict(record_of(mixture, metrics={"runs": 3, "gain_over_prior": gain}), BETTER)
    assert found.answer == "Yes, as predicted"
    assert f"weights {3 * unit:.4g} ± {0.1 * unit:.4g}; prior {3.2 * unit:.4g}" in found.figures


def test_its_tables_tell_what_is_known() -> None:
    def tables(**details: Any) -> list[Table]:
        return regression_tables(record_of(metrics=details))

    assert tables() == []
    rows = [{"mixture": f"m{i}", "rank": i + 1, "predicted": 1.0} for i in range(25)]
    (told,) = tables(predictions=rows)
    assert [row[0] for row in told.rows] == [f"m{i}" for i in range(20)]
    metric = {"regression": "linear", "spearman_x100": 90.0, "weights": 3.0, "prior": 3.1}
    left_out, each = tables(regressions={"linear": {"rmse": 0.1}}, each_metric={"arc": metric})
    assert left_out.rows[0][:3] == ("linear", ABSENT, "0.1000")
    assert each.rows[0][:4] == ("arc", "", "linear", "90.0")
    assert all(len(row) == len(one.header) for one in (left_out, each, told) for row in one.rows)


@pytest.mark.parametrize(
    ("direction", "subject"),
    [
        ("minimised", "Predicted loss"),
        ("maximised", "Predicted mmlu (higher is better)"),
        (
            "both",
            "Predicted mean of the metrics (lower is better; those that are maximised count "
            "negatively)",
        ),
    ],
)
def test_what_is_predicted_is_named_with_its_direction(direction: str, subject: str) -> None:
    asked: dict[str, Any] = {"mmlu": {"direction": "maximised"}}
    if direction == "both":
        asked["loss"] = {"direction": "minimised"}
    gain = {"mean": 0.2, "probability": 0.99, "sure": True}
    rows = [{"mixture": "m", "rank": 1, "predicted": 40.3, "low": 39.0, "high": 41.5}]
    each = {"mmlu": {"regression": "law", "weights": 40.3, "prior": 38.0}}
    record = fitted(
        gain_over_prior=gain,
        asked=asked,
        direction=direction,
        predictions=rows,
        each_metric=each,
    )
    assert verdict(record, BETTER).figures.startswith(f"{subject} of a run on each: weights 3.0")
    _, one_each, given = regression_tables(record)
    assert given.caption == f"{subject} of given mixtures: 1, all in predictions.csv"
    assert one_each.rows[0][:3] == ("mmlu", "maximised", "law")
