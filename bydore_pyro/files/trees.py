"""Trees of plain values, tensors and arrays in a folder, with their hashes; no pickle."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bydore_pyro.files.plain_values import content_hash

TREE, TENSORS = "tree.json", "tensors.safetensors"


def write_tree(folder: Path, tree: Any, header: Mapping[str, Any]) -> None:
    """Writes dictionaries, lists, tuples, tensors, arrays and plain values into a folder.

    A JSON file holds the hash of the tensors, which are safetensors, and of its own content:
    neither is changed unnoticed. The header is plain values that come back with the tree.

    Raises:
        TypeError: When the tree holds anything else.
    """
    from safetensors.torch import save

    tensors: dict[str, Any] = {}
    plain = _plain(tree, "", tensors)
    stored = save(tensors)
    (folder / TENSORS).write_bytes(stored)
    digest = hashlib.sha256(stored).hexdigest()
    content = {"header": dict(header), "tensors_sha256": digest, "tree": plain}
    text = json.dumps({**content, "sha256": content_hash(content)})
    (folder / TREE).write_text(text, encoding="utf-8")


def read_tree(folder: Path) -> tuple[dict[str, Any], Any]:
    """Returns the header and the tree that `write_tree` wrote, bit for bit.

    Raises:
        ValueError: When a file is missing, truncated or changed.
    """
    from safetensors.torch import load

    try:
        content = json.loads((folder / TREE).read_text(encoding="utf-8"))
        stored = (folder / TENSORS).read_bytes()
        if content.pop("sha256", None) != content_hash(content):
            raise ValueError(f"Expected {TREE} as it was written, found it changed")
        if hashlib.sha256(stored).hexdigest() != content["tensors_sha256"]:
            raise ValueError(f"Expected the tensors that {TREE} names, found others")
        return content["header"], _thawed(content["tree"], load(stored))
    except (OSError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


def _plain(value: Any, path: str, tensors: dict[str, Any]) -> Any:
    """Replaces what JSON cannot hold by tagged lists; tensors move to `tensors`, by path."""
    import numpy as np
    import torch

    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, torch.Tensor | np.ndarray):
        kind = "tensor" if isinstance(value, torch.Tensor) else "array"
        # A copy: safetensors refuses tensors that share memory.
        tensors[path] = torch.as_tensor(value).detach().cpu().contiguous().clone()
        return [kind, path]
    if isinstance(value, Mapping):
        items = [[key, _plain(v, f"{path}/{key}", tensors)] for key, v in value.items()]
        return ["dict", items]
    if isinstance(value, list | tuple):
        kind = type(value).__name__
        return [kind, [_plain(v, f"{path}/{i}", tensors) for i, v in enumerate(value)]]
    raise TypeError(f"Expected plain values and tensors, found {type(value).__name__} at {path}")


def _thawed(value: Any, tensors: Mapping[str, Any]) -> Any:
    if not isinstance(value, list):
        return value
    kind, content = value
    if kind in ("tensor", "array"):
        # A copy lies where torch lays its own: sums of products depend on the address modulo 16.
        copy = tensors[content].clone()
        return copy if kind == "tensor" else copy.numpy()
    if kind == "dict":
        return {key: _thawed(v, tensors) for key, v in content}
    values = [_thawed(v, tensors) for v in content]
    return tuple(values) if kind == "tuple" else values
