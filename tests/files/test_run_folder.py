"""The folder of a run has one writer, and outlives what happens to it."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from processes import forked

from bydore_pyro.command_line.command_line import one_line_errors
from bydore_pyro.errors import RunFolderError
from bydore_pyro.files.locks import FolderLock
from bydore_pyro.files.run_folder import RunFolder, release_folders


def test_what_is_in_the_way_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "deep" / "run")
    del folder
    assert not (tmp_path / "deep").exists(), "nothing was written to it"
    (tmp_path / "file").write_text("")
    for wrong in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(RunFolderError, match="folder to write to"):
            RunFolder(wrong)
    with RunFolder(tmp_path / "run") as folder:
        with pytest.raises(ValueError, match="Out of range float"):
            folder.write_json("config.json", {"x": float("nan")})
        folder.write_config("case1", {"run": {"seed": 0}})
        with RunFolder(tmp_path / "run", resume=True) as again:  # of the same process
            again.write_text("a.txt", "x")
    with pytest.raises(RunFolderError, match=r"found a run in .*run"):
        RunFolder(tmp_path / "run")


@pytest.mark.parametrize("resume", [False, True])
def test_a_run_has_one_writer(tmp_path: Path, resume: bool) -> None:
    """Of two starts, and of two that go on, the second is refused; a killed one leaves no lock."""
    path, told, stop = (tmp_path / name for name in ("runs/run", "told", "stop"))
    path.parent.mkdir()
    if resume:
        path.mkdir()
        (path / "config.json").write_text("{}")
    before = list(path.parent.rglob("*"))

    def write() -> None:
        with one_line_errors("bydore test"), RunFolder(path, resume=resume):
            print("begun")
            while not stop.exists():
                time.sleep(0.01)

    told.touch()
    first = forked(write, told)
    while told.read_text() != "begun\n":
        assert first.is_alive()
        time.sleep(0.01)
    second = forked(write, told)
    second.join(60)
    assert told.read_text().splitlines() == [
        "begun",
        "bydore test: error: Expected a folder that no other process writes to, found one "
        f"writing to {path}",
    ]
    first.kill()
    first.join()
    stop.touch()
    third = forked(write, told)
    third.join(60)
    assert (second.exitcode, third.exitcode) == (2, 0)
    assert told.read_text().endswith("\nbegun\n")
    assert list(path.parent.rglob("*")) == before, "no lock is left"


@pytest.mark.parametrize("replaced", [False, True])
def test_a_folder_that_is_deleted_amid_a_run_is_not_made_again(
    tmp_path: Path, replaced: bool
) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.write_text("a.txt", "x")
    folder.require()
    shutil.rmtree(folder.path)
    if replaced:
        folder.path.mkdir()
    for write in (folder.require, lambda: folder.write_json("metrics.json", {})):
        with pytest.raises(RunFolderError, match="run to stay in place, found it deleted"):
            write()
    assert list(tmp_path.iterdir()) == ([folder.path] if replaced else [])
    assert list(tmp_path.glob("run/*")) == []


def test_the_end_of_a_command_releases_its_folders(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(RunFolderError, match="that no other process writes to"):
        FolderLock(folder.path)
    release_folders()
    FolderLock(folder.path).release()


def test_work_of_a_run_is_kept_by_the_process_that_writes(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    assert folder.kept("a/b").get_or(lambda: 1) == folder.kept("a/b").get_or(lambda: 2) == 1
    quiet = RunFolder(tmp_path / "other", writes=False)
    assert quiet.kept("b").get_or(lambda: 3) == 3
    assert not (tmp_path / "other").exists()
