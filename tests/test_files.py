"""Files and folders that appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from bydore_pyro.files import appearing_file, appearing_folder


def test_a_file_appears_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "new" / "a.json"
    with appearing_file(path) as aside:
        aside.write_text("whole")
        assert not path.exists()
        assert aside.suffix == ".json"
    assert path.read_text() == "whole"
    assert list(path.parent.iterdir()) == [path]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), appearing_file(path) as aside:
        aside.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_appears_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    with appearing_folder(path) as aside:
        (aside / "a").write_text("x")
        assert not path.exists()
    assert (path / "a").read_text() == "x"
    with pytest.raises(RuntimeError), appearing_folder(tmp_path / "other") as aside:
        (aside / "a").write_text("x")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == [path]


def test_the_faster_process_wins(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    with appearing_folder(path) as aside:
        (aside / "a").write_text("slow")
        path.mkdir()
        (path / "a").write_text("fast")
    assert (path / "a").read_text() == "fast"
    assert list(tmp_path.iterdir()) == [path]
