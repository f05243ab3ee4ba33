"""The tables of a report."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import TypeAdapter
from report_runs import (
    NAMES,
    matching_of,
    metrics_of,
    mixture_with_intervals,
    outlook_of,
    planted,
    record_of,
    write_fit,
    write_search,
    write_seeds,
)

from bydore_pyro.answer.outlook import Outlook
from bydore_pyro.files import plain
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.proxy.measured_model import Cost
from bydore_pyro.report.run import RunRecord, read_run
from bydore_pyro.report.tables import (
    JUDGED,
    bounds_table,
    comparison_table,
    cost_table,
    groups_table,
    head_within,
    loss_table,
    outlook_table,
    price_columns,
    round_table,
    saved_table,
    seeds_table,
    targets_table,
    tasks_table,
    weights_table,
)
from bydore_pyro.report.words import ABSENT
from bydore_pyro.setup.record import TargetRecord
from bydore_pyro.targets.told import Told
from bydore_pyro.terminal import Table


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    return read_run(write_search(tmp_path / "a run", verified=True))


def cells(table: Table, row: str) -> dict[str, str]:
    (found,) = (one for one in table.rows if one[0] == row)
    return dict(zip(table.header[1:], found[1:], strict=True))


def test_weights(record: RunRecord) -> None:
    table = weights_table(record)
    assert [row[0] for row in table.rows] == list(NAMES)
    assert cells(table, "code") == {
        "weight": "0.4596",
        "94 % interval": "0.306 to 0.689",
        "epochs": "0.50",
    }
    told = cells(weights_table(record_of(metrics={"outlook": outlook_of()})), "code")
    assert told["within 0.01 nats"] == "0.100 to 0.300"
    bare = Mixture(names=NAMES, weights=(0.25,) * 4)
    assert cells(weights_table(record_of(bare, metrics={})), "law") == {"weight": "0.2500"}
    capped = mixture_with_intervals().capped(dict.fromkeys(NAMES, 0.4))
    told = cells(weights_table(record_of(capped)), "code")
    assert (told["weight"], told["uncapped"]) == ("0.4000", "0.4596")
    prior = dict(zip(NAMES, (0.1, 0.1, 0.4, 0.4), strict=True))
    told = cells(weights_table(record_of(metrics={"table": {"prior": prior}})), "code")
    assert told["than the prior"] == "more"


def test_many_domains_are_a_tree_and_the_whole_table_is_folded() -> None:
    names = [f"{a}/{b}" for a in "xyz" for b in range(20)]
    mixture = mixture_with_intervals(names)
    sums = {"branches": {"x": (0.5, 1.0)}, "rest": (0.0, 0.25)}
    record = record_of(mixture, metrics=metrics_of(names, sums=sums))
    table, whole = weights_table(record), weights_table(record, whole=True)
    assert [row[0] for row in table.rows[:2]] == ["x", "  x/0"]
    total = sum(mixture.weights[:20])
    assert cells(table, "x")["weight"] == f"{total:.4f}"
    assert cells(table, "x")["94 % interval"] == "0.500 to 1.000"
    assert cells(table, "the rest (40 domains)")["94 % interval"] == "0.000 to 0.250"
    assert len(table.rows) == 20 + 3 + 1
    assert len(whole.rows) == 60 + 3
    assert (whole.caption, whole.folded, table.folded) == ("All 60 domains", True, False)
    assert not weights_table(record_of(), whole=True).rows
    beside = comparison_table([record, record])
    assert "weight of the rest (40 domains)" in [row[0] for row in beside.rows]
    assert cells(beside, "weight of x")["run"] == f"{total:.3f}"


def test_losses_and_costs(record: RunRecord) -> None:
    assert loss_table(record).rows == [
        ("learned", "3.2500", "-0.2500"),
        ("only code", "3.4000", "-0.1000"),
        ("uniform", "3.5000", "+0.0000"),
    ]
    rows = cost_table(record.metrics.search).rows
    assert rows[1] == ("train", "15,360", "1.00e+09", "4.0 s")
    assert rows[-1] == ("in all", "40,000", "3.00e+09", "6.0 s")
    assert not cost_table(None).rows
    assert not cost_table(Cost().spent()).rows


def test_several_targets_are_told_apart() -> None:
    share = dict(zip(NAMES, (0.5, 0.3, 0.15, 0.05), strict=True))
    one = plain(TargetRecord(importance=0.5, composition=share, unexplained=0.2))
    table = targets_table(record_of(metrics={"targets": {"x": one, "y": one}}))
    assert cells(table, "y") == {
        "importance": "50 %",
        "unexplained": "20 %",
        "made most of": "code 50 %, law 30 %, prose 15 %",
    }
    alone = targets_table(record_of(metrics={"targets": {"x": one}}))
    assert cells(alone, "x")["made most of"] == "code 50 %, law 30 %, prose 15 %"
    assert alone.caption == "What the target is made of"
    assert not targets_table(record_of()).rows


def test_tasks_are_described() -> None:
    """A target that is no task has no row; each loss stands in its unit and in nats per token."""
    told = Told(
        questions=120,
        split="validation",
        shots=0,
        answer_bytes=14.25,
        contexts_cut=3,
        answers_cut=1,
        left_out={"copies of other questions": 2},
        standing_in_any=5,
    )
    one = TargetRecord(loss=1.25, unit="bits per byte", nats_per_token=2.5, task=told)
    table = tasks_table(
        record_of(metrics={"targets": {"x": plain(one), "y": plain(TargetRecord())}})
    )
    assert len(table.rows) == 1
    assert cells(table, "x") == {
        "questions": "120",
        "split": "validation",
        "shots": "0",
        "bytes of an answer": "14.2",
        "loss": "1.250 bits per byte",
        "nats per token": "2.500",
        "cut": "4",
        "left out": "2",
        "in training text": "5",
    }


def test_units_stand_beside_the_losses_of_targets() -> None:
    texts = {name: {"loss": 1.0, "low": 0.5, "high": 1.5} for name in ("x", "domain web")}
    apart = {n: {**one, "better": 0.5} for n, one in texts.items()}
    outlook = {
        "importance": {"x": 1.0},
        "units": {"x": "bits per byte"},
        "expected": {"answer": texts},
        "differences": {"natural": apart},
    }
    record = record_of(metrics={"outlook": outlook})
    table = outlook_table(record.metrics.outlook)
    assert table.header[0] == "loss on"
    assert [row[0] for row in table.rows] == ["x, bits per byte", "domain web, nats per token"]


def test_how_far_a_weight_may_move_is_in_nats_where_losses_are() -> None:
    assert head_within(Outlook(units={"x": "nats per token"})) == "within 0.01 nats"
    assert head_within(Outlook(units={"x": "bits per byte"})) == "within 0.01"


def test_rounds() -> None:
    record = record_of(metrics=metrics_of(matching=matching_of()))
    assert cells(round_table(record), "2") == {
        "after step": "20",
        "sequences": "1,002",
        "validation loss": "4.000",
        "unexplained": "4.0 %",
        "scale": "1.06",
    }


def test_seeds_have_the_mean_and_the_ends_of_each_weight(tmp_path: Path) -> None:
    runs = [read_run(path) for path in write_seeds(tmp_path / "seeds")]
    found = cells(seeds_table(runs), "code")
    assert found == {"mean weight": "0.4096", "least": "0.3596", "largest": "0.4596"}
    assert not seeds_table(runs[:1]).rows
    assert not seeds_table([runs[0], runs[0]]).rows, "one seed twice"
    assert not seeds_table([runs[0], read_run(write_fit(tmp_path / "fit"))]).rows


def test_runs_beside_each_other(record: RunRecord, tmp_path: Path) -> None:
    fit = read_run(write_fit(tmp_path / "fit"))
    table = comparison_table([record, fit])
    one, other = table.header[1:]
    assert cells(table, "method") == {one: "search", other: "regmix"}
    # the fit's weights are the search's, turned round
    apart = 0.45956 + 0.27574 - 0.16544 - 0.09926
    told = cells(table, f"total variation from {one}")
    assert told == {one: "0.000", other: f"{apart:.3f}"}
    told = cells(table, "weight of code")
    assert told == {one: "0.460 (0.306 to 0.689)", other: "0.099"}
    assert cells(table, "nats per token, fresh model on learned") == {one: "3.2500", other: ABSENT}
    assert cells(table, "How much is decided?")[one] == "careful: 3 of 4 domains"
    beside = comparison_table([record_of(metrics={"outlook": outlook_of()}), fit])
    told = cells(beside, "expected nats per token on law")
    assert told == {"run": "2.000 (1.750 to 2.250)", other: ABSENT}
    assert not any("domain" in row[0] for row in beside.rows)
    assert "How much is decided?" not in [row[0] for row in beside.rows if row[1] != ABSENT]


def test_targets_come_first_then_the_domains_that_change_most() -> None:
    content = outlook_of()
    content["differences"]["uniform"] = {
        **content["differences"]["uniform"],
        "domain prose": {"loss": 0.7, "low": 0.4, "high": 1.0, "better": 0.01},
    }
    table = outlook_table(TypeAdapter(Outlook).validate_python(content))
    names = [row[0] for row in table.rows]
    assert names[:4] == ["law", "web", "all targets", "domain prose"]
    assert set(names[4:]) == {"domain code", "domain law", "domain web"}
    header = ["nats per token on", "this mixture", "than uniform", "than natural"]
    assert table.header == header
    assert tuple(table.rows[0][1:]) == (
        "2.000 (1.750 to 2.250)",
        "-0.200 (-0.500 to +0.100)",
        "-0.100 (-0.400 to +0.200)",
    )
    assert table.rows[3][2] == "+0.700 (+0.400 to +1.000)"
    assert outlook_table(planted(), JUDGED).header[1] == JUDGED


def test_compute_saved_is_a_table_where_there_are_several_targets() -> None:
    table = saved_table(planted())
    assert table.header == ("target", "uniform", "natural")
    assert [row[0] for row in table.rows] == ["law", "web", "all targets"]
    assert table.rows[0][1:] == ("1.20 (0.90 to more than 4)", "0.80 (0.90 to more than 4)")
    assert not saved_table(planted(targets=("law",))).rows, "a verdict says it"
    assert not saved_table(Outlook()).rows


def test_groups_have_the_interval_of_their_sum() -> None:
    groups = [{"domains": ["code", "law"], "low": 0.7, "high": 0.8}]
    table = groups_table(record_of(metrics={"sums": {"groups": groups}}))
    assert table.header == ("domains", "together", "94 % interval")
    assert table.rows == [("code + law", "0.7353", "0.700 to 0.800")]
    assert not groups_table(record_of()).rows


def test_a_guard_is_called_so() -> None:
    outlook = planted(importance={"law": 1.0, "web": 0.0})
    assert [row[0] for row in outlook_table(outlook).rows][:2] == ["law", "web (guard)"]
    assert [row[0] for row in saved_table(outlook).rows][:2] == ["law", "web (guard)"]
    record = record_of(metrics={"targets": {"law": {"importance": 1.0}, "web": {}}})
    assert [row[1] for row in targets_table(record).rows] == ["100 %", "guard"]


def test_bounds_have_their_price() -> None:
    costs = {"loss": 0.0123, "low": -0.001, "high": 0.0254}
    law = {"domain": "law", "side": "at least", "weight": 0.05, "of_more": 0.0031}
    rows = bounds_table(planted(bounds=[law | {"costs": costs}, {"domain": "", "costs": costs}]))
    assert rows.rows == [
        ("law at least 0.05", "+0.012 (-0.001 to +0.025)", "costs 0.0031"),
        ("all bounds", "+0.012 (-0.001 to +0.025)", "\N{EN DASH}"),
    ]
    columns = price_columns(planted(worth_of_text={"law": 0.0123}), [*NAMES, None])
    assert columns == {
        "within 0.01 nats": ["0.100 to 0.300"] * 4 + [""],
        "10 % more text brings": ["", "0.0123", "", "", ""],
    }
    columns = price_columns(planted(units={"own": "bits per byte"}), NAMES)
    assert set(columns) == {"within 0.01"}, "no nats where losses are bits per byte"
