"""Files and folders appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from bydore_pyro.errors import RunFolderError
from bydore_pyro.files.writing import (
    appearing_file,
    appearing_folder,
    remove_half_written,
    require_new_file,
    require_writable,
)


def test_new_files_are_new(tmp_path: Path) -> None:
    require_new_file(tmp_path / "deep" / "new")
    assert not (tmp_path / "deep").exists()
    (tmp_path / "old").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("old", "link", "."):
        with pytest.raises(RunFolderError, match="Expected a new file, found"):
            require_new_file(tmp_path / name)
    require_writable(tmp_path / "deep")
    for wrong in (require_new_file, require_writable):
        with pytest.raises(RunFolderError, match="Expected a folder to write to"):
            wrong(tmp_path / "old" / "below")


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
    """By who holds the folder's lock, so that its writer is dead."""
    (tmp_path / "kept" / "deep").mkdir(parents=True)
    (tmp_path / "kept" / ".hidden").write_text("of the user")
    for place in ("kept", "kept/deep"):
        (tmp_path / place / ".writing-abc").mkdir()
        (tmp_path / place / ".writing-abc" / "half").write_text("x")
    remove_half_written(tmp_path)
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == [".hidden"]
    assert not list(tmp_path.rglob(".writing-*"))


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with (
            pytest.raises(RunFolderError, match="a file to write to, found a folder, device or"),
            appearing_file(path),
        ):
            raise AssertionError
    assert (tmp_path / "pipe").is_fifo()
