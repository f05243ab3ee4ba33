"""The options of a search: out of a run's config and back, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bydore_pyro.command_line.command_line import parse_options
from bydore_pyro.command_line.options import resumed_options
from bydore_pyro.errors import DataError
from bydore_pyro.setup.options import (
    SMOKE,
    Options,
    RunConfig,
    options_in,
    options_or_resumed,
)


def parse(*arguments: str) -> Options:
    return parse_options(arguments, "test", "About.", Options, smoke=SMOKE)


def test_options_survive_their_file(tmp_path: Path) -> None:
    options = parse(
        "--smoke", "--validation", "a=0.5", "b=0.5", "--max_epochs", "3", "--steps", "9"
    )
    (tmp_path / "config.json").write_text(json.dumps({"name": "search", **options.as_dict()}))
    assert resumed_options(tmp_path, "search", Options) == options


def test_tokens_decide_the_steps() -> None:
    options = parse("--tokens", "0.1M", "--sequence_length", "100", "--batch_sequences", "10")
    assert options.resolved().search.steps == 100
    assert options.resolved().resolved() == options.resolved()
    assert options.resolved().run_tokens == 100_000
    assert parse("--target_tokens", "5e6").run_tokens == 5e6
    with pytest.warns(UserWarning, match="repetition_constant has no effect with no target_tokens"):
        parse("--repetition_constant", "3").resolved()
    assert parse().resolved().search.steps == parse().search.steps


def test_places_are_found_from_any_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("environment", "code", "model"):
        (tmp_path / name).mkdir()
    assert RunConfig(data="environment").anywhere().data == "environment"
    for proxy, found in (("model", f"{tmp_path}/model"), *(2 * (n,) for n in ("hub", "models/x"))):
        assert RunConfig(proxy=proxy).anywhere().proxy == found
    options = parse("--validation", "a", "--checkpoint", "model").resolved()
    assert options.run.checkpoint == f"{tmp_path}/model"
    (tmp_path / "today.json").touch()
    (tmp_path / "t.jsonl").touch()
    asked = parse("--baseline", "today.json", "--validation", "code", "t.jsonl=2").resolved()
    assert asked.question.baseline == f"{tmp_path}/today.json"
    assert asked.question.validation == ["code", f"{tmp_path}/t.jsonl=2"]


def test_the_environment_has_a_target_of_its_own() -> None:
    assert parse().resolved().question.validation == ["docstrings"]
    assert parse("--data", "store").resolved().question.validation == []


@pytest.mark.parametrize("given", ["--consumed read.json", "--checkpoint model --max_epochs 2"])
def test_what_was_read_needs_a_run_of_some_length(given: str) -> None:
    with pytest.raises(ValueError, match=f"--target_tokens with {given.split()[-2]}, found none"):
        parse(*given.split())
    parse(*given.split(), "--target_tokens", "1e6")


def begun(folder: Path, name: str, **more: object) -> Options:
    """Writes the config.json of a run that has begun."""
    options = parse_options(["--seed", "7", "--out", str(folder)], name, "", Options)
    folder.mkdir()
    content = {"name": name, **options.as_dict(), **more}
    (folder / "config.json").write_text(json.dumps(content))
    return options


def test_a_command_line_is_options_or_a_run_that_goes_on(tmp_path: Path) -> None:
    given = ["--smoke", "--validation", "a", "--out", str(tmp_path / "new")]
    options, resume = options_or_resumed(given, "bydore search", "", Options)
    assert (options.search.steps, resume) == (SMOKE["steps"], None)
    fewer, _ = options_or_resumed(given, "x", "", Options, {"steps": 9, "guide_warmup": 1})
    assert fewer.search.steps == 9
    before = begun(tmp_path / "run", "search")
    named = ["--resume", str(tmp_path / "run")]
    again, resume = options_or_resumed(named, "search", "", Options)
    assert (again, resume) == (before, tmp_path / "run")


def test_the_options_in_a_folder(tmp_path: Path) -> None:
    given = parse_options(
        ["--data", "environment", "--validation", "a=.5"], "test", "", Options, smoke=SMOKE
    )
    content = {**given.as_dict(), "ask": {"add": []}}
    (tmp_path / "config.json").write_text(json.dumps(content))
    assert options_in(tmp_path) == given, "an answer's folder has further parts"
    del content["question"]
    (tmp_path / "config.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="a run of another version, without options of 'question'"):
        options_in(tmp_path)
    with pytest.raises(DataError, match="Expected a search's folder, found"):
        options_in(tmp_path / "none")
