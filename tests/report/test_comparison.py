"""Several runs beside each other, as the rows of one table."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from report_runs import NAMES, write_fit, write_search, write_seeds

from bydore_pyro.report.comparison import (
    Cell,
    agreement_table,
    cautions,
    comparison_page,
    comparison_table,
)
from bydore_pyro.report.run_files import Metrics, read_as
from bydore_pyro.report.run_record import RunRecord, read_run
from bydore_pyro.report.words import ABSENT


@pytest.fixture
def records(tmp_path: Path) -> list[RunRecord]:
    return [
        read_run(write_search(tmp_path / "a", verified=True)),
        read_run(write_fit(tmp_path / "b")),
    ]


def told(rows: dict[str, list[Cell]]) -> dict[str, list[str]]:
    return {label: [cell.text for cell in cells] for label, cells in rows.items()}


def test_runs_beside_each_other(records: list[RunRecord]) -> None:
    table = comparison_table(records, [*NAMES, "more"])
    facts = told(table["The run"])
    assert facts["method"] == ["search", "regmix"]
    trained = "loss of a fresh model on learned, nats per token"
    assert facts[trained] == ["3.2500", ABSENT]
    # 0.5 * (2 * 0.360 + 2 * 0.110)
    assert facts["total variation from a"] == [ABSENT, "0.471"]
    assert (facts["FLOPs"][1], facts["time"][1]) == ("6.00e+09", "9.0 s")
    weights = table["Weights"]
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
    verdicts = table["Is it to be believed?"]
    assert verdicts["Does it jitter?"] == [Cell(text="", more="Hardly", level="good"), Cell()]
    assert "Options that differ" not in table


def test_what_does_not_compare_is_told(records: list[RunRecord]) -> None:
    assert cautions(records) == []
    first, other = records
    assert first.mixture is not None
    renamed = dataclasses.replace(
        first.mixture, names=(*NAMES[:3], "x"), tokenizer="u", data_sha256="e"
    )
    config = {"run": {"validation": ["web"]}}
    changed = dataclasses.replace(
        other, mixture=renamed, config=config, metrics=read_as(Metrics, {"stopped": "interrupted"})
    )
    told = " ".join(cautions([first, changed]))
    for word in ("different domains", "different tokenizers", "different text", "validation text"):
        assert word in told
    assert "stopped before their end: b" in told


def test_options_that_differ(records: list[RunRecord]) -> None:
    changed = dict(records[1].config)
    changed["run"] = {**changed["run"], "seed": 9, "target_tokens": 1.5e9, "data": "other"}
    other = dataclasses.replace(records[1], config=changed)
    table = comparison_table([records[0], other], NAMES)
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


def test_a_page_on_runs_of_several_kinds(records: list[RunRecord], tmp_path: Path) -> None:
    page = comparison_page([*records, read_run(write_seeds(tmp_path / "seeds"))])
    assert page["title"] == "4 runs compared"
    assert page["runs"] == ["a", "b", "seed 0", "seed 1"]
    assert not page["verdicts"]
    assert {len(cells) for rows in page["sections"].values() for cells in rows.values()} == {4}


def test_seeds_alone_tell_their_agreement(tmp_path: Path) -> None:
    page = comparison_page([read_run(write_seeds(tmp_path / "many", 3))])
    assert page["title"] == "many: 3 seeds"
    assert page["verdicts"][0].question == "Would another seed find the same?"
    assert len(page["agreement"].rows) == len(NAMES)
    gone = comparison_page([read_run(write_seeds(tmp_path / "none", 0))])
    assert gone["runs"] == gone["commands"] == []
    assert len(gone["sections"]["Weights"]) == 4
