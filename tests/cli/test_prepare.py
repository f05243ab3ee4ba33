"""`bydore prepare` as a user runs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tiny import row, write_domains, write_lines

from bydore_pyro.cli.prepare import PrepareConfig, prepare_command
from bydore_pyro.data.store import open_store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_domains(tmp_path / "text", {"a": "abcde", "b": "vwxyz"}, files=20)
    return tmp_path / "text"


def test_prepare_builds_a_store(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: Callable[..., str]
) -> None:
    out = tmp_path / "store"
    options = ["--data", str(folder), "--out", str(out), "--vocabulary", "280"]
    prepare_command([*options, "--processes", "0"])
    store, told = open_store(out), capsys.readouterr()
    for name in ("a", "b"):
        assert f"{len(store.train[name]):,}" in told.out
    assert "Warning" not in told.err
    assert f"Next: bydore search --data {out} --validation " in told.out
    told = f"bydore prepare: error: Expected a new folder for the store, found {out}"
    assert refused("prepare", *options) == told


def test_of_one_domain_no_search_is_proposed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = write_domains(tmp_path / "text", {"a": "abcde"}, files=20)
    options = ["--vocabulary", "280", "--processes", "0", "--out", str(tmp_path / "out")]
    prepare_command(["--data", str(text), *options])
    told = capsys.readouterr().out
    assert "A search needs two domains or more." in told
    assert "Next:" not in told


def test_a_sample_is_told_with_what_it_is_of(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: Callable[..., str]
) -> None:
    write_lines(folder / "c.jsonl", [row("c", i) for i in range(3000)])
    options = ["--data", str(folder), "--processes", "0", "--vocabulary", "280", "--tokens", "0.2M"]
    prepare_command([*options, "--out", str(tmp_path / "out")])
    told = capsys.readouterr().out.splitlines()
    assert "in all, about" in told[0]
    assert "±" not in told[1] + told[2]
    size = open_store(tmp_path / "out").size("c")
    assert f"{size:,} ± " in told[3]
    for few in ("0.5", "0", "-1", "1e30", "many", "nan"):
        given = ("--data", "x", "--out", tmp_path / "more", "--tokens", few)
        assert "xpected tokens" in refused("prepare", *given)
    told = refused("prepare", *options, "--out", tmp_path / "more", "--domain_megabytes", "1")
    assert told.endswith("Expected --tokens or --domain_megabytes, found both")


def test_a_bad_row_names_its_place(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: Callable[..., str]
) -> None:
    path = write_lines(folder / "c.jsonl", [row("c", 1), {"text": 3}, row("c", 2)])
    options = ["--data", str(folder), "--out", str(tmp_path / "out"), "--processes", "0"]
    expected = f"Expected text in column 'text', found int, {path}, line 2"
    assert refused("prepare", *options) == f"bydore prepare: error: {expected}"
    prepare_command([*options, "--on_error", "skip"])
    assert capsys.readouterr().out.splitlines()[3].split()[-1] == "1"
    told = refused("prepare", "--data", "megatron:x", "--out", tmp_path / "more")
    assert "text, found token shards (megatron:x), which bydore search" in told
    with pytest.raises(ValueError, match="Expected a value for --out"):
        PrepareConfig(data="x", out="")
