"""A folder has one writer."""

from __future__ import annotations

import errno
import os
import shutil
import time
from pathlib import Path

import pytest
from processes import forked

from bydore_pyro.errors import RunFolderError
from bydore_pyro.files.locks import FolderLock


def is_free(path: Path, told: Path) -> bool:
    """Whether another process can lock a folder."""
    process = forked(lambda: FolderLock(path).release(), told)
    process.join()
    return process.exitcode == 0


def test_one_process_holds_a_lock_and_leaves_nothing(tmp_path: Path) -> None:
    path, told = tmp_path / "deep" / "run", tmp_path / "told"
    with FolderLock(path) as lock:
        lock.require()
        with pytest.raises(RunFolderError, match="that no other process writes to, found one"):
            FolderLock(path)
        assert not is_free(path, told)
        (path / "a").write_text("x")
    assert [one.name for one in path.iterdir()] == ["a"]
    assert is_free(path, told)
    (path / "a").unlink()
    lock = FolderLock(path)
    del lock
    assert path.exists(), "it was there before"
    with FolderLock(tmp_path / "new" / "run"):
        pass
    assert not (tmp_path / "new").exists(), "nothing was written to it"


@pytest.mark.parametrize("replaced", [False, True])
def test_a_folder_that_is_gone_is_named(tmp_path: Path, replaced: bool) -> None:
    with FolderLock(tmp_path / "a") as lock:
        shutil.rmtree(tmp_path / "a")
        if replaced:
            (tmp_path / "a").mkdir()
        with pytest.raises(RunFolderError, match="a to stay in place, found it deleted, moved"):
            lock.require()


def test_who_waits_says_so_and_gets_the_folder(tmp_path: Path) -> None:
    path, told = tmp_path / "run", tmp_path / "told"
    with FolderLock(path):
        waiting = forked(lambda: FolderLock(path, wait=True).release(), told)
        while not (told.exists() and told.read_text()):
            time.sleep(0.01)
    waiting.join(30)
    assert waiting.exitcode == 0
    assert told.read_text() == f"waiting for another process, which writes to {path}\n"


def test_a_lock_ends_with_a_killed_process_although_its_forks_live(tmp_path: Path) -> None:
    """The workers that read for a training outlive it by seconds."""
    told = tmp_path / "told"
    told.touch()

    def hold() -> None:
        lock = FolderLock(tmp_path / "a")
        child = os.fork()
        if child:
            print(child)
        time.sleep(60)
        lock.release()

    holder = forked(hold, told)
    while not told.read_text().endswith("\n"):
        time.sleep(0.01)
    assert not is_free(tmp_path / "a", tmp_path / "free")
    holder.kill()
    holder.join()
    end = time.monotonic() + 30  # the fork may not have come to drop its copy yet
    while not is_free(tmp_path / "a", tmp_path / "free") and time.monotonic() < end:
        time.sleep(0.05)
    assert is_free(tmp_path / "a", tmp_path / "free")
    os.kill(int(told.read_text()), 9)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS])
def test_a_file_system_without_locks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def flock(*_: object) -> None:
        raise OSError(number, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    (tmp_path / ".lock").touch()  # a killed process left it
    with pytest.warns(UserWarning, match="cannot be locked .*one process writes"):
        lock = FolderLock(tmp_path)
    lock.require()
    lock.release()
    assert list(tmp_path.iterdir()) == []


def test_what_prevents_a_lock_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".lock").mkdir()
    with pytest.raises(OSError, match=r"directory.*\.lock"):
        FolderLock(tmp_path)
