"""The sections of a run's report, in words and tables."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from pathlib import Path

import pytest
from report_runs import (
    NAMES,
    lengths_of,
    mixture_with_intervals,
    record_of,
    write_fit,
    write_json,
    write_matching,
    write_search,
)

from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.report.run_files import Cost, Manifest, read_as
from bydore_pyro.report.run_record import RunRecord, read_run
from bydore_pyro.report.run_sections import (
    DomainRow,
    asked,
    commands,
    cost_table,
    cost_told,
    domain_rows,
    length_table,
    loss_table,
    manifest_table,
    short_version,
    source_of,
    weights_table,
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
    on_runs = dict(asked(dataclasses.replace(record, config=config)))
    assert on_runs == {
        "Method": "regmix",
        "Fitted on the finished runs in": "tables",
        "Loss to lower": "web",
    }
    # The default of --validation, and none for other text.
    for data, told in (("environment", "docstrings"), ("text", None)):
        default = asked(record_of(config={"run": {"data": data, "validation": []}}))
        assert dict(default).get("Target") == told


def test_the_short_version(record: RunRecord) -> None:
    assert record.mixture is not None
    noted = dataclasses.replace(record.mixture, notes=("Few runs.",))
    assert short_version(dataclasses.replace(record, mixture=noted)) == [
        "The largest weights are code 0.460, law 0.276, prose 0.165, of 4 domains.",
        "Few runs.",
    ]


def test_a_row_a_domain(record: RunRecord) -> None:
    rows: list[DomainRow] = domain_rows(record)
    assert [row.name for row in rows] == list(NAMES)
    assert rows[0].cells == {
        "weight": "0.4596", "94 % interval": "0.306 to 0.689", "sd": "0.115", "above 1/4": "98 %",
        "below 0.01": "0 %", "epochs": "0.50", "verdict": "more than an equal share",
    }  # fmt: skip
    assert rows[0].told.startswith("weight 0.4596, 94 % interval 0.306 to 0.689, ")
    assert rows[0].told.endswith("epochs 0.50, more than an equal share")
    assert [row.decided for row in rows] == ["above", "undecided", "below", "below"]
    table = weights_table(record)
    assert table.header == ("domain", *rows[0].cells)
    assert table.rows[1][-1] == "undecided"
    bare = Mixture(names=NAMES, weights=(0.25,) * 4)
    bare_rows = domain_rows(record_of(bare, metrics={}))
    assert all(row.cells == {"weight": "0.2500"} for row in bare_rows)
    often = record_of(metrics={"run_epochs": {"law": 5.0}})
    assert [row.often for row in domain_rows(often)] == [False, True, False, False]
    capped = mixture_with_intervals().capped(dict.fromkeys(NAMES, 0.4))
    told = domain_rows(dataclasses.replace(record, mixture=capped))
    assert (told[0].cells["weight"], told[0].cells["uncapped"]) == ("0.4000", "0.4596")


def test_intervals_of_a_regression_are_held_against_its_prior(record: RunRecord) -> None:
    prior = dataclasses.replace(mixture_with_intervals(), prior=(0.1, 0.1, 0.4, 0.4))
    rows = domain_rows(dataclasses.replace(record, mixture=prior))
    assert rows[0].cells["verdict"] == "more than its share of the prior"


def test_losses_and_costs(record: RunRecord) -> None:
    assert loss_table(record).rows == [
        ("learned", "3.2500", "-0.2500"),
        ("only code", "3.4000", "-0.1000"),
        ("uniform", "3.5000", ABSENT),
    ]
    rows = cost_table(record.metrics.search, "Finding the weights").rows
    assert [row[0] for row in rows] == [
        "g: how much each domain helps", "training the proxy", "updating the posterior", "in all",
    ]  # fmt: skip
    assert rows[1][1:] == ("15,360", "1.00e+09", "33 %", "4.0 s", "67 %")
    assert rows[-1][3] == "100 %"
    assert cost_table(record.metrics.verification, "").rows[0][0] == "training fresh models"
    assert cost_told(record) == (
        "Found by search: 60 steps, 40,000 tokens, 3.00e+09 FLOPs, 3.0 plain trainings of the "
        "proxy, 6.0 s, on cpu, 1 thread, peak memory 0.6 GB."
    )
    assert cost_told(record_of(metrics={})) == "Found by search: at no cost."
    assert not cost_table(read_as(Cost, {"flops": 0}), "").rows


def test_the_data(record: RunRecord) -> None:
    told = dict(source_of(record))
    assert (told["Origin"], told["Files or sources"]) == ("text", "2")
    assert told["SHA-256 of the tokens"] == "d" * 64
    rows = manifest_table(record).rows
    assert len(rows) == len(NAMES)
    assert rows[0] == ("code", "47", "2 M", "9 M", "47", "2 M", "9 M", "2", ABSENT, ABSENT)
    fit = dict(source_of(record_of()))
    assert fit["SHA-256 of the tokenizer"] == "t" * 64


def test_commands_name_the_run_and_are_quoted(record: RunRecord, tmp_path: Path) -> None:
    lines = dict(commands(record))
    gpu = dataclasses.replace(record, metrics=dataclasses.replace(record.metrics, device="cuda:0"))
    training = dict(commands(gpu))["A target model trained on exactly these weights"]
    assert re.search(r"--tokens [.\d]+[KMB]? --model models/target-60m", training)
    shown = dataclasses.replace(record.metrics, device="cpu", steps=100, run_epochs={"a": 0.01})
    asked = {"run": {"sequence_length": 128, "proxy": "p"}, "search": {"batch_sequences": 32}}
    small = dict(commands(dataclasses.replace(record, metrics=shown, config=asked)))
    own = "--tokens 409K --device cpu --model p --sequence_length 128 --target_batch_sequences 32"
    assert own in small["A target model trained on exactly these weights"]
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


def test_lengths_of_runs(tmp_path: Path) -> None:
    folder = write_matching(tmp_path / "run")
    content = json.loads((folder / "metrics.json").read_text())
    write_json(folder / "metrics.json", {**content, "lengths": lengths_of()})
    record = read_run(folder)
    table = length_table(record)
    assert table.header == ("tokens of the run", "1 B", "10 B")
    assert table.rows[0] == ("code", "0.099 (0.5 x)", "0.460 (8.0 x)")
    assert table.rows[-1] == ("unexplained", "25 %", "25 %")
    assert any("--target_tokens 10000000000" in line for _, line in commands(record))
    assert not length_table(record_of(metrics={"lengths": lengths_of()[:1]})).rows


def test_nothing_known_is_nothing_told(empty: RunRecord) -> None:
    assert asked(empty) == short_version(empty) == []
    assert domain_rows(empty) == source_of(empty) == commands(empty) == []
    assert not loss_table(empty).rows
    assert not manifest_table(empty).rows
    bare = dataclasses.replace(empty, manifest=read_as(Manifest, {"domains": {"a": {}}}))
    assert manifest_table(bare).rows == [("a", *[ABSENT] * 9)]
