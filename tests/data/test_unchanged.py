"""Files that change while they are read are noticed; those that were only touched are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bydore_pyro.data.unchanged import WatchedFile, file_sha256, size_and_time
from bydore_pyro.utils.errors import DataError


def test_a_file_is_the_same_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345678")
    watched = WatchedFile(path, file_sha256(path))
    watched.require_unchanged()
    os.utime(path, (1, 1))
    watched.require_unchanged()
    (tmp_path / "copy").write_bytes(b"12345678")
    (tmp_path / "copy").replace(path)
    watched.require_unchanged()


@pytest.mark.parametrize("content", [b"1234567", b"12345679", b"123456789", None])
def test_other_content_is_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345678")
    os.utime(path, (1, 1))
    watched = WatchedFile(path, file_sha256(path))
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(DataError, match="a not to change while it is read, found"):
        watched.require_unchanged()


def test_a_folder_is_as_new_as_its_newest_file(tmp_path: Path) -> None:
    """A saved dataset's own time does not tell that a file of it was written anew."""
    (tmp_path / "a").write_bytes(b"123")
    before = size_and_time(tmp_path)
    assert before[0] == 3
    while size_and_time(tmp_path) == before:  # clocks of file systems tick in milliseconds
        (tmp_path / "a").write_bytes(b"124")


def test_a_time_that_is_set_back_hides_no_new_content(tmp_path: Path) -> None:
    """A file of another content, as large and with the old time of modification."""
    path = tmp_path / "a"
    path.write_bytes(b"12345678")
    before, status = size_and_time(path), path.stat()
    watched = WatchedFile(path, file_sha256(path))
    while size_and_time(path) == before:
        path.write_bytes(b"12345679")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_mtime_ns == status.st_mtime_ns
    with pytest.raises(DataError, match="found other content"):
        watched.require_unchanged()
