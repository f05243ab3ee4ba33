"""`bydore`: commands by name, help, and mistakes in one line."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from importlib.metadata import version
from typing import get_type_hints

import pytest

from bydore_pyro.cli.main import COMMANDS, command, main, missing_packages
from bydore_pyro.setup.options import Options


@pytest.mark.parametrize("name", COMMANDS)
def test_ten_options_come_first(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` lists ten options at most, `--help-all` after them all others, each once."""

    def listed(asked: str) -> list[str]:
        with pytest.raises(SystemExit) as exit_:
            main([name, asked])
        assert exit_.value.code == 0
        return re.findall(r"^  --(?!config|help)(\w+)", capsys.readouterr().out, re.M)

    module = import_module(f"bydore_pyro.cli.{name}")
    parts = get_type_hints(getattr(module, f"{name.capitalize()}Options", Options)).values()
    known = {
        "no_" * (each.default is True) + each.name
        for part in parts
        for each in fields(part)
        if "positional" not in each.metadata
    }
    common = module.COMMON
    assert len(common) <= 10
    assert listed("--help") == [*common]
    assert listed("--help-all")[: len(common)] == [*common]
    assert sorted(listed("--help-all")) == sorted({*common, *known})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["foo"], f"bydore: error: Expected a command ({', '.join(COMMANDS)}), found 'foo'"),
        (["prepare"], "bydore prepare: error: the following arguments are required: --data, --out"),
        (["prepare", "--data", "", "--out", "x"], "Expected a value for --data"),
        (["prepare", "--data", "nowhere", "--out", "x"], "found no folder 'nowhere'"),
    ],
)
def test_mistakes(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1


def test_what_commands_need_is_in_an_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needed = ["torch>=2", 'unheard-of>=1; extra == "cli"', 'unknown; extra == "gpu"']
    monkeypatch.setattr("bydore_pyro.cli.main.metadata.requires", lambda name: needed)
    with pytest.raises(SystemExit) as exit_:
        main(["report", "RUN"])
    assert exit_.value.code == 2
    message = "Expected unheard-of, found none: pip install 'bydore-pyro[cli]'"
    assert capsys.readouterr().err == f"bydore report: error: {message}\n"
    assert missing_packages() == ["unheard-of"]
    with pytest.raises(SystemExit, match="0"):
        main(["report", "--help"])


HEAVY = ("torch", "pyro", "transformers", "datasets", "pandas", "scipy", "arviz", "matplotlib")
HELP = f"""
import sys
from bydore_pyro.cli.main import main

try:
    main([sys.argv[1], "--help-all"])
finally:
    print(*sys.modules.keys() & {{*{HEAVY}}}, file=sys.stderr)
"""


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_waits_for_no_heavy_package(name: str) -> None:
    done = subprocess.run([sys.executable, "-c", HELP, name], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.startswith(f"usage: bydore {name}")
    assert done.stderr == "\n"


def test_a_command_that_is_stopped_while_it_is_imported_says_so_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("bydore_pyro.cli.main.import_module", stop)
    with pytest.raises(SystemExit) as exit_:
        main(["search", "--data", "STORE"])
    assert exit_.value.code == 130
    assert capsys.readouterr().err == "bydore search: error: interrupted\n"


def test_every_command_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    shown = capsys.readouterr().out
    for name, about in COMMANDS.items():
        assert re.search(rf"^  {name} +{about}$", shown, re.M)
        first, _, _ = " ".join((command(name).__doc__ or "").split()).partition(". ")
        assert about == first.rstrip("."), "as its own help begins"


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--version"])
    assert capsys.readouterr().out == f"bydore {version('bydore-pyro')}\n"
