"""What `--data` names: the files that stand for shards, by domain and side, and all that lies
beside them."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple

from bydore_pyro.data import (
    LISTS,
    SPLITS,
    check_name,
    domain_of,
    files_below,
    is_remote,
    read_list,
    side_of,
    split_named,
)
from bydore_pyro.shards.formats import READERS, Reader
from bydore_pyro.shards.names import require_all
from bydore_pyro.utils import DataError

Split = Literal["train", "validation"]


class ShardFile(NamedTuple):
    """A file that stands for a shard, how it is read, and the side that its name tells, None where
    it is to test on; `split` is the name that tells it."""

    path: Path
    reader: Reader
    side: Split | None
    split: str = ""


#: Files of a domain: "train" alone where none is held out.
Sides = dict[Split, list[ShardFile]]


class Beside(NamedTuple):
    """Another file that lies there, how its format is read, and why it is no shard: its name says
    that no text of its own is in it, or that it is to test on, or it has another ending."""

    path: Path
    reader: Reader
    why: Literal["no text", "test", "ending"]


class Places(NamedTuple):
    """Shards by domain and side, and other files that lie there."""

    domains: dict[str, Sides]
    beside: list[Beside]


def names_shards(data: str) -> bool:
    """Whether `--data` names token shards: by a format's name and a colon, or in a list of domains
    that can be read."""
    path = Path(data)
    if path.suffix in LISTS and path.is_file():
        with suppress(DataError):  # who reads it says so
            entries = read_list(path).values()
            return any(names_shards(p) for e in entries for p in (*e.train, *(e.validation or ())))
        return False
    kind, colon, _ = data.partition(":")
    return bool(colon) and kind in READERS


def shard_files(data: str) -> Places:
    """Returns the files that stand for shards.

    Args:
        data: A format's name, a colon, and a prefix, a folder or a pattern. What the first star of
            a pattern stands for names the domain, two stars stand for any folders, and a folder is
            a pattern of all that lies in it. What a match holds, as a folder, belongs to it. Or a
            list of domains whose places are such.

    Raises:
        DataError: When there are none, no place or an address is named, a folder of them is empty,
            a domain has a name that cannot be used, or something that is named is no file that can
            be read, as a link that leads nowhere.
    """
    path = Path(data)
    if path.suffix in LISTS and path.is_file():
        return _listed(path)
    kind, _, pattern = data.partition(":")
    _require_place(kind, pattern)
    if Path(pattern).is_dir():
        pattern = f"{pattern.rstrip('/')}/*"
    domains: dict[str, list[ShardFile]] = {}
    found = Places({}, [])
    for name, file in _found(kind, pattern, found, named=True):
        check_name(name)
        domains.setdefault(name, []).append(file)
    if not domains:
        endings = ", ".join(READERS[kind].endings)
        raise DataError(
            f"Expected shards of {kind} ({endings}), found none for '{pattern}'"
            f"{_without_text(found.beside)}"
        )
    found.domains.update({name: _by_side(files, found) for name, files in domains.items()})
    return found


def _without_text(beside: Sequence[Beside]) -> str:
    """What to add where no shards are found: how many files hold no text, by their names."""
    names = [file.path.name for file in beside if file.why == "no text"]
    return f"; files that hold no text by their names: {len(names)} ({names[0]})" if names else ""


def _require_place(kind: str, pattern: str) -> None:
    """Refuses what names no place on a disk; nothing would stand for the root of the disk."""
    if not pattern:
        raise DataError(f"Expected a folder, prefix or pattern behind '{kind}:', found none")
    if is_remote(pattern):
        raise DataError(
            f"Expected shards on a disk, where they are read in place, found an address: {pattern}"
        )


def _listed(listing: Path) -> Places:
    found = Places({}, [])

    def files_of(name: str, places: Iterable[str]) -> list[ShardFile]:
        files: list[ShardFile] = []
        for place in places:
            kind, _, pattern = place.partition(":")
            if kind not in READERS or not pattern:
                raise DataError(
                    f"Expected shards in every domain, as {next(iter(READERS))}:PATH, found "
                    f"'{place}' for '{name}' in {listing}"
                )
            _require_place(kind, pattern)
            whole = str(listing.parent / pattern)
            own = [file for _, file in _found(kind, whole, found, named=False)]
            if not own:
                raise DataError(
                    f"Expected shards, found none for '{place}' of '{name}' in {listing}"
                    f"{_without_text(found.beside)}"
                )
            files += own
        return files

    for name, entry in read_list(listing).items():
        train = files_of(name, entry.train)
        found.domains[name] = _by_side(train, found)
        if entry.validation is not None:
            held_out = files_of(name, entry.validation)
            found.domains[name] = {"train": train, "validation": held_out}
    return found


def _found(
    kind: str, pattern: str, found: Places, *, named: bool
) -> Iterator[tuple[str, ShardFile]]:
    """Yields the shards that a pattern matches, and those in folders that it matches if it does not
    tell the files' ending, with what the first star stands for; other files become `beside`.

    A side is told by the names of folders and files from the star on, or behind what it stands for
    where this names the domain.
    """
    reader = READERS[kind]
    told = next((ending for ending in reader.endings if pattern.endswith(ending)), "")
    pattern = pattern.removesuffix(told)
    before, star, _ = pattern.partition("*")
    depth = len(Path(f"{before}*").parts) if star else len(Path(pattern).parts)
    of_side, starred = depth - (bool(star) and not named), depth - bool(star)
    pieces = re.split(r"(\*\*/|\*\*|\*)", pattern)
    stars = {"**/": r"((?:[^/]+/)*)", "**": "(.*)", "*": "([^/]*)"}
    stands_for = re.compile("".join(stars.get(p, re.escape(p)) for p in pieces))
    escaped = "".join(p if p in stars else glob.escape(p) for p in pieces)
    tops = [] if told else [(top, Path(top)) for top in glob.glob(escaped, recursive=True)]
    known = (*reader.endings, *reader.own)
    tops = [(t, path) for t, path in tops if _is_odd(path) or not path.as_posix().endswith(known)]
    for ending in [told] if told else [e for e in known if not e.startswith("/")]:
        files = glob.glob(f"{escaped}{ending}", recursive=True)
        tops += [(file.removesuffix(ending), Path(file)) for file in files]
    if pieces[1:2] == ["**/"] or pieces[1:2] == ["**"]:  # folders come with what lies in them
        tops = [(top, path) for top, path in tops if not path.is_dir()]
    shards = []
    for top, path in sorted(set(tops)):
        match = stands_for.fullmatch(top)
        name = (match[1].strip("/") if match and star else "") or Path(top).name
        name = "/".join(part for part in name.split("/") if not split_named(part)) or name
        count, own = 0, False
        for file in files_below(path, empty=True):
            if _is_odd(file):
                what = (
                    "an empty folder" if file.is_dir() else "a link that leads nowhere, or a pipe"
                )
                raise DataError(f"Expected files of shards, found {what}: {file}")
            has_text, ending = reader.has_text(file, starred), file.as_posix()
            if has_text and ending.endswith(reader.endings):
                parts = file.parts[of_side:]
                split = next((p for p in parts[:-1] if split_named(p)), "")
                shards.append((name, file))
                yield domain_of(name), ShardFile(file, reader, side_of(parts), split)
                count += 1
            else:
                found.beside.append(Beside(file, reader, "ending" if has_text else "no text"))
                own |= has_text and ending.endswith(reader.own or "\0")
        if path.is_dir() and not count and own:
            raise DataError(f"Expected shards of {kind} in every folder, found none in {path}")
    require_all(shards, starred)


def _is_odd(path: Path) -> bool:
    return not path.is_file() and (path.is_symlink() or path.exists())


def _by_side(files: Iterable[ShardFile], found: Places) -> Sides:
    """Files by the sides that their names tell; all are to train on where none is held out."""
    files = _wholes(list(files), found)
    if not any(file.side == "validation" for file in files):
        return {"train": files}
    found.beside.extend(Beside(f.path, f.reader, "test") for f in files if f.side is None)
    sides: Sides = {side: [file for file in files if file.side == side] for side in SPLITS}
    for own in sides.values():
        splits = sorted({file.split for file in own if file.split})
        for one, other in pairwise(splits):
            if re.match(rf"{re.escape(one)}[-_.]\D", other):
                raise DataError(
                    f"Expected one of {one} and {other}, which may be a part of it, found both: "
                    f"{own[0].path.parent}"
                )
    return sides


def _wholes(files: list[ShardFile], found: Places) -> list[ShardFile]:
    """Leaves out levanter's parts below the cache that they became."""
    (deep,) = READERS["levanter"].endings
    homes = {
        f.path.as_posix().removesuffix(deep) for f in files if f.path.as_posix().endswith(deep)
    }
    parts = [f for f in files if any(f.path.as_posix().startswith(f"{home}/") and
             f.path.as_posix() != home + deep for home in homes)]  # fmt: skip
    found.beside.extend(Beside(file.path, file.reader, "ending") for file in parts)
    return [file for file in files if file not in parts]
