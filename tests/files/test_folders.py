"""A folder has one writer, by a lock of the system that follows it; files appear whole or not."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from processes import forked

from bydore_pyro.errors import RunFolderError
from bydore_pyro.files.folders import (
    FolderLock,
    appearing_file,
    appearing_folder,
    folders_released,
    hold_folder,
    lock_if_free,
    remove_half_written,
    unlock,
)


def is_free(path: Path) -> bool:
    handle = lock_if_free(path)
    if handle is not None:
        unlock(handle)
    return handle is not None


def test_a_lock_follows_a_folder_that_is_renamed(tmp_path: Path) -> None:
    with FolderLock(tmp_path / "a") as lock:
        (tmp_path / "a").rename(tmp_path / "b")
        assert lock.is_lost
        with pytest.raises(RunFolderError, match="a to stay in place, found it deleted, moved"):
            lock.require()
        assert not is_free(tmp_path / "b")
        assert is_free(tmp_path)


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
    assert not is_free(tmp_path / "a")
    holder.kill()
    holder.join()
    end = time.monotonic() + 30  # the fork may not have come to drop its copy yet
    while not is_free(tmp_path / "a") and time.monotonic() < end:
        time.sleep(0.05)
    assert is_free(tmp_path / "a")
    os.kill(int(told.read_text()), 9)


def test_a_file_system_without_locks_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: object) -> None:
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.warns(UserWarning, match="cannot be locked .*one process writes"):
        FolderLock(tmp_path).release()


def test_a_folder_that_is_gone_is_the_reason_of_what_fails(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="run to stay"), folders_released():
        lock = hold_folder(tmp_path / "run")
        lock.path.rmdir()
        (lock.path / "a").write_text("x")
    with pytest.raises(FileNotFoundError), folders_released():
        lock = hold_folder(tmp_path / "run")
        (lock.path / "b" / "c").write_text("x")


@pytest.mark.parametrize("appearing", [appearing_file, appearing_folder])
def test_it_appears_at_the_end_or_not_at_all(
    tmp_path: Path, appearing: Callable[[Path], AbstractContextManager[Path]]
) -> None:
    path = tmp_path / "new" / "a.json"
    with pytest.raises(RuntimeError), appearing(path):
        raise RuntimeError
    assert list(path.parent.iterdir()) == []
    with appearing(path) as aside:
        assert not path.exists()
        assert aside.suffix == ".json"
    assert list(path.parent.iterdir()) == [path]


def test_what_a_killed_process_was_writing_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "kept" / "deep").mkdir(parents=True)
    (tmp_path / "kept" / ".hidden").write_text("of the user")
    (tmp_path / "kept" / ".writing-abc").mkdir()
    (tmp_path / "kept" / ".writing-abc" / "half").write_text("x")
    (tmp_path / "kept" / "deep" / ".writing-d.png").write_text("x")
    with appearing_folder(tmp_path / "kept" / "new") as aside:
        (aside / "a").write_text("of another that is at work")
        with appearing_file(tmp_path / "kept" / "b") as beside:
            beside.write_text("b")
            remove_half_written(tmp_path)
    assert (tmp_path / "kept" / "new" / "a").exists()
    assert (tmp_path / "kept" / "b").read_text() == "b"
    shutil.rmtree(tmp_path / "kept" / "new")
    (tmp_path / "kept" / "b").unlink()
    assert [p.name for p in sorted(tmp_path.rglob("*")) if p.is_file()] == [".hidden"]


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with (
            pytest.raises(RunFolderError, match="a file to write to, found a folder, device or"),
            appearing_file(path),
        ):
            raise AssertionError
    assert (tmp_path / "pipe").is_fifo()
