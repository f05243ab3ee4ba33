"""The sections of a report on several runs, in words and tables."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from report_runs import NAMES, write_fit, write_search, write_seeds

from bydore_pyro.report.comparison import (
    agreement_rows,
    cautions,
    costs_by_part,
    differing_options,
    distances,
    overview,
    verdict_table,
    weight_table,
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


def test_overview(records: list[RunRecord]) -> None:
    search, fit = overview(records)
    assert (search["method"], search["loss"], search["decided"]) == ("search", "3.2500", "3 of 4")
    assert (fit["method"], fit["loss"], fit["decided"]) == ("regmix", ABSENT, ABSENT)
    assert (fit["flops"], fit["seconds"]) == ("6.00e+09", "9.0 s")


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


def test_weights_beside_each_other(records: list[RunRecord]) -> None:
    looks = domain_looks([*NAMES, "more"])
    rows = {look.name: cells for look, cells in weight_table(records, looks)}
    assert rows["code"] == [("0.460", "0.306 to 0.689"), ("0.099", "")]
    assert rows["more"] == [(ABSENT, ""), (ABSENT, "")]
    # 0.5 * (2 * 0.360 + 2 * 0.110)
    assert distances(records) == [("a", "b", "0.471")]


def test_verdicts_and_costs_beside_each_other(records: list[RunRecord]) -> None:
    table = dict(verdict_table(records))
    assert table["Does it jitter?"] == [("good", "Hardly"), ("", ABSENT)]
    costs = costs_by_part(records)
    assert costs[1] == {"training the proxy": 6e9}
    assert costs_by_part([RunRecord(path=Path(), label="")]) == [{}]


def test_options_that_differ(records: list[RunRecord]) -> None:
    assert differing_options(records) == []
    changed = dict(records[1].config)
    changed["run"] = {**changed["run"], "seed": 9, "target_tokens": 1.5e9, "data": "other"}
    other = dataclasses.replace(records[1], config=changed)
    assert differing_options([records[0], other]) == [
        ("data", ["text", "other"]),
        ("target_tokens", ["not given", "1.5e+09"]),
    ]


def test_agreement_of_seeds(tmp_path: Path) -> None:
    record = read_run(write_seeds(tmp_path / "seeds"))
    rows = agreement_rows(record, domain_looks(NAMES))
    assert [(look.name, over) for look, _, over in rows][:2] == [("code", False), ("law", True)]
    assert rows[0][1] == ["0.460", "0.0200", "0.0050", "1.000"]
    damaged = dataclasses.replace(record, agreement={"law": {"mean": "x"}})
    assert agreement_rows(damaged, domain_looks(NAMES))[0][1] == [ABSENT] * 4
