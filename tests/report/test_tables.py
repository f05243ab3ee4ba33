"""A run's tables and its cost."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from report_runs import (
    NAMES,
    matching_of,
    metrics_of,
    mixture_with_intervals,
    outlook_of,
    record_of,
    write_fit,
    write_search,
)

from bydore_pyro.files import plain
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.report.outlook import WITHIN
from bydore_pyro.report.run import RunRecord, read_run
from bydore_pyro.report.tables import (
    cautions,
    comparison_table,
    cost_sentence,
    cost_table,
    intervals_words,
    loss_table,
    round_table,
    targets_table,
    weights_table,
)
from bydore_pyro.report.words import ABSENT
from bydore_pyro.setup.record import Spent, TargetRecord
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
        "weight": "0.4596", "94 % interval": "0.306 to 0.689", "epochs": "0.50",
    }  # fmt: skip
    told = cells(weights_table(record_of(metrics={"outlook": outlook_of()})), "code")
    assert told["within 0.01 nats"] == "0.100 to 0.300"
    bare = Mixture(names=NAMES, weights=(0.25,) * 4)
    assert cells(weights_table(record_of(bare, metrics={})), "law") == {"weight": "0.2500"}
    capped = mixture_with_intervals().capped(dict.fromkeys(NAMES, 0.4))
    told = cells(weights_table(record_of(capped)), "code")
    assert (told["weight"], told["uncapped"]) == ("0.4000", "0.4596")
    prior = dataclasses.replace(mixture_with_intervals(), prior=(0.1, 0.1, 0.4, 0.4))
    told = cells(weights_table(record_of(prior)), "code")
    assert told["than the prior"] == "more"


def test_many_domains_are_a_tree_and_the_whole_table_is_folded() -> None:
    names = [f"{a}/{b}" for a in "xyz" for b in range(20)]
    mixture = mixture_with_intervals(names)
    mixture = dataclasses.replace(mixture, branches={"x": (0.5, 1.0)}, rest=(0.0, 0.25))
    record = record_of(mixture)
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
    assert not cost_table(Spent(flops=0.0)).rows
    told = "Found by search: 6.0 s, 3.00e+09 FLOPs, on cpu, 1 thread, peak memory 0.6 GB."
    assert cost_sentence(record) == told
    assert cost_sentence(record_of(metrics={})) == "Found by search: at no cost."


def test_each_interval_of_a_weight_is_explained() -> None:
    plain_mixture = dataclasses.replace(mixture_with_intervals(), hdi=None)
    assert intervals_words(record_of(plain_mixture)) is None, "there is none"
    assert intervals_words(record_of()) is None, "the interval of another method"
    alone = intervals_words(record_of(config={"run": {"evidence": "matching"}})) or ""
    assert alone.startswith("The 94 % interval is where the best weight probably lies ")
    assert WITHIN not in alone
    uncovered = record_of(plain_mixture, metrics=metrics_of(outlook=outlook_of(decided="trials")))
    assert WITHIN in weights_table(uncovered).header
    assert (intervals_words(uncovered) or "").startswith(f'"{WITHIN}" is how far this weight may')
    for decided, word in (("law", "law of losses"), ("trials", "trial runs"), ("match", "gradien")):
        outlook = outlook_of(decided=decided)
        record = record_of(metrics=metrics_of(outlook=outlook))
        assert {"94 % interval", WITHIN} < set(weights_table(record).header)
        words = intervals_words(record)
        assert words is not None
        assert word in words
        assert words.startswith("The 94 % interval is where the best weight probably lies ")
        assert f'"{WITHIN}" is how far this weight may move' in words
    capped = mixture_with_intervals().capped(dict.fromkeys(NAMES, 0.4))
    assert "best weight without caps" in (
        intervals_words(record_of(capped, metrics=metrics_of(outlook=outlook_of()))) or ""
    )


def test_several_targets_are_told_apart() -> None:
    share = dict(zip(NAMES, (0.5, 0.3, 0.15, 0.05), strict=True))
    one = plain(TargetRecord(importance=0.5, composition=share, unexplained=0.2))
    table = targets_table(record_of(metrics={"targets": {"x": one, "y": one}}))
    assert cells(table, "y") == {
        "importance": "50 %", "unexplained": "20 %",
        "made most of": "code 50 %, law 30 %, prose 15 %",
    }  # fmt: skip
    alone = targets_table(record_of(metrics={"targets": {"x": one}}))
    assert cells(alone, "x")["made most of"] == "code 50 %, law 30 %, prose 15 %"
    assert alone.caption == "What the target is made of"
    assert not targets_table(record_of()).rows


def test_rounds() -> None:
    record = record_of(metrics=metrics_of(matching=matching_of()))
    assert cells(round_table(record), "2") == {
        "after step": "20", "sequences": "1,002", "validation loss": "4.000",
        "unexplained": "4.0 %", "scale": "1.06",
    }  # fmt: skip


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


def test_what_does_not_compare_is_told(record: RunRecord) -> None:
    assert cautions([record, record]) == []
    mixture = dataclasses.replace(
        mixture_with_intervals(("a", "b")), tokenizer="x" * 64, data_sha256="y" * 64
    )
    config = {"question": {"validation": ["web"]}}
    other = dataclasses.replace(record, path=Path("b"), mixture=mixture, config=config)
    assert len(cautions([record, other])) == 4
