"""Trees of tensors and plain values come back bit for bit, and no damage passes unnoticed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from bydore_pyro.files.trees import read_tree, write_tree

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
