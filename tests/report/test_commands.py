"""The commands to go on with: quoted, whole, and for text that there is."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Any

import pytest
from report_runs import NAMES, write_search

from bydore_pyro.ask import GIVEN
from bydore_pyro.report.commands import commands
from bydore_pyro.report.run import RunRecord, read_run


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    return read_run(write_search(tmp_path / "a run", verified=True))


def text_of(tokens: int, **more: Any) -> dict[str, Any]:
    """The index of text of which each domain has so many tokens."""
    return {"domains": {name: {"train": {"tokens": tokens, **more}} for name in NAMES}}


def line(record: RunRecord, command: str, **changed: Any) -> list[str]:
    """The words of the line of a command, of a record with other fields."""
    words = [shlex.split(line) for _, line in commands(dataclasses.replace(record, **changed))]
    (found,) = (one for one in words if one[1] == command)
    return found


def test_lines_are_quoted_and_whole(record: RunRecord) -> None:
    words = [shlex.split(line) for _, line in commands(record)]
    assert [line[1] for line in words] == ["export", "prepare", "train", "evaluate", "search"]
    assert words[0][:3] == ["bydore", "export", str(record.path)]
    assert words[1][2:] == ["--data", "text", "--tokenizer", str(record.path), "--out", "STORE"]
    train = ["--mixture", str(record.path), "--data", "STORE", "--model", "models/target-60m"]
    assert words[2][2:] == [*train, "--tokens", "1B", "--device", "auto", "--out", "DIR"]
    assert words[3] == ["bydore", "evaluate", "DIR/model", "--tasks", "pile13", "--hub"]
    given = ["--config", f"{record.path}/config.json", "--seed", "1", "--out", "SEED-1"]
    assert words[4][2:] == given


def test_a_model_is_scored_on_the_targets_of_the_run(record: RunRecord) -> None:
    named = ["/a b/quiz.jsonl=0.5", "/a/arc.jsonl,name=easy,score=choice", "task:piqa,shots=2=0.3"]
    asked = {
        "validation": [*named, "docstrings", "/a/plain.txt"],
        **{"prompt_column": "q", "answer_column": "a", "data_dir": "/t s", "hub": False},
    }
    found = line(record, "evaluate", config={"question": asked, "rows": {"text_column": "text"}})
    quiz = "/a b/quiz.jsonl,prompt_column=q,answer_column=a"
    arc = "/a/arc.jsonl,name=easy,prompt_column=q,answer_column=a"
    tasks = [quiz, arc, "task:piqa,shots=2"]
    told = ["--data_dir", "/t s", "--run", str(record.path)]
    assert found[2:] == ["DIR/model", "--tasks", *tasks, *told]
    found = line(record, "evaluate", config={"question": {"validation": ["docstrings"]}})
    assert found[3:] == ["--tasks", "pile13", "--hub"]


def test_how_shards_and_text_are_read_is_said_again(record: RunRecord) -> None:
    config = {"run": {"data": "dolma:x"}, "corpus": {"validation_fraction": 0.2}}
    config["tokenizer"] = {"tokenizer": "t", "separator": 0, "token_bytes": None}
    told = " ".join(line(record, "train", config=config))
    of_shards = "--data dolma:x --tokenizer t --separator 0 --validation_fraction 0.2 --model"
    assert of_shards in told
    config = {
        "run": {"data": "my text"},
        "corpus": {"validation_fraction": 0.2, "data_seed": 0},
        "rows": {"text_column": "body", "on_error": "stop"},
    }
    told = line(record, "prepare", config=config)
    assert told[2:8] == [
        "--data",
        "my text",
        "--text_column",
        "body",
        "--validation_fraction",
        "0.2",
    ]


def test_a_training_is_no_longer_than_its_text_allows(record: RunRecord) -> None:
    """The largest weight is .46: of 10M tokens each, four readings are 87M tokens of training."""

    def told(tokens: int, **run: Any) -> str:
        asked = {"target_tokens": run.pop("target_tokens", None)}
        config = {"run": run, "question": asked, "search": {"batch_sequences": 8}}
        return " ".join(line(record, "train", config=config, index=text_of(tokens))[9:-4])

    assert told(10_000_000_000) == "1B"
    assert told(100_000_000) == "780000000"  # .9 of 870M
    few = "1600000 --sequence_length 32 --target_batch_sequences 8"
    assert told(200_000, sequence_length=32) == few
    one = "20000 --sequence_length 128 --target_batch_sequences 1"
    assert told(2_600, sequence_length=128) == one
    # What is asked for is not changed: the text is read as often as that needs.
    assert told(1_000_000_000, target_tokens=2e9) == "2000000000"
    often = told(100_000_000, target_tokens=2e9).split()
    assert often[:2] == ["2000000000", "--max_epochs"]
    assert 9.19 <= float(often[2]) < 9.25
    lines = commands(dataclasses.replace(record, index=text_of(20)))
    assert not any(line.startswith("bydore train") for _, line in lines), "no domain has a sequence"


def test_of_a_sample_all_of_the_text_is_prepared_first(record: RunRecord, store: Path) -> None:
    config = {"run": {"data": str(store)}}
    assert line(record, "train", config=config, index=text_of(10**10))[5] == str(store)
    sampled = text_of(10**6, in_all={"tokens": 10**10, "standard_error": None})
    sampled |= {"origin": "environment", "rows": {"text_column": "text", "domain_column": None}}
    told = line(record, "prepare", config=config, index=sampled)
    assert told[2:] == ["--data", "environment", "--tokenizer", str(record.path), "--out", "STORE"]
    assert line(record, "train", config=config, index=sampled)[5:10] == [
        "STORE",
        "--model",
        "models/target-60m",
        "--tokens",
        "1B",
    ]


def test_the_corpus_that_is_stated_lies_elsewhere(record: RunRecord, store: Path) -> None:
    """The search has read 1,000 tokens of each domain; there are 10M."""
    index = {**text_of(1000), "domain_tokens": dict.fromkeys(NAMES, 10**7)}
    given = {"config": {"run": {"data": str(store)}}, "index": index}
    words = ["--data", "DATA", "--tokenizer", str(record.path), "--out", "STORE"]
    assert line(record, "prepare", **given)[2:] == words
    train = line(record, "train", **given)
    assert train[5:9] == ["STORE", "--model", "models/target-60m", "--tokens"]
    assert train[9] == "78000000", ".9 of four readings"


def test_lines_are_for_what_was_asked_about(record: RunRecord) -> None:
    (record.path / GIVEN).write_text("{}")
    given = str(record.path / GIVEN)
    assert line(record, "export")[2] == given
    assert line(record, "train")[3] == given
    added = ["/a b/one", "/two"]
    words = line(record, "train", config={"ask": {"add": added}, "run": {"data": "text"}})
    assert words[words.index("--add") + 1 :][:2] == added
