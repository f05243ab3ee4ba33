"""Which metrics are asked for, and in which direction each is better."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bydore_pyro.errors import DataError
from bydore_pyro.tables.columns import Columns
from bydore_pyro.tables.directions import ALL, directed, metric_shares
from bydore_pyro.tables.record import Asked
from bydore_pyro.tables.tables import RunsTable

TABLE = RunsTable(
    runs=("r", "s"),
    domains=("a", "b"),
    weights=np.array([[0.5, 0.5], [0.2, 0.8]]),
    targets=("exam:rc::x", "code_1", "code_2", "a=b"),
    losses=np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]),
)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["code_1"], {"code_1": 1.0}),
        (["code_*"], {"code_1": 0.5, "code_2": 0.5}),
        (["exam:rc::x=2", "code_*=1"], {"exam:rc::x": 0.5, "code_1": 0.25, "code_2": 0.25}),
        (["code_*", "code_1=0", "code_2=2"], {"code_1": 0.25, "code_2": 0.75}),
        ([ALL], dict.fromkeys(TABLE.targets, 0.25)),
    ],
)
def test_names_patterns_and_weights(wanted: list[str], expected: dict[str, float]) -> None:
    shares = metric_shares(TABLE, wanted)
    assert shares == pytest.approx(expected)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("essay", "Expected one of the targets .*, found 'essay'"),
        ("code_1=x", "Expected NAME=WEIGHT with a weight >= 0, found 'code_1=x'"),
        ("code_1=0", "Expected a metric with a weight > 0, found none"),
    ],
)
def test_metrics_that_are_none(wrong: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        metric_shares(TABLE, [wrong])


def table_of(losses: np.ndarray, *targets: str, **more: Any) -> RunsTable:
    """A table of so many runs as there are losses ``(N, M)``."""
    runs = len(losses)
    weights = np.random.default_rng(0).dirichlet(np.ones(2), runs)
    return RunsTable(
        runs=tuple(f"r{n}" for n in range(runs)),
        domains=("x", "y"),
        weights=weights,
        targets=targets,
        losses=np.array(losses, float),
        **more,
    )


def test_runs_that_failed_are_left_out_where_they_are_asked_for() -> None:
    """What is not asked for may be missing."""
    nan = np.nan
    table = table_of(
        np.array([[1, nan, 0.5, 0.5], [2, nan, nan, 0.25], [nan, 3, 0.25, 0.125]]),
        *("loss", "other_loss", "mmlu_acc", "f1"),
    )
    found, told = directed(table, {"loss": 1.0})
    assert (found.runs, found.losses_of("loss").tolist()) == (("r0", "r1"), [1, 2])
    np.testing.assert_array_equal(found.weights, table.weights[:2])
    assert told == [
        "minimised: loss (lower is better; best 1, run r0)",
        "left out without loss: 1 of 3 runs",
    ]
    found, told = directed(table, {"mmlu_acc": 1.0}, ["mmlu*"])
    assert (found.runs, found.losses_of("mmlu_acc").tolist()) == (("r0", "r2"), [-0.5, -0.25])
    assert told == [
        "maximised: mmlu_acc (higher is better; best 0.5, run r0)",
        "left out without mmlu_acc: 1 of 3 runs",
    ]
    assert found.asked["mmlu_acc"] == Asked(direction="maximised", best=0.5, run="r0")
    both = {"loss": 0.5, "mmlu_acc": 0.5}
    with pytest.raises(DataError, match=r"of one unit, or NAME=WEIGHT .*'mmlu_acc'.*'loss'"):
        directed(table, both, ["mmlu_acc"])
    directed(table, {"loss": 0.2, "mmlu_acc": 0.8}, ["mmlu_acc"])
    with pytest.raises(DataError, match="Expected runs with loss, other_loss, found none"):
        directed(table, {"loss": 0.5, "other_loss": 0.5})


@pytest.mark.parametrize(
    "name",
    [
        *("mmlu_acc", "pass@1", "arc_easy", "neg_loss", "delta_bpb"),
    ],
)
def test_what_is_not_called_a_loss_needs_a_direction(name: str) -> None:
    table = table_of(np.array([[1.0, 2.0], [3.0, 5.0]]), "bpb", name)
    with pytest.raises(DataError, match=f"--maximize {name}, or --minimize {name}"):
        directed(table, {name: 1.0})
    with pytest.raises(DataError, match=f"--maximize {name}, or --minimize {name}"):
        directed(table, {"bpb": 0.5, name: 0.5})
    assert directed(table, {"bpb": 1.0})[0].losses[:, 0].tolist() == [1, 3]
    assert directed(table, {name: 1.0}, [name])[0].losses[:, 1].tolist() == [-2, -5]
    assert directed(table, {name: 1.0}, [], [name])[0].losses[:, 1].tolist() == [2, 5]
    for every in (ALL, "*"):
        assert directed(table, {name: 1.0}, [], [every])[0].losses[:, 1].tolist() == [2, 5]
        assert directed(table, {name: 1.0}, [every])[0].losses[:, 1].tolist() == [-2, -5]
    with pytest.raises(DataError, match="one direction for"):
        directed(table, {name: 1.0}, ["*"], [name])
    with pytest.raises(DataError, match=r"one of the targets .*, found 'none'"):
        directed(table, {name: 1.0}, ["none"])


@pytest.mark.parametrize(
    "name",
    [
        *("loss", "uncheatable_bpb", "word_perplexity", "valLoss", "eval/ce"),
    ],
)
def test_a_loss_is_minimised_and_its_best_value_is_said(name: str) -> None:
    table = table_of(np.array([[1.5], [1.25], [3.0]]), name)
    found, told = directed(table, {name: 1.0})
    assert told == [f"minimised: {name} (lower is better; best 1.25, run r1)"]
    assert found.asked[name] == Asked(direction="minimised", best=1.25, run="r1")


def test_the_direction_is_known_by_the_column_where_the_target_has_a_shorter_name() -> None:
    columns = Columns(weights=("x", "y"), metrics=("metric/the_pile_arxiv_val_loss",))
    table = table_of(np.array([[2.0], [1.0]]), "arxiv", columns=columns)
    assert directed(table, {"arxiv": 1.0})[1] == [
        "minimised: arxiv (lower is better; best 1, run r1)"
    ]


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_placeholders_among_losses_are_named_not_fitted(value: float) -> None:
    table = table_of(np.array([[2.0, 1], [value, 1.5], [1.5, 2], [3, 1]]), "loss", "other_loss")
    with pytest.raises(
        DataError, match=rf"losses > 0 in 'loss', found {value:g} \(1 of 4 runs: r1\)"
    ):
        directed(table, {"loss": 1.0})
    directed(table, {"other_loss": 1.0})
    directed(table, {"loss": 1.0}, [], ["loss"])


@pytest.mark.parametrize("unit", [1, 1e-9, 1e25])
def test_copies_of_a_run_count_once_and_are_counted(unit: float) -> None:
    """Other runs on one mixture are none, and another metric makes none of a copy."""
    table = table_of(np.array([[1.0, 7], [2.0, 8], [3.0, 9]]), "loss", "other_loss")
    losses = np.repeat(table.losses, 3, 0)
    losses[2, 0], losses[5, 0], losses[8, 1] = 1.5, 2 + 1e-12, 10
    thrice = RunsTable(
        runs=tuple(f"r{n}" for n in range(9)),
        domains=table.domains,
        weights=np.repeat(table.weights, 3, 0),
        targets=table.targets,
        losses=unit * losses,
    )
    found, told = directed(thrice, {"loss": 1.0})
    assert found.runs == ("r0", "r2", "r3", "r6")
    assert told[-1] == "left out as copies of a run: 5 of 9 rows"


def test_the_reason_why_a_column_is_no_target_is_said() -> None:
    columns = Columns(weights=("x", "y"), metrics=("loss",), ignored={"eval/time": "a time"})
    table = table_of(np.array([[2.0], [1.0]]), "loss", columns=columns)
    with pytest.raises(DataError, match=r"targets loss, found 'eval/time' \(a time\)"):
        metric_shares(table, ["eval/time"])
    with pytest.raises(DataError, match=r"targets loss, found 'x' \(a column of weights\)"):
        metric_shares(table, ["x"])


def test_of_many_metrics_a_few_lines_are_said_and_the_rest_counted() -> None:
    table = table_of(
        np.random.default_rng(0).uniform(1, 2, (4, 11)), *(f"loss {n}" for n in range(11))
    )
    found, told = directed(table, metric_shares(table, [ALL]))
    assert (len(told), told[-1]) == (9, "and 3 more metrics, which the record names")
    assert len(found.asked) == 11


def test_a_loss_far_from_all_others_is_named() -> None:
    losses = np.append(np.linspace(3, 3.5, 9), 9999)[:, None]
    _, (line,) = directed(table_of(losses, "loss"), {"loss": 1.0})
    assert line.endswith("; far from all others: r9)")


def test_a_metric_without_differences_has_no_direction() -> None:
    table = table_of(np.array([[3.0, 7], [2, 7]]), "loss", "other")
    found, told = directed(table, {"loss": 0.5, "other": 0.5})
    assert told[1] == "the same in all runs, and without effect: other (7)"
    assert set(found.asked) == {"loss"}
