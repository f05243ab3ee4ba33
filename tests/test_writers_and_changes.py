"""Commands whose folder another writes to, and whose folder or data changes while they run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny import folder_content

from bydore_pyro.command_line.command_line import parse_options
from bydore_pyro.data.index import building_place
from bydore_pyro.files.locks import FolderLock
from bydore_pyro.setup.options import SMOKE, Options

Refused = Callable[..., str]


@pytest.fixture
def data(store: Path, tmp_path: Path) -> Path:
    """A store of this test's own."""
    return Path(shutil.copytree(store, tmp_path / "data"))


def trained(data: Path, folder: Path) -> tuple[object, ...]:
    """The arguments of a training on a store."""
    (folder / "mixture.json").write_text('{"a": 0.25, "b": 0.5, "c": 0.25}')
    given = ("train", "--smoke", "--mixture", folder / "mixture.json", "--data", data)
    return (*given, "--save_every", "1", "--out", folder / "run")


def searched(data: Path, folder: Path, *more: object) -> tuple[object, ...]:
    """The arguments of a search on a store."""
    given = ("search", "--smoke", "--data", data, "--validation", "a", *more)
    return (*given, "--checkpoint_every", "1", "--out", folder / "run")


@pytest.mark.parametrize("command", ["search", "fit", "train", "prepare", "evaluate"])
def test_a_second_writer_is_refused(
    data: Path, tmp_path: Path, refused: Refused, command: str
) -> None:
    out = tmp_path / "run"
    given: dict[str, tuple[object, ...]] = {
        "search": searched(data, tmp_path),
        "fit": ("fit", "--method", "uniform", *searched(data, tmp_path)[1:]),
        "train": trained(data, tmp_path),
        "prepare": ("prepare", "--data", data.parent / "text", "--out", out),
        "evaluate": ("evaluate", out, "--tasks", "sciq", "--data_dir", tmp_path),
    }
    (tmp_path / "text" / "a").mkdir(parents=True)
    (tmp_path / "text" / "a" / "a.txt").write_text("a b c")
    place = {"prepare": building_place(out), "evaluate": out / ".scores.json.partial"}
    held = place.get(command, out)
    with FolderLock(held):
        told = refused(*given[command])
    expected = f"Expected a folder that no other process writes to, found one writing to {held}"
    assert told.endswith(f"error: {expected}")
    assert not out.exists(), "nothing was written"


def test_of_two_that_go_on_the_second_is_refused(
    data: Path, tmp_path: Path, refused: Refused
) -> None:
    out = tmp_path / "run"
    given = [str(argument) for argument in searched(data, tmp_path)[1:]]
    options = parse_options(given, "", "", Options, smoke=SMOKE)
    out.mkdir()
    (out / "config.json").write_text(json.dumps({"name": "search", **options.as_dict()}))
    before = folder_content(out)
    with FolderLock(out):
        assert "found one writing to" in refused("search", "--resume", out)
    assert folder_content(out) == before


def cut(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(64)


def rewrite(path: Path) -> None:
    path.write_bytes(path.read_bytes()[::-1])


def amid(monkeypatch: pytest.MonkeyPatch, command: str, change: Callable[[], None]) -> None:
    """Makes a change after the first step of a command."""
    if command == "search":
        from bydore_pyro.measure import measured_training

        def changed(*given: Any, **named: Any) -> Iterator[Any]:
            for number, step in enumerate(measured_training(*given, **named), start=1):
                if number == 1:
                    change()
                yield step

        monkeypatch.setattr("bydore_pyro.measure.measured_training", changed)
        return
    from bydore_pyro.training.training import RunCallback

    def logged(self: Any, args: Any, state: Any, control: Any, **rest: Any) -> None:
        if state.global_step == 1:
            change()

    monkeypatch.setattr(RunCallback, "on_log", logged)


@pytest.mark.parametrize(("command", "change"), [("search", cut), ("train", rewrite)])
def test_a_store_that_changes_amid_a_run_is_noticed(
    data: Path,
    tmp_path: Path,
    refused: Refused,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    change: Callable[[Path], None],
) -> None:
    """A mapped file that is cut would end the process by SIGBUS, without a word."""
    path = data / "train" / "b.bin"
    given = searched(data, tmp_path) if command == "search" else trained(data, tmp_path)
    amid(monkeypatch, command, lambda: change(path))
    told = refused(*given)
    assert told.startswith(
        f"bydore {command}: error: Expected {path} not to change while it is read, fo"
    )
    metrics = tmp_path / "run" / "metrics.json"
    if command == "search":
        assert "not to change while it is read" in json.loads(metrics.read_text())["stopped"]
    else:
        assert not metrics.exists()
        assert not (tmp_path / "run" / "model").exists()


@pytest.mark.parametrize(("command", "replaced"), [("search", False), ("train", True)])
def test_a_run_whose_folder_is_deleted_ends_as_an_error(
    data: Path,
    tmp_path: Path,
    refused: Refused,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    replaced: bool,
) -> None:
    def delete() -> None:
        shutil.rmtree(tmp_path / "run")
        if replaced:
            (tmp_path / "run").mkdir()

    given = searched(data, tmp_path) if command == "search" else trained(data, tmp_path)
    amid(monkeypatch, command, delete)
    told = refused(*given)
    assert f"{tmp_path / 'run'} to stay in place, found it deleted, moved or replaced" in told
    assert not list((tmp_path / "run").glob("*")), "no half of a run is made again"
