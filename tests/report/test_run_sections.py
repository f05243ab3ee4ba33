"""The sections of a run's report, in words and tables."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path

import pytest
from report_runs import NAMES, mixture_with_intervals, write_fit, write_search

from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.report.drawing import domain_looks
from bydore_pyro.report.run_record import RunRecord, read_run
from bydore_pyro.report.run_sections import (
    asked,
    commands,
    cost_parts,
    domain_rows,
    every_option,
    loss_rows,
    manifest_rows,
    other_methods,
    short_version,
    source_of,
)
from bydore_pyro.report.words import ABSENT


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    return read_run(write_search(tmp_path / "a run", verified=True))


@pytest.fixture
def empty(tmp_path: Path) -> RunRecord:
    return RunRecord(path=tmp_path, label="")


def test_what_was_asked(record: RunRecord, tmp_path: Path) -> None:
    told = dict(asked(record))
    assert told["Length"] == "15,360 training tokens: 60 steps of 8 sequences of 32 tokens"
    assert (told["Target"], told["Weights for"]) == ("law", "4 domains")
    assert "Method" not in told
    fit = dict(asked(read_run(write_fit(tmp_path / "fit", "mde"))))
    assert (fit["Method"], fit["Budget"]) == ("mde", "8 plain trainings of the proxy")
    config = {"fit": {"method": "regmix", "runs": "tables", "target": "web"}, "run": {"data": "x"}}
    on_runs = dict(asked(dataclasses.replace(record, config=config, metrics={})))
    assert on_runs == {
        "Method": "regmix",
        "Fitted on the finished runs in": "tables",
        "Loss to lower": "web",
    }
    parts = dict(every_option(record))
    assert ("max_epochs", "not given") in parts["run"]
    assert "name" not in parts


def test_the_short_version(record: RunRecord) -> None:
    told = " ".join(short_version(record))
    assert "code 0.460, law 0.276, prose 0.165, of 4 domains" in told
    assert "above an equal share: code; below it: 2 domains; undecided: 1" in told
    assert "3.250 nats per token, 0.250 below one on uniform weights" in told
    worse = {"validation_loss_nats_per_token": {"learned": 4.0, "uniform": 3.5}}
    bare = Mixture(names=NAMES, weights=(0.25,) * 4)
    told = " ".join(short_version(dataclasses.replace(record, mixture=bare, metrics=worse)))
    assert "0.500 above one on uniform weights" in told
    assert "There are no intervals" in told


def test_a_row_a_domain(record: RunRecord) -> None:
    rows = domain_rows(record, domain_looks(NAMES))
    assert [row["look"].name for row in rows] == list(NAMES)
    first = rows[0]
    assert (first["weight"], first["interval"], first["epochs"]) == (
        "0.4596", "0.306 to 0.689", "0.50",
    )  # fmt: skip
    assert first["verdict"] == "more than equal"
    assert rows[1]["verdict"] == "undecided"
    bare = dataclasses.replace(record, mixture=Mixture(names=NAMES, weights=(0.25,) * 4), draws={})
    row = domain_rows(bare, domain_looks(NAMES))[0]
    assert (row["interval"], row["deviation"], row["above"]) == ("", ABSENT, ABSENT)
    often = dataclasses.replace(record, metrics={"run_epochs": {"law": 5.0}})
    assert [row["often"] for row in domain_rows(often, domain_looks(NAMES))].index(True) == 1
    hdi = ((0.7, 0.9), (0, 0.2), (0, 0.2), (0, 0.2))
    clear = dataclasses.replace(mixture_with_intervals(), hdi=hdi)
    told = domain_rows(dataclasses.replace(record, mixture=clear), domain_looks(NAMES))
    assert told[0]["verdict"] == "more than equal, clear of the prior"


def test_losses_and_costs(record: RunRecord) -> None:
    assert loss_rows(record) == [
        ("learned", "3.2500", "-0.2500"),
        ("only code", "3.4000", "-0.1000"),
        ("uniform", "3.5000", ABSENT),
    ]
    rows = cost_parts(record, "search")
    assert [row[0] for row in rows] == [
        "g: how much each domain helps", "training the proxy", "updating the posterior", "in all",
    ]  # fmt: skip
    assert rows[1][1:] == ("15,360", "1.00e+09", "33 %", "4.0 s", "67 %")
    assert rows[-1][3] == "100 %"
    assert cost_parts(record, "verification")[0][0] == "training fresh models"


def test_other_methods_are_counted_and_said_to_be(record: RunRecord, tmp_path: Path) -> None:
    rows = {label: cost for label, cost, _ in other_methods(record)}
    assert rows == {
        "this search": pytest.approx(3.0),
        **{"MDE": 4 + 25, "AutoScale": 2 * 9, "RegMix": 512, "DoReMi": pytest.approx(7 / 3)},
    }
    told = {label: how for label, _, how in other_methods(record)}
    assert {label for label, how in told.items() if "measured" in how} == {"this search"}
    fit = other_methods(read_run(write_fit(tmp_path / "fit")))
    assert [label for label, _, _ in fit] == ["this run: regmix"]


def test_the_data(record: RunRecord) -> None:
    told = dict(source_of(record))
    assert (told["Origin"], told["Files or sources"]) == ("text", "2")
    assert told["SHA-256 of the tokens"] == "d" * 64
    rows = manifest_rows(record)
    assert len(rows) == len(NAMES)
    assert rows[0] == ("code", "47", "2 M", "9 M", "47", "2 M", "9 M", "2", ABSENT, ABSENT)
    fit = dict(source_of(dataclasses.replace(record, manifest={})))
    assert fit["SHA-256 of the tokenizer"] == "t" * 64


def test_commands_name_the_run_and_are_quoted(record: RunRecord, tmp_path: Path) -> None:
    lines = dict(commands(record))
    assert all("a run" in line for line in lines.values() if "report" in line)
    words = shlex.split(next(line for line in lines.values() if "export" in line))
    assert words[:3] == ["bydore", "export", str(record.path)]
    assert any("--seeds 5" in line for line in lines.values())
    assert record.mixture is not None
    for low, can_be_pruned in ((0.0, True), (0.9, False)):  # the last domain's interval
        hdi = (*(((0.0, 1.0),) * (len(NAMES) - 1)), (low, low + 0.01))
        mixture = dataclasses.replace(record.mixture, hdi=hdi)
        lines = dict(commands(dataclasses.replace(record, mixture=mixture)))
        assert any("--prune" in line for line in lines.values()) is can_be_pruned
    fit = write_fit(tmp_path / "fit", "bydore")
    (fit / "search").mkdir()
    assert any(line.endswith("/fit/search") for _, line in commands(read_run(fit)))


def test_nothing_known_is_nothing_told(empty: RunRecord) -> None:
    assert asked(empty) == every_option(empty) == short_version(empty) == []
    assert domain_rows(empty, {}) == loss_rows(empty) == other_methods(empty) == []
    assert cost_parts(empty, "search") == source_of(empty) == manifest_rows(empty) == []
    assert commands(empty) == []
    odd = dataclasses.replace(empty, metrics={"search": 3}, manifest={"domains": {"a": 1}})
    assert cost_parts(odd, "search") == []
    assert manifest_rows(odd) == [("a", *[ABSENT] * 9)]
