"""Kept work: what was computed once, whole and unchanged, with the key of what it depends on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from bydore_pyro import terminal
from bydore_pyro.errors import RunFolderError
from bydore_pyro.files.trees import TREE, read_tree, write_tree
from bydore_pyro.files.writing import appearing_folder


class Kept:
    """A tree of plain values, tensors and arrays that is kept in a folder, with its key.

    It is written whole or not at all. One that is damaged is set aside, by name, and counts no
    longer. One with another key is refused or, with `replace`, set aside too.

    Args:
        folder: Where it is kept.
        key: What the work depends on, plain values: format, hashes, options. Of what stands under
            `versions` a difference is only reported.
        replace: Whether one with another key is set aside and computed again: where the folder's
            name is a hash of the key, it can only be another's.
        writes: Whether anything is written or set aside: of several processes one does.
    """

    def __init__(
        self, folder: Path, key: Mapping[str, Any], *, replace: bool = False, writes: bool = True
    ) -> None:
        self.folder, self.key, self.replace, self.writes = folder, key, replace, writes

    @property
    def file(self) -> Path:
        """The file that holds the key and the hashes of all that is kept."""
        return self.folder / TREE

    def get(self) -> Any:
        """Returns what is kept, bit for bit; None where there is none.

        Raises:
            RunFolderError: When it has another key, without `replace`; names the first field.
        """
        if not self.folder.exists():
            return None
        try:
            key, tree = read_tree(self.folder)
            if self.replace and key != json.loads(json.dumps(self.key)):
                raise ValueError("it has another key")
        except ValueError as error:
            named = f"; it is set aside as {set_aside(self.folder).name}" if self.writes else ""
            terminal.tell(f"{self.folder} cannot be used{named}: {error}")
            return None
        if not self.replace:
            check_belongs(self.folder, key, self.key)
        return tree

    def put(self, tree: Any) -> None:
        """Keeps a tree, whole or not at all; where there is one already, that one stays.

        Raises:
            OSError: When it cannot be written.
        """
        if self.writes and not self.folder.is_dir():
            with appearing_folder(self.folder, first_wins=True) as aside:
                write_tree(aside, tree, self.key)

    def get_or(self, compute: Callable[[], Any]) -> Any:
        """Returns what is kept, or computes it and keeps it.

        Raises:
            RunFolderError: See `get`.
            OSError: See `put`.
        """
        found = self.get()
        if found is None:
            found = compute()
            self.put(found)
        return found

    def remove(self) -> None:
        """Deletes what is kept."""
        if self.writes:
            shutil.rmtree(self.folder, ignore_errors=True)


def kept_series(
    folder: Path, name: str, key: Mapping[str, Any], *, writes: bool = True
) -> Iterator[tuple[Kept, Any]]:
    """Yields what is kept in the folders `name`-1, `name`-2 and so on, up to the first that is
    missing or damaged.

    Raises:
        RunFolderError: See `Kept.get`.
    """
    for number in count(1):
        one = Kept(folder / f"{name}-{number}", key, writes=writes)
        tree = one.get()
        if tree is None:
            return
        yield one, tree


def set_aside(path: Path) -> Path:
    """Renames an unusable file to `refused-NAME`, or `refused-NAME-2`; returns its new path."""
    place, number = path.with_name(f"refused-{path.name}"), 2
    while place.exists():
        place, number = path.with_name(f"refused-{path.name}-{number}"), number + 1
    return path.rename(place)


def check_belongs(path: Path, saved: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Checks that what stands in `path`, `saved` by a run, belongs to the `own` run.

    Both are plain values by name, nested as far as need be. Other versions are only reported.

    Raises:
        RunFolderError: When they differ; it names the first field that does.
    """
    of_saved, of_own = _flat(saved), _flat(own)
    for name in sorted({*of_saved, *of_own}):
        before, now = of_saved.get(name, "nothing"), of_own.get(name, "nothing")
        if before == now:
            continue
        package = name.removeprefix("versions.")
        if package == name:
            raise RunFolderError(
                f"Expected {name} {before!s:.60}, with which {path} was saved, found {now!s:.60}: "
                "a run continues only with what it was started with"
            )
        terminal.tell(
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
