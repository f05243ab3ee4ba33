"""What `--data` names: the files that stand for shards, by domain and side."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from bydore_pyro.data import LISTS, SPLITS, check_name, read_list, side_of
from bydore_pyro.shards.formats import READERS, Reader
from bydore_pyro.utils import DataError

__all__ = ["ShardFile", "Sides", "names_shards", "shard_files"]

Split = Literal["train", "validation"]


class ShardFile(NamedTuple):
    """A file that stands for a shard, how it is read, and the side that its name tells."""

    path: Path
    reader: Reader
    side: Split | None


#: Files of a domain: "train" alone where none is held out.
Sides = dict[Split, list[ShardFile]]


def names_shards(data: str) -> bool:
    """Whether `--data` names token shards: by a format's name and a colon, or in a list of domains.

    Raises:
        DataError: When it is a list of domains that cannot be read.
    """
    path = Path(data)
    if path.suffix in LISTS and path.is_file():
        entries = read_list(path).values()
        return any(names_shards(p) for e in entries for p in (*e.train, *(e.validation or ())))
    kind, colon, _ = data.partition(":")
    return bool(colon) and kind in READERS


def shard_files(data: str) -> dict[str, Sides]:
    """Returns the files that stand for shards, by domain and side.

    Args:
        data: A format's name, a colon, and a prefix, a folder or a pattern. What the first star of
            a pattern stands for names the domain, and a folder is a pattern of all that lies in it.
            What a match holds, as a folder, belongs to it. Or a list of domains whose places are
            such.

    Raises:
        DataError: When there are none, or a domain has a name that cannot be used.
    """
    path = Path(data)
    if path.suffix in LISTS and path.is_file():
        return _listed(path)
    kind, _, pattern = data.partition(":")
    if Path(pattern).is_dir():
        pattern = f"{pattern.rstrip('/')}/*"
    domains: dict[str, list[ShardFile]] = {}
    for name, file in _found(kind, pattern, named=True):
        check_name(name)
        domains.setdefault(name, []).append(file)
    if not domains:
        endings = ", ".join(READERS[kind].endings)
        raise DataError(f"Expected shards of {kind} ({endings}), found none for '{pattern}'")
    return {name: _by_side(files) for name, files in domains.items()}


def _listed(listing: Path) -> dict[str, Sides]:
    """Files by domain and side, out of a list of domains."""

    def files_of(name: str, place: str) -> list[ShardFile]:
        kind, _, pattern = place.partition(":")
        if kind not in READERS or not pattern:
            raise DataError(
                f"Expected shards in every domain, as {next(iter(READERS))}:PATH, found '{place}' "
                f"for '{name}' in {listing}"
            )
        files = [file for _, file in _found(kind, str(listing.parent / pattern), named=False)]
        if not files:
            raise DataError(f"Expected shards, found none for '{place}' of '{name}' in {listing}")
        return files

    domains = {}
    for name, entry in read_list(listing).items():
        train = [file for place in entry.train for file in files_of(name, place)]
        domains[name] = _by_side(train)
        if entry.validation is not None:
            held_out = [file for place in entry.validation for file in files_of(name, place)]
            domains[name] = {"train": train, "validation": held_out}
    return domains


def _found(kind: str, pattern: str, *, named: bool) -> Iterator[tuple[str, ShardFile]]:
    """Yields the files that a pattern matches, and those in folders that it matches if it does not
    tell the files' ending, with what the first star stands for.

    A side is told by the names of folders and files from the star on, or behind what it stands for
    where this names the domain.
    """
    reader = READERS[kind]
    told = next((ending for ending in reader.endings if pattern.endswith(ending)), "")
    pattern = pattern.removesuffix(told)
    before, star, _ = pattern.partition("*")
    depth = len(Path(f"{before}*").parts) - (not named) if star else len(Path(pattern).parts)
    escaped = "*".join(map(glob.escape, pattern.split("*")))
    stands_for = re.compile(re.escape(pattern).replace(r"\*", "([^/]*)"))
    tops = [(top, Path(top)) for top in glob.glob(escaped) if Path(top).is_dir() and not told]
    for ending in [told] if told else reader.endings:
        files = glob.glob(f"{escaped}{ending}")
        tops += [(file.removesuffix(ending), Path(file)) for file in files]
    for top, path in sorted(tops):
        match = stands_for.fullmatch(top)
        name = (match[1] if match and star else "") or Path(top).name
        below = (
            [path] if path.is_file() else [p for e in reader.endings for p in path.rglob(f"*{e}")]
        )
        for file in sorted(below):
            if file.is_file():
                yield name, ShardFile(file, reader, side_of(file.parts[depth:]))


def _by_side(files: Iterable[ShardFile]) -> Sides:
    """Files by the sides that their names tell; all are to train on where none is held out."""
    files = list(files)
    if not any(file.side == "validation" for file in files):
        return {"train": files}
    return {side: [file for file in files if file.side == side] for side in SPLITS}
