"""Command lines out of dataclasses: defaults, presets, and mistakes as one line."""

from __future__ import annotations

import dataclasses
import io
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bydore_pyro.cli.main import main
from bydore_pyro.utils.command_line import (
    asks_for_help,
    fail,
    one_line_errors,
    parse_options,
    require_utf8,
)
from bydore_pyro.utils.errors import DataError, NonFiniteError
from bydore_pyro.utils.options import option


@dataclass(frozen=True, kw_only=True)
class PartConfig:
    """A part."""

    steps: int = field(default=3, metadata={"help": "Steps."})
    quick: bool = field(default=False, metadata={"help": "Quick."})


@dataclass(frozen=True, kw_only=True)
class OtherConfig:
    """Another part."""

    name: str | None = field(default=None, metadata={"help": "A name."})


@dataclass(frozen=True, kw_only=True)
class BothOptions:
    """Both."""

    part: PartConfig
    other: OtherConfig


@dataclass(frozen=True, kw_only=True)
class HelpfulConfig:
    """What is helpful. Here is more."""

    rate: float = option(4.0, "A rate.")
    to_file: str = option(dataclasses.MISSING, "A file.")
    parts: list[str] = option([], "Parts. Default: none.")
    fast: bool = option(False, "Go fast.")
    careful: bool = option(True, "Take care.")


@dataclass(frozen=True, kw_only=True)
class HelpfulOptions:
    """All."""

    helpful: HelpfulConfig


def parse(*arguments: str) -> BothOptions:
    presets = {"--quick": {"steps": 1, "unknown": 2}}
    return parse_options(arguments, "test", "About.", BothOptions, {"steps": 7}, presets)


def test_what_is_given_wins_over_presets_over_defaults() -> None:
    assert parse().part.steps == 7
    assert parse("--quick").part.steps == 1
    assert parse("--quick", "--steps", "5").part.steps == 5
    assert parse("--name", "x").other.name == "x"
    assert parse("--quick=true").part.steps == parse("--quick", "yes").part.steps == 1
    assert parse("--quick", "false").part.steps == parse("--quick=no").part.steps == 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--foo"], "test: error: unrecognized arguments: --foo"),
        (["--step", "3"], "test: error: unrecognized arguments: --step 3"),
        (["--steps", "x"], "test: error: argument --steps: invalid int value: 'x'"),
        (["--steps"], "test: error: argument --steps: expected one argument"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse(*arguments)
    assert exit_.value.code == 2
    assert capsys.readouterr().err == message + "\n"


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (DataError("Expected a,\n found b"), "Expected a, found b", 2),
        (OSError(28, "No space left on device", "/x/y"), "No space left on device: /x/y", 2),
        (OSError("a worker died"), "a worker died", 2),
        (KeyboardInterrupt(), "interrupted", 130),
    ],
)
def test_errors_of_users_are_one_line(
    error: BaseException, message: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_, one_line_errors("test"):
        raise error
    assert exit_.value.code == code
    assert capsys.readouterr().err == f"test: error: {message}\n"


def test_of_several_processes_each_tells_of_its_own_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with the input all see, and one says; a loss may turn NaN in one alone."""
    monkeypatch.setenv("RANK", "1")
    for error, lines in ((NonFiniteError("the loss is nan"), 1), (DataError("no text"), 0)):
        monkeypatch.setattr(sys, "stdout", io.StringIO())
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        monkeypatch.setattr(sys, "__stderr__", told := io.StringIO())
        with pytest.raises(SystemExit, match="2"), one_line_errors("fit"):
            raise error
        sys.stdout.close()
        assert told.getvalue().count("fit: error: ") == lines


def test_our_own_mistakes_are_not_hidden() -> None:
    with pytest.raises(AttributeError), one_line_errors("test"):
        raise AttributeError("a mistake of ours")
    with pytest.raises(SystemExit):
        fail("test", "message")


def test_what_is_seldom_changed_stands_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def offered(*arguments: str) -> BothOptions:
        return parse_options(arguments, "test", "", BothOptions, common=["steps"], more=["name"])

    for asked, listed in (("--help", ["--steps"]), ("--help-all", ["--steps", "--name"])):
        with pytest.raises(SystemExit) as ended:
            offered(asked)
        assert ended.value.code == 0
        told = capsys.readouterr().out
        assert re.findall(r"^  (--(?!config|help)\w+)", told, re.M) == listed
    assert offered("--name", "x", "--steps", "3").other.name == "x"
    for given in (["--quick"], ["--quick=true"]):
        with pytest.raises(SystemExit) as ended:
            offered(*given)
        assert ended.value.code == 2
        told = capsys.readouterr().err
        assert "Expected --quick in a file given by --config" in told
    (tmp_path / "options.yaml").write_text("quick: true\n")
    assert offered("--config", str(tmp_path / "options.yaml")).part.quick


def test_help_is_asked_for_anywhere() -> None:
    for asked in ("-h", "--help", "--help-all"):
        assert asks_for_help([asked])
        assert asks_for_help(["RUN", asked, "--to"])
    assert not asks_for_help([])
    assert not asks_for_help(["help", "--helpful", "--help=all"])


def test_the_help_shows_what_a_user_gets(capsys: pytest.CaptureFixture[str]) -> None:
    def told(*arguments: str, **defaults: object) -> str:
        with pytest.raises(SystemExit):
            parse_options(arguments, "test", "About.", HelpfulOptions, defaults, common=["rate"])
        return capsys.readouterr().out

    short, full = told("--help"), told("--help-all", parts=["a", "50%"], rate=2e-5)
    assert short.startswith("usage: test --to_file TO_FILE [options]\n\nAbout.\n\noptions:\n")
    assert re.search(r"--rate N +A rate. \(default: 4\)\n", short)
    assert re.search(r"--rate N +A rate. \(default: 2e-05\)\n", full)
    assert full.endswith(
        "\nWhat is helpful:\n"
        "  --to_file TO_FILE  A file.\n"
        "  --parts PARTS ...  Parts. (default: a 50%)\n"
        "  --fast             Go fast.\n"
        "  --careful          Take care. (default: True)\n"
        "  --no_careful       Turn off --careful.\n"
    )
    assert "Parts. Default: none.\n" in told("--help-all")
    assert "Settings that" not in short + full


def test_a_file_of_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "options.yaml"
    path.write_text("steps: 11\nquick: false\nother: {name: ü}\n")
    assert parse("--config", str(path)).part.steps == 11
    assert parse("--config", str(path)).other.name == "ü"
    assert parse(f"--config={path}", "--steps", "5").part.steps == 5
    path.write_text('{"name": "test", "part": {"steps": 4, "quick": true}}')
    found = parse("--config", str(path))
    assert (found.part.steps, found.part.quick, found.other.name) == (4, True, None)
    for content, message in (
        ("speed: 3", "Expected an option, found 'speed'"),
        ("- 3", "Expected options by name in"),
        ("steps: [", "Expected a JSON or YAML file of options"),
        ("steps: 1\nsteps: 2", "found 'steps' twice"),
    ):
        path.write_text(content)
        with pytest.raises(DataError, match=message):
            parse("--config", str(path))
    path.write_text("steps: many")
    with pytest.raises(SystemExit):
        parse("--config", str(path))
    assert "invalid int value: 'many'" in capsys.readouterr().err
    with pytest.raises(DataError, match="found ''"):
        parse("--config")
    path.write_text("{}")
    with pytest.raises(DataError, match="Expected one --config"):
        parse("--config", str(path), f"--config={path}")


@dataclass(frozen=True, kw_only=True)
class ShinyConfig:
    """A part whose default is yes."""

    shiny: bool = field(default=True, metadata={"help": "Shiny."})


@dataclass(frozen=True, kw_only=True)
class ShinyOptions:
    """All."""

    own: ShinyConfig


def test_a_file_says_no_and_the_last_word_wins(tmp_path: Path) -> None:
    path = tmp_path / "options.json"
    path.write_text('{"shiny": false}')
    given = ["--config", str(path)]
    assert parse_options([], "test", "", ShinyOptions).own.shiny
    assert not parse_options(given, "test", "", ShinyOptions).own.shiny
    assert parse_options([*given, "--shiny", "true"], "test", "", ShinyOptions).own.shiny
    path.write_text('{"quick": true}')
    assert parse(*given).part.steps == 1
    undone = parse(*given, "--quick", "false").part
    assert (undone.quick, undone.steps) == (False, 7)


def test_a_preset_of_an_options_value_applies_to_that_value_alone() -> None:
    presets = {"--name=big": {"steps": 99}}
    for given, steps in (
        ([], 3),
        (["--name", "big"], 99),
        (["--name=big"], 99),
        (["--name", "small"], 3),
        (["--name", "--name=big"[2:]], 3),
        (["--name", "big", "--steps", "5"], 5),
    ):
        found = parse_options(given, "test", "", BothOptions, presets=presets)
        assert found.part.steps == steps


def test_arguments_are_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path of other bytes works here and there, and fails where JSON or a tokenizer meets it."""
    require_utf8("test", ["Zürich", "--out"])
    (tmp_path / "options.json").write_text('{"name": "\\ud800"}')
    for call in (
        lambda: require_utf8("test", [os.fsdecode(b"r\xe9.run")]),
        lambda: parse("--name", os.fsdecode(b"r\xe9.run")),
        lambda: parse("--config", str(tmp_path / "options.json")),
        lambda: main(["report", os.fsdecode(b"r\xe9.run")]),
    ):
        with pytest.raises(SystemExit, match="2"):
            call()
        told = capsys.readouterr().err
        assert "error: Expected arguments in UTF-8, found '" in told
        assert told.count("\n") == 1
