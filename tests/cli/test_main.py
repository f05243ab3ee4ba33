"""`bydore`: commands by name, help, and mistakes in one line."""

from __future__ import annotations

import pytest

from bydore_pyro.cli.main import COMMANDS, command, main


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    assert "prepare" in capsys.readouterr().out
    with pytest.raises(SystemExit) as exit_:
        main(["prepare", "--help"])
    assert exit_.value.code == 0
    shown = capsys.readouterr().out
    for option in ("--data", "--out", "--tokenizer", "--text_column", "--on_error", "--processes"):
        assert option in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["foo"], f"bydore: error: Expected a command ({', '.join(COMMANDS)}), found 'foo'"),
        (["prepare"], "bydore prepare: error: the following arguments are required: --data, --out"),
        (["prepare", "--data", "", "--out", "x"], "Expected a value for --data"),
        (["prepare", "--data", "d", "--out", "x", "--processes", "-1"], "processes in [0, 1024]"),
        (["prepare", "--data", "nowhere", "--out", "x"], "found no folder nowhere"),
        (["prepare", "--data", "environment", "--out", "x", "--domain_megabytes", "nan"],
         "Expected a finite domain_megabytes, actual nan"),
    ],
)  # fmt: skip
def test_mistakes(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    stderr = capsys.readouterr().err
    assert message in stderr
    assert stderr.count("\n") == 1


def test_every_command_says_what_it_does() -> None:
    assert all((command(name).__doc__ or "").strip() for name in COMMANDS)
