"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from bydore_pyro.utils.errors import DataError, RunFolderError
from bydore_pyro.utils.files import (
    appearing_file,
    appearing_folder,
    content_hash,
    readable,
    remove_half_written,
    require_new_file,
    require_writable,
    set_aside,
    unique_keys,
    yaml_or_json,
)


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


def test_an_old_file_is_replaced_and_an_old_folder_is_not(tmp_path: Path) -> None:
    file, folder = tmp_path / "a.txt", tmp_path / "folder"
    for text in ("old", "new"):
        with appearing_file(file) as aside:
            aside.write_text(text)
    assert file.read_text() == "new"
    folder.mkdir()
    (folder / "notes").write_text("of the user")
    with pytest.raises(OSError, match="not empty"), appearing_folder(folder):
        pass
    with appearing_folder(folder, first_wins=True) as aside:
        (aside / "notes").write_text("of a slower process")
    assert (folder / "notes").read_text() == "of the user"
    assert {*tmp_path.iterdir()} == {file, folder}


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


def test_json_and_yaml_name_nothing_twice() -> None:
    assert yaml_or_json('{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}
    assert yaml_or_json("a:\n- 1\n- b:\n") == {"a": [1, {"b": None}]}
    for text in ('{"a": 1, "a": 2}', "x: [{a: 1, a: 2}]"):
        with pytest.raises(DataError, match="found 'a' twice"):
            yaml_or_json(text)
    for text in (
        "{",
        "a: !!python/object/apply:os.getcwd []",
        "[" * 100_000,
        "a: b: c",
        "? [a]\n: 1",
    ):
        with pytest.raises(ValueError, match=r"\S"):
            yaml_or_json(text)
    assert unique_keys([("a", 1)]) == {"a": 1}


def test_aliases_of_yaml_are_read_once() -> None:
    """Ten levels of ten aliases each would be ten thousand million nodes."""
    levels = ["a0: &a0 [1, 2]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 11)]
    assert yaml_or_json("\n".join(levels))["a0"] == [1, 2]


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with (
            pytest.raises(RunFolderError, match="a file to write to, found a folder, device or"),
            appearing_file(path),
        ):
            raise AssertionError
    assert (tmp_path / "pipe").is_fifo()


def test_names_of_other_bytes_become_text() -> None:
    assert readable(os.fsdecode(b"caf\xe9/\xc3\xa9.txt")) == "caf\\xe9/é.txt"


def test_what_is_set_aside_keeps_its_content_and_counts_no_longer(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / "step-1").mkdir()
        (tmp_path / "step-1" / "n").write_text(str(number))
        place = set_aside(tmp_path / "step-1")
        assert (place / "n").read_text() == str(number)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["refused-step-1", "refused-step-1-2", "refused-step-1-3"]
    assert not list(tmp_path.glob("step-*"))


def test_the_hash_of_plain_values() -> None:
    content = {"a": [1, 0.1 + 0.2, None, "ü"], "b": float("nan")}
    assert content_hash(content) == content_hash(json.loads(json.dumps(content)))
    assert content_hash(content) != content_hash({**content, "a": []})
