"""The folder of a run has one writer, and outlives what happens to it."""

from __future__ import annotations

from pathlib import Path

import pytest

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
