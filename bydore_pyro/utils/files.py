"""Files that appear whole or not at all, and JSON that names nothing twice."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bydore_pyro.utils.errors import DataError, RunFolderError, familiar_errors
from bydore_pyro.utils.folder_lock import lock_if_free, unlock

__all__ = [
    "appearing_file",
    "appearing_folder",
    "content_hash",
    "read_hashed",
    "readable",
    "remove_half_written",
    "require_new_file",
    "require_writable",
    "set_aside",
    "unique_keys",
    "with_hash",
    "yaml_or_json",
]


WRITING = ".writing-"  # how the names of what is not yet whole begin


def remove_half_written(folder: Path) -> None:
    """Deletes what killed processes were writing into a folder; what is still written stays."""
    for path in folder.rglob(f"{WRITING}*"):
        if not path.is_dir():
            path.unlink(missing_ok=True)
            continue
        with suppress(FileNotFoundError):
            handle = lock_if_free(path)
            if handle is not None:
                shutil.rmtree(path, ignore_errors=True)
                unlock(handle)


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """Gives the block a place to write `path` at, in a locked folder beside it that goes after."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = None
    while handle is None:
        folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=WRITING))
        with suppress(FileNotFoundError):  # taken for a killed process's before it was locked
            handle = lock_if_free(folder)
    try:
        with familiar_errors():
            # The suffix stays: writers choose the format by it.
            yield folder / f"whole{path.suffix}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        unlock(handle)


@contextmanager
def appearing_file(path: Path) -> Iterator[Path]:
    """Yields a path to write to; it is renamed to `path` when the block ends without error.

    Raises:
        RunFolderError: When `path` is a folder, a device or a pipe.
    """
    if path.exists() and not path.is_file():
        raise RunFolderError(f"Expected a file to write to, found a folder, device or pipe: {path}")
    with _beside(path) as aside:
        aside.touch()
        yield aside
        aside.chmod(0o644)
        aside.replace(path)


@contextmanager
def appearing_folder(path: Path, *, first_wins: bool = False) -> Iterator[Path]:
    """Like `appearing_file`, for a folder; where the first wins, one that is there stays.

    Raises:
        OSError: When there is one already, and the first does not win.
    """
    with _beside(path) as aside:
        aside.mkdir()
        yield aside
        aside.chmod(0o755)
        try:
            aside.rename(path)
        except OSError:
            if not (first_wins and path.is_dir()):
                raise


def set_aside(path: Path) -> Path:
    """Renames what cannot be used to `refused-NAME`, or `refused-NAME-2`; returns its new place."""
    place, number = path.with_name(f"refused-{path.name}"), 2
    while place.exists():
        place, number = path.with_name(f"refused-{path.name}-{number}"), number + 1
    return path.rename(place)


def require_new_file(path: Path) -> None:
    """Checks that a file can be written and is not there yet, before anything long starts.

    Raises:
        RunFolderError: When it is there, or cannot be written.
    """
    if path.exists() or path.is_symlink():
        raise RunFolderError(f"Expected a new file, found {path}: name another by --out")
    require_writable(path.parent)


def require_writable(folder: Path) -> None:
    """Checks that a folder, or the first of its parents that exists, can be written to.

    Raises:
        RunFolderError: When it cannot.
    """
    existing = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise RunFolderError(f"Expected a folder to write to, found {existing}")


def readable(path: str) -> str:
    """Returns a path as text that can be written and hashed, bytes that are no UTF-8 escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def content_hash(content: Any) -> str:
    """Returns the SHA-256 of plain values, as JSON writes them."""
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def with_hash(content: Mapping[str, Any]) -> str:
    """Returns plain values as JSON that also holds their hash, for `read_hashed`."""
    plain = json.loads(json.dumps(content, allow_nan=False))
    return json.dumps({**plain, "sha256": content_hash(plain)}, indent=2) + "\n"


def read_hashed(path: Path) -> dict[str, Any] | None:
    """Returns what `with_hash` put into a file, None where there is none or it was changed.

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


def unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Returns an object's keys and values; the `object_pairs_hook` of `json.loads`.

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
    """Reads plain values from JSON, and from YAML what is not JSON; there, `words` stay text.

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

    try:
        return yaml.load(text, Loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(str(error)) from None
