"""`bydore repetition` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bydore_pyro.cli.repetition import repetition_command


def arguments(store: Path, out: Path, *more: str) -> list[str]:
    small = ["--readings", "1", "2", "4", "8", "--steps", "8", "--reading_domains", "2"]
    return ["--smoke", "--data", str(store), "--out", str(out), *small, *more]


def test_it_leaves_the_constant_and_what_it_cost_and_goes_on(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    repetition_command(arguments(store, out))
    shown = capsys.readouterr().out
    content = json.loads((out / "repetition.json").read_text())
    assert shown.startswith(f"R = {content['repetition_constant']:.2g} [")
    assert [*content["up_to"]] == ["4", "8"]
    assert content["up_to"]["8"]["interval"] == content["interval"]
    assert f"{content['cost']['flops']:.2e} FLOPs" in shown
    assert {len(column) for column in content["trainings"].values()} == {2 * 7 * 2}
    assert {"versions", "commit", "config", "seed", "of_domains", "misfit"} <= set(content)
    assert content["config"]["repetition"]["readings"] == [1, 2, 4, 8]
    assert (out / "repetition.png").stat().st_size > 10_000
    (out / "repetition.json").unlink()
    first, *others = sorted((out / "proxies").glob("*/tree.json"))
    stamps = {p: p.stat().st_mtime_ns for p in others}
    for file in first.parent.iterdir():
        file.unlink()
    first.parent.rmdir()
    repetition_command(["--resume", str(out)])
    after = json.loads((out / "repetition.json").read_text())
    assert after["trainings"] == content["trainings"]
    assert {p: p.stat().st_mtime_ns for p in others} == stamps


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--readings", "2", "4"], "Expected at least four readings that increase from 1"),
        (["--domains", "a", "nowhere"], "found 'nowhere'"),
        (["--steps", "4"], "Expected --steps >= 8, at least one step per reading, found 4"),
        (["--steps", "80000"], "so that 80000 steps repeat none"),
        (["--validation", "a"], "Expected --validation in a file given by --config"),
    ],
)
def test_mistakes(
    wrong: list[str], message: str, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        repetition_command(arguments(store, tmp_path / "run", *wrong))
    assert exit_.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("bydore repetition: error: ")
    assert message in last
