"""Several runs beside each other, as the rows of one table."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from report_runs import NAMES, write_fit, write_search, write_seeds

from bydore_pyro.report.comparison import (
    Cell,
    Row,
    agreement_table,
    cautions,
    comparison_table,
)
from bydore_pyro.report.drawing import domain_looks
from bydore_pyro.report.run_record import RunRecord, read_run
from bydore_pyro.report.words import ABSENT


@pytest.fixture
def records(tmp_path: Path) -> list[RunRecord]:
    return [
        read_run(write_search(tmp_path / "a", verified=True)),
        read_run(write_fit(tmp_path / "b")),
    ]


def told(rows: list[Row]) -> dict[str, list[str]]:
    return {row.label: [cell.text for cell in row.cells] for row in rows}


def test_runs_beside_each_other(records: list[RunRecord]) -> None:
    looks = domain_looks([*NAMES, "more"])
    table = comparison_table(records, looks)
    facts = told(table["The run"])
    assert facts["method"] == ["search", "regmix"]
    trained = "loss of a fresh model on learned, nats per token"
    assert facts[trained] == ["3.2500", ABSENT]
    # 0.5 * (2 * 0.360 + 2 * 0.110)
    assert facts["total variation from a"] == [ABSENT, "0.471"]
    assert (facts["FLOPs"][1], facts["time"][1]) == ("6.00e+09", "9.0 s")
    weights = {row.label: row.cells for row in table["Weights"]}
    code, other = weights["code"]
    assert (code.text, code.more, other.text, other.more) == (
        "0.460",
        "0.306 to 0.689",
        "0.099",
        "",
    )
    assert code.drawn == pytest.approx((1 / 1.5**2, 1 / 1.5, 1.0)), "its end is the largest"
    assert other.drawn is not None
    assert other.drawn[0] == other.drawn[1] == other.drawn[2]
    assert weights["more"] == [Cell(), Cell()]
    # 0.460 + 0.099, 0.276 + 0.165, and the same the other way round
    assert list(weights) == ["code", "web", "law", "prose", "more"]
    assert table["Weights"][0].look == looks[next(iter(weights))]
    verdicts = {row.label: row.cells for row in table["Is it to be believed?"]}
    assert verdicts["Does it jitter?"] == [Cell(text="", more="Hardly", level="good"), Cell()]
    assert table["Options that differ"] == []
    assert not any(row.cells for rows in comparison_table([], looks).values() for row in rows)


def test_what_does_not_compare_is_told(records: list[RunRecord]) -> None:
    assert cautions(records) == []
    first, other = records
    assert first.mixture is not None
    renamed = dataclasses.replace(
        first.mixture, names=(*NAMES[:3], "x"), tokenizer="u", data_sha256="e"
    )
    config = {"run": {"validation": ["web"]}}
    changed = dataclasses.replace(
        other, mixture=renamed, config=config, metrics={"stopped": "interrupted"}
    )
    told = " ".join(cautions([first, changed]))
    for word in ("different domains", "different tokenizers", "different text", "validation text"):
        assert word in told
    assert "stopped before their end: b" in told


def test_options_that_differ(records: list[RunRecord]) -> None:
    changed = dict(records[1].config)
    changed["run"] = {**changed["run"], "seed": 9, "target_tokens": 1.5e9, "data": "other"}
    other = dataclasses.replace(records[1], config=changed)
    table = comparison_table([records[0], other], domain_looks(NAMES))
    assert told(table["Options that differ"]) == {
        "data": ["text", "other"],
        "target_tokens": ["not given", "1.5e+09"],
    }


def test_agreement_of_seeds(tmp_path: Path) -> None:
    record = read_run(write_seeds(tmp_path / "seeds"))
    table = agreement_table(record)
    assert table.rows[0] == ("code", "0.460", "0.0200", "0.0050", "1.00", "")
    assert table.rows[1][-1] == "overconfident"
    assert len(table.header) == len(table.rows[0])
