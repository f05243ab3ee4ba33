"""What stands in files: names once, hashes, tensors bit for bit, and what a run belongs to."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from bydore_pyro.errors import DataError, RunFolderError
from bydore_pyro.files.files import (
    check_belongs,
    content_hash,
    plain_json,
    read_json,
    read_tree,
    readable,
    require_new_file,
    require_writable,
    set_aside,
    unique_keys,
    versions,
    write_tree,
    yaml_or_json,
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


SAVED = {"data": "abc", "run": {"seed": 0, "domains": ["a", "b"]}, "versions": {"torch": "2.0"}}


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({**SAVED, "data": "abd"}, "Expected data abc, with which step was saved, found abd: "),
        ({**SAVED, "run": {"seed": 1, "domains": ["a", "b"]}}, r"Expected run\.seed 0, .* found 1"),
        ({**SAVED, "run": {"seed": 0}}, r"Expected run\.domains \['a', 'b'\], .* found nothing"),
        ({**SAVED, "more": True}, "Expected more nothing, .* found True"),
    ],
)
def test_another_run_is_refused_by_the_field(own: dict, message: str) -> None:
    with pytest.raises(RunFolderError, match=message):
        check_belongs(Path("step"), SAVED, own)


def test_the_same_run_goes_on_and_other_versions_are_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = {**SAVED, "run": {"seed": 0, "domains": ("a", "b")}}  # JSON knows no tuples
    check_belongs(Path("step"), SAVED, own)
    assert not capsys.readouterr().err
    check_belongs(Path("step"), SAVED, {**SAVED, "versions": {"torch": "2.1"}})
    (line,) = capsys.readouterr().err.splitlines()
    assert "step was saved with torch 2.0, this is 2.1" in line
    assert set(versions()) == {"torch", "pyro-ppl", "bydore-pyro"}


SHARED = torch.arange(6.0)
TREE = {
    "numbers": {0: 1, 1: 0.1 + 0.2, 2: True, 3: None, "big": 2**100},
    "tensors": [SHARED, SHARED[:2], torch.tensor(3), torch.zeros(0, 4), torch.tensor([True])],
    "array": np.array([[1.5, float("nan")]]),
    "tuple": (1, (2, "ü")),
    "transposed": torch.arange(6).reshape(2, 3).T,
    "empty": {"list": [], "dict": {}},
}


def same(left: object, right: object) -> bool:
    if isinstance(left, torch.Tensor):
        return (
            isinstance(right, torch.Tensor)
            and left.dtype == right.dtype
            and bool(torch.equal(left, right))
        )
    if isinstance(left, np.ndarray):
        return isinstance(right, np.ndarray) and left.tobytes() == right.tobytes()
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and list(left) == list(right)
            and all(same(left[k], right[k]) for k in left)
        )
    if isinstance(left, (list, tuple)):
        return (
            type(left) is type(right)
            and len(left) == len(right)
            and all(same(a, b) for a, b in zip(left, right, strict=True))
        )
    return type(left) is type(right) and left == right


def test_what_is_read_lies_where_torch_lays_its_own(tmp_path: Path) -> None:
    """Matrix-vector products depend on the address modulo 16, and so would a resumed run."""
    tree = [torch.arange(float(n)) for n in range(1, 100)] + [np.arange(n) for n in range(1, 100)]
    write_tree(tmp_path, tree, {})
    for value in map(torch.as_tensor, read_tree(tmp_path)[1]):
        assert value.data_ptr() % 64 == 0


def test_round_trip(tmp_path: Path) -> None:
    write_tree(tmp_path, TREE, {"format": "test/1"})
    header, tree = read_tree(tmp_path)
    assert header == {"format": "test/1"}
    assert same(TREE, tree)
    assert {p.suffix for p in tmp_path.iterdir()} == {".json", ".safetensors"}


def test_damage_and_foreign_files_are_refused(tmp_path: Path) -> None:
    write_tree(tmp_path, TREE, {"format": "test/1"})
    tensors, tree = tmp_path / "tensors.safetensors", tmp_path / "tree.json"
    whole, plain = tensors.read_bytes(), tree.read_text()
    for damaged in (whole[:-3], b"", whole[:100] + b"x" + whole[101:]):
        tensors.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"Expected the tensors that tree\.json names"):
            read_tree(tmp_path)
    tensors.write_bytes(whole)
    for damaged in (plain.replace("test/1", "test/2"), plain.replace("[0, 1]", "[0, 2]")):
        assert damaged != plain
        tree.write_text(damaged)
        with pytest.raises(ValueError, match=r"Expected tree\.json as it was written"):
            read_tree(tmp_path)
    for damaged in (plain[:50], "[]", "{}", json.dumps({**json.loads(plain), "tree": [1]})):
        tree.write_text(damaged)
        with pytest.raises(ValueError, match=r"Error|Expect|Unterminated|unpack"):
            read_tree(tmp_path)
    tensors.unlink()
    tree.write_text(plain)
    with pytest.raises(ValueError, match="FileNotFoundError"):
        read_tree(tmp_path)


def test_json_is_read_by_one_function_with_limits(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": [1]}')
    assert read_json(path) == plain_json('{"a": [1]}') == {"a": [1]}
    for text, message in (
        ("[" * 100_000, "one that is nested too deeply"),
        ('{"a": 1\n,}', r"one that breaks at line 2, column 2 \("),
        ("{", r"one that breaks at column 2 \("),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_json(path)
    path.write_text("1" * 3000)
    with pytest.raises(ValueError, match="more than 0 MB"):
        read_json(path, most=100)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(OSError, match="no file: "):
        read_json(path)
