"""Files: JSON without duplicate keys, hashes, tensors, origins; no pickle."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bydore_pyro.errors import DataError, RunFolderError
from bydore_pyro.terminal import tell

TREE, TENSORS = "tree.json", "tensors.safetensors"
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")  # YAML 1.1 takes 4e-4 for a word
DECISIVE = ("torch", "pyro-ppl", "bydore-pyro")  # for the bits of a result
PACKAGES = ("torch", "pyro-ppl", "transformers", "tokenizers", "datasets", "arviz", "numpy")


def set_aside(path: Path) -> Path:
    """Renames an unusable file to `refused-NAME`, or `refused-NAME-2`; returns its new path."""
    place, number = path.with_name(f"refused-{path.name}"), 2
    while place.exists():
        place, number = path.with_name(f"refused-{path.name}-{number}"), number + 1
    return path.rename(place)


def require_new_file(path: Path) -> None:
    """Checks, before a long computation, that a file can be written and does not exist yet.

    Raises:
        RunFolderError: When it is there, or cannot be written.
    """
    if path.exists() or path.is_symlink():
        raise RunFolderError(f"Expected a new file, found {path}: name another by --out")
    require_writable(path.parent)


def require_writable(folder: Path) -> None:
    """Checks that a folder, or its first parent that exists, can be written to.

    Raises:
        RunFolderError: When it cannot.
    """
    existing = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise RunFolderError(f"Expected a folder to write to, found {existing}")


def readable(path: str) -> str:
    """Escapes the bytes of a path that are no UTF-8, so that it can be written and hashed."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def content_hash(content: Any) -> str:
    """Returns the SHA-256 of plain values, as JSON writes them."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def with_hash(content: Mapping[str, Any]) -> str:
    """Returns plain values as JSON that also holds their hash, for `read_hashed`."""
    plain = json.loads(json.dumps(content, allow_nan=False))
    return json.dumps({**plain, "sha256": content_hash(plain)}, indent=2) + "\n"


def read_hashed(path: Path) -> dict[str, Any] | None:
    """Reads a file that `with_hash` made; None if there is none or if it was changed.

    Warns:
        UserWarning: When it was changed.
    """
    if not path.exists():
        return None
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if found.pop("sha256") == content_hash(found):
            return found
    warnings.warn(f"{path} was changed: it is computed again", stacklevel=2)
    return None


def plain_json(text: str) -> Any:
    """Reads JSON; the one function that reads JSON written by others.

    Raises:
        ValueError: Says at which column it breaks, or that it is nested too deeply.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:  # it counts lines in the text
        place = f"column {error.colno}"
        if error.lineno > 1:
            place = f"line {error.lineno}, {place}"
        raise ValueError(f"one that breaks at {place} ({error.msg})") from None
    except RecursionError:
        raise ValueError("one that is nested too deeply") from None


def read_json(path: Path, most: int = 2**28) -> Any:
    """Reads a JSON file of at most so many bytes.

    Raises:
        OSError: When it cannot be read, or is no file, as a pipe.
        ValueError: When it is larger, is not UTF-8, or is no JSON that can be read.
    """
    if not path.is_file() and path.exists():
        raise OSError(f"no file: {path}")
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"more than {most // 2**20} MB")
    return plain_json(content.decode("utf-8"))


def unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Builds an object without duplicate keys; the `object_pairs_hook` of `json.loads`.

    Raises:
        DataError: When a key comes twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise DataError(f"Expected every name once, found '{twice}' twice")
    return found


def yaml_or_json(text: str, *, words: bool = False) -> Any:
    """Reads plain values from JSON, or else from YAML; there, `words` stay text.

    Raises:
        DataError: When a mapping names a key twice.
        ValueError: When the text is neither.
    """
    import yaml

    with suppress(json.JSONDecodeError, RecursionError):
        return json.loads(text, object_pairs_hook=unique_keys)

    kind: Any = yaml.BaseLoader if words else yaml.SafeLoader

    class Loader(kind):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            words = (key for key, _ in node.value if isinstance(key, yaml.ScalarNode))
            unique_keys([(key.value, None) for key in words])
            found: dict[Any, Any] = super().construct_mapping(node, deep)
            return found

    if not words:
        Loader.add_implicit_resolver("tag:yaml.org,2002:float", NUMBER, [*"-+.0123456789"])
    try:
        return yaml.load(text, Loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(str(error)) from None


def write_tree(folder: Path, tree: Any, header: Mapping[str, Any]) -> None:
    """Writes dictionaries, lists, tuples, tensors, arrays and plain values into a folder.

    A JSON file holds the hash of the tensors, which are safetensors, and of its own content:
    neither is changed unnoticed. The header is plain values that come back with the tree.

    Raises:
        TypeError: When the tree holds anything else.
    """
    from safetensors.torch import save_file

    tensors: dict[str, Any] = {}
    plain = _plain(tree, "", tensors)
    save_file(tensors, str(folder / TENSORS))
    digest = hashlib.sha256((folder / TENSORS).read_bytes()).hexdigest()
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


def provenance(more: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the commit and the versions of Python and of packages, `more` among them."""
    found = {"python": sys.version.split()[0], **versions(("bydore-pyro", *PACKAGES, *more))}
    return {"versions": found, "commit": _commit()}


def versions(packages: Sequence[str] = DECISIVE) -> dict[str, str]:
    """Returns the versions of packages, by default those that decide the bits of a result."""
    found = dict.fromkeys(packages, "not installed")
    for package in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def check_belongs(path: Path, saved: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Checks that the checkpoint `path`, `saved` with a run, belongs to the `own` run.

    Both are plain values by name, nested as far as need be. Other versions are only noted.

    Raises:
        RunFolderError: When they differ; it names the first field that does.
    """
    of_saved, of_own = _flat(saved), _flat(own)
    names = {*of_saved, *of_own}
    for name in sorted(names, key=lambda name: (not name.startswith("versions."), name)):
        before, now = of_saved.get(name, "nothing"), of_own.get(name, "nothing")
        if before == now:
            continue
        if not name.startswith("versions."):
            raise RunFolderError(
                f"Expected {name} {before!s:.60}, with which {path} was saved, found {now!s:.60}: "
                "a run continues only with what it was started with"
            )
        package = name.removeprefix("versions.")
        tell(
            f"warning: {path} was saved with {package} {before}, this is {now}: the result may "
            "differ in its last bits"
        )


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns nested values by dotted names, as they come back from JSON."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = json.loads(json.dumps(value))
    return found


def _commit() -> str | None:
    """The commit of the checkout that holds this package, with "+" where it has been changed."""
    source = Path(__file__).parents[2]
    if not (source / ".git").exists():
        return None
    run = ["git", "-C", str(source), "describe"]
    run += ["--always", "--abbrev=40", "--dirty=+", "--exclude=*"]
    with suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()
    return None
