"""Command lines out of dataclasses: defaults, files, the help, and mistakes as one line."""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass
from pathlib import Path

import pytest

from bydore_pyro.command_line.command_line import (
    asks_for_help,
    fail,
    one_line_errors,
    options_from,
    parse_options,
)
from bydore_pyro.command_line.options import TokenCount, option
from bydore_pyro.errors import DataError


@dataclass(frozen=True, kw_only=True)
class PartConfig:
    """A part. Here is more."""

    steps: int = option(3, "Steps.")
    smoke: bool = option(False, "Quick.")
    rate: float = option(4.0, "A rate.")
    shiny: bool = option(True, "Shine.")


@dataclass(frozen=True, kw_only=True)
class OtherConfig:
    """Another part."""

    name: str | None = option(None, "A name.")
    parts: list[str] | None = option(["all"], "Parts.")
    length: TokenCount | None = option(None, "Tokens.")


@dataclass(frozen=True, kw_only=True)
class BothOptions:
    """Both."""

    part: PartConfig
    other: OtherConfig


def parse(*arguments: str) -> BothOptions:
    smoke = {"steps": 1, "unknown": 2}
    return parse_options(arguments, "test", "About.", BothOptions, {"steps": 7}, smoke)


@pytest.mark.parametrize(
    ("arguments", "content", "steps"),
    [
        ("", None, 7),
        ("--smoke", None, 1),
        ("--smoke --steps 5", None, 5),
        ("", "part: {smoke: true}\nname: test", 1),
        ("", "{smoke: true, steps: 11}", 11),
        ("--no_smoke", "smoke: true", 7),
    ],
)
def test_arguments_win_over_a_file_over_smoke_over_defaults(
    arguments: str, content: str | None, steps: int, tmp_path: Path
) -> None:
    given = arguments.split()
    if content is not None:
        (tmp_path / "options.yaml").write_text(content)
        given += ["--config", str(tmp_path / "options.yaml")]
    assert parse(*given).part.steps == steps


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("rate: 4e-4", {"rate": 4e-4}),
        ("other: {length: 4M, name: 25B}", {"length": 4e6, "name": "25B"}),
        ("{length: null, parts: []}", {"parts": []}),
    ],
)
def test_a_file_holds_values_of_the_options_types(
    content: str, expected: dict[str, object], tmp_path: Path
) -> None:
    (tmp_path / "options").write_text(content)
    found = parse("--config", str(tmp_path / "options"))
    usual = parse()
    assert vars(found.part) | vars(found.other) == vars(usual.part) | vars(usual.other) | expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--step 3", "unrecognized arguments: --step 3"),
        ("--config two.yaml", "Expected a valid string as 'parts.1' in two.yaml, found 3"),
        ("--config odd.yaml", "Expected an option, found 'step' in odd.yaml"),
        (
            "--config twice.yaml",
            "Expected options by name in twice.yaml, found: Expected every name once, found "
            "'steps' twice",
        ),
    ],
)
def test_mistakes_are_one_line(
    arguments: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two.yaml").write_text("parts: [web, 3]")
    Path("odd.yaml").write_text("step: 3")
    Path("twice.yaml").write_text("run: {steps: 3}\nsteps: 4")
    with pytest.raises(SystemExit, match="2"), one_line_errors("test"):
        parse(*arguments.split())
    assert capsys.readouterr().err == f"test: error: {message}\n"


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (DataError("Expected a,\n found b"), "Expected a, found b", 2),
        (OSError(28, "No space left on device", "/x/y"), "No space left on device: /x/y", 2),
        (KeyboardInterrupt(), "interrupted", 130),
    ],
)
def test_errors_of_users_are_one_line_and_ours_are_not_hidden(
    error: BaseException, message: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_, one_line_errors("test"):
        raise error
    assert exit_.value.code == code
    assert capsys.readouterr().err == f"test: error: {message}\n"
    with pytest.raises(AttributeError), one_line_errors("test"):
        raise AttributeError("a mistake of ours")
    with pytest.raises(SystemExit):
        fail("test", "message")


def test_help_lists_the_common_options_first(capsys: pytest.CaptureFixture[str]) -> None:
    known = ["steps", "smoke", "rate", "no_shiny", "name", "parts", "length"]
    for asked, listed in (("--help", ["steps"]), ("--help-all", known)):
        with pytest.raises(SystemExit, match="0"):
            parse_options([asked], "test", "", BothOptions, common=["steps"])
        shown = re.findall(r"^  --(?!config|help)(\w+)", capsys.readouterr().out, re.M)
        assert shown == listed


@dataclass(frozen=True, kw_only=True)
class SubjectConfig:
    """What it is about."""

    runs: list[str] = option(MISSING, "Runs.", positional="RUN")
    out: str | None = option(None, "A place.")


@dataclass(frozen=True, kw_only=True)
class SubjectOptions:
    """A command with an argument."""

    subject: SubjectConfig


def test_an_argument_needs_no_name(capsys: pytest.CaptureFixture[str]) -> None:
    for given in ("a b --out c", "--out c a b"):
        found = parse_options(given.split(), "test", "", SubjectOptions).subject
        assert found == SubjectConfig(runs=["a", "b"], out="c")
    for given, code, shown in (
        ("--out c", 2, "test: error: the following arguments are required: RUN"),
        ("a --help", 0, "usage: test RUN [options]"),
    ):
        with pytest.raises(SystemExit) as exit_:
            parse_options(given.split(), "test", "", SubjectOptions, common=())
        assert exit_.value.code == code
        assert shown in "".join(capsys.readouterr())
    assert asks_for_help(["RUN", "--help-all"])
    assert not asks_for_help(["help", "--helpful"])


def test_values_of_python_are_options_as_arguments_are(tmp_path: Path) -> None:
    """Objects stand for NAME=VALUE, one text for a list, a path for its text."""
    found = options_from(
        {"parts": {"a": 0.25, "b": 1}, "length": "4M", "name": tmp_path, "smoke": True},
        BothOptions,
        {"rate": 2.0},
        {"steps": 1, "unknown": 2},
    )
    assert found.other == OtherConfig(parts=["a=0.25", "b=1"], length=4e6, name=str(tmp_path))
    assert (found.part.steps, found.part.rate) == (1, 2.0)
    assert options_from({"parts": tmp_path}, BothOptions).other.parts == [str(tmp_path)]
    assert options_from({"parts": ("x", tmp_path)}, BothOptions).other.parts == ["x", str(tmp_path)]
    assert options_from({"parts": None}, BothOptions).other.parts is None
    for given, message in (
        ({"step": 1}, "Expected an option of a command, found 'step'"),
        ({"length": "much"}, "Expected tokens such as"),
    ):
        with pytest.raises(ValueError, match=message):
            options_from(given, BothOptions)
