"""Plain values: JSON and YAML without duplicate keys, and their hashes."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bydore_pyro.errors import DataError

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+")  # YAML 1.1 takes 4e-4 for a word


def readable(path: str) -> str:
    """Escapes the bytes of a path that are no UTF-8, so that it can be written and hashed."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def content_hash(content: Any) -> str:
    """Returns the SHA-256 of plain values, as JSON writes them."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


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


def read_json(path: Path) -> Any:
    """Reads a JSON file.

    Raises:
        OSError: When it cannot be read, or is no file, as a pipe.
        ValueError: When it is not UTF-8, or is no JSON that can be read.
    """
    if not path.is_file() and path.exists():
        raise OSError(f"no file: {path}")
    return plain_json(path.read_bytes().decode("utf-8"))


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
