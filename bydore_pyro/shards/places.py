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
    check_name,
    domain_of,
    domain_parts,
    files_below,
    is_remote,
    named_sides,
    read_list,
    sides_beside,
    word_of,
)
from bydore_pyro.errors import DataError
from bydore_pyro.shards.formats import READERS, Reader
from bydore_pyro.shards.names import require_all

Split = Literal["train", "validation"]


class ShardFile(NamedTuple):
    """A file that stands for a shard.

    Attributes:
        path: Of the file.
        reader: How it is read.
        side: The side of a split that names decide; None where none does.
        split: The name of the folder that decides it, "" without such.
        called: A name of held-out text that does not decide, or None.
    """

    path: Path
    reader: Reader
    side: Literal["train", "validation", "test"] | None = None
    split: str = ""
    called: str | None = None


#: Files of a domain: "train" alone where none is held out.
Sides = dict[Split, list[ShardFile]]


class Beside(NamedTuple):
    """Another file that lies there, how its format is read, and why it is not read as a shard: its
    name says that no text of its own is in it ("no text"), it is of a split that is left out ("test
    split"), or it has another ending ("ending")."""

    path: Path
    reader: Reader
    why: str


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
            a domain has a name that cannot be used, sides of a split stand where domains should,
            or something that is named is no file that can be read, as a link that leads nowhere.
    """
    path = Path(data)
    if path.suffix in LISTS and path.is_file():
        return _listed(path)
    kind, _, pattern = data.partition(":")
    _require_place(kind, pattern)
    if Path(pattern).is_dir():
        pattern = f"{pattern.rstrip('/')}/*"
    found = Places({}, [])
    domains = _found(kind, pattern, found, named=True)
    if not domains:
        endings = ", ".join(READERS[kind].endings)
        raise DataError(
            f"Expected shards of {kind} ({endings}), found none for '{pattern}'"
            f"{_without_text(found.beside)}"
        )
    if sides := sides_beside(domains):
        raise DataError(
            f"Expected domains in '{pattern}', found names of the sides of a split, {sides[0]} "
            f"and {sides[1]}: put the shards of each domain into one folder, let a star "
            "stand for the domain alone, or name them in a list of domains (.yaml)"
        )
    for name, files in domains.items():
        check_name(name)
        found.domains[name] = _by_side(files, found)
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
            own = _found(kind, str(listing.parent / pattern), found, named=False)
            if not own:
                raise DataError(
                    f"Expected shards, found none for '{place}' of '{name}' in {listing}"
                    f"{_without_text(found.beside)}"
                )
            files += [file for inside in own.values() for file in inside]
        return files

    for name, entry in read_list(listing).items():
        train = files_of(name, entry.train)
        if entry.validation is None:
            found.domains[name] = _by_side(train, found)
        else:
            held_out = files_of(name, entry.validation)
            kept = _without(train, found, "validation", "test")
            found.domains[name] = {"train": kept, "validation": held_out}
    return found


def _found(kind: str, pattern: str, found: Places, *, named: bool) -> dict[str, list[ShardFile]]:
    """Returns the shards that a pattern matches, and those in folders that it matches if it does
    not tell the files' ending, by domain; other files become `beside`.

    What the first star stands for is the domain, if it is to be `named`. Sides are told by the
    names of folders and files behind that, or from the first star on where it stands for a part of
    a name or for folders of any depth.
    """
    reader = READERS[kind]
    told = next((ending for ending in reader.endings if pattern.endswith(ending)), "")
    pattern = pattern.removesuffix(told)
    before, star, _ = pattern.partition("*")
    depth = len(Path(f"{before}*").parts) if star else len(Path(pattern).parts)
    starred = depth - bool(star)
    pieces = re.split(r"(\*\*/|\*\*|\*)", pattern)
    is_tree = named and pieces[1:2] in (["**/"], ["**"])
    is_folder = named and not is_tree and (Path(pattern).parts[starred:depth] == ("*",))
    of_side = depth if is_folder else starred
    domains: dict[str, list[Path]] = {}
    for name, path in _matches(pattern, pieces, told, reader):
        count, own = 0, False
        for file in files_below(path, empty=True):
            if _is_odd(file):
                what = (
                    "an empty folder" if file.is_dir() else "a link that leads nowhere, or a pipe"
                )
                raise DataError(f"Expected files of shards, found {what}: {file}")
            has_text, ending = reader.has_text(file, starred), file.as_posix()
            if has_text and ending.endswith(reader.endings):
                domains.setdefault(name, []).append(file)
                count += 1
            else:
                found.beside.append(Beside(file, reader, "ending" if has_text else "no text"))
                own |= has_text and ending.endswith(reader.own or "\0")
        if path.is_dir() and not count and own:
            raise DataError(f"Expected shards of {kind} in every folder, found none in {path}")
    # In a tree, and in a place of a list, sides stand beside each other in folders of all names.
    whole = [(name, file) for name, files in domains.items() for file in files]
    apart = [[(name, file) for file in files] for name, files in domains.items()]
    shards: dict[str, list[ShardFile]] = {}
    for group in [whole] if is_tree or not named else apart:
        for name, shard, above in _sided(group, reader, of_side):
            domain = domain_of("/".join(above) if is_tree and above else name)
            shards.setdefault(domain, []).append(shard)
    require_all([(name, file.path) for name, own in shards.items() for file in own], starred)
    return shards


def _sided(
    files: Sequence[tuple[str, Path]], reader: Reader, depth: int
) -> Iterator[tuple[str, ShardFile, list[str]]]:
    """Yields the shards of files that stand beside each other, with the name of each and the parts
    of it that name no side; the first `depth` parts of their paths say nothing of sides."""
    places = [file.parts[depth:] for _, file in files]
    sides = named_sides(places, lambda _: True)
    for (name, file), place, side in zip(files, places, sides, strict=True):
        folders = (place[level] for level in side.levels if level < len(place) - 1)
        split = next((folder for folder in folders if word_of(folder) == side.side), "")
        shard = ShardFile(file, reader, side.side, split, side.called)
        yield name, shard, domain_parts(name.split("/"), side)


def _matches(
    pattern: str, pieces: Sequence[str], told: str, reader: Reader
) -> Iterator[tuple[str, Path]]:
    """Yields the files and folders that a pattern without its ending matches, with what its first
    star stands for; without a star with their name."""
    stars = {"**/": r"((?:[^/]+/)*)", "**": "(.*)", "*": "([^/]*)"}
    stands_for = re.compile("".join(stars.get(p, re.escape(p)) for p in pieces))
    escaped = "".join(p if p in stars else glob.escape(p) for p in pieces)
    tops = [] if told else [(top, Path(top)) for top in glob.glob(escaped, recursive=True)]
    known = (*reader.endings, *reader.own)
    tops = [(t, path) for t, path in tops if _is_odd(path) or not path.as_posix().endswith(known)]
    for ending in [told] if told else [e for e in known if not e.startswith("/")]:
        files = glob.glob(f"{escaped}{ending}", recursive=True)
        tops += [(file.removesuffix(ending), Path(file)) for file in files]
    if pieces[1:2] in (["**/"], ["**"]):  # folders come with what lies in them
        tops = [(top, path) for top, path in tops if not path.is_dir()]
    for top, path in sorted(set(tops)):
        match = stands_for.fullmatch(top)
        name = match[1].strip("/") if match and len(pieces) > 1 else ""
        yield name or Path(top).name, path


def _is_odd(path: Path) -> bool:
    return not path.is_file() and (path.is_symlink() or path.exists())


def _by_side(files: Iterable[ShardFile], found: Places) -> Sides:
    """Files by the sides that their names decide. A test split is left out; all others are to train
    on where none is held out.

    Raises:
        DataError: When nothing but a test split is there, or a split and what may be a part of it.
    """
    whole = _wholes(list(files), found)
    files = _without(whole, found, "test")
    if not files:
        raise DataError(f"Expected text to train on, found a test split alone: {whole[0].path}")
    held_out = [file for file in files if file.side == "validation"]
    if not held_out:
        return {"train": files}
    train = [file for file in files if file.side != "validation"]
    for own in (train, held_out):
        splits = sorted({file.split for file in own if file.split})
        for one, other in pairwise(splits):
            if re.match(rf"{re.escape(one)}[-_.]\D", other):
                raise DataError(
                    f"Expected one of {one} and {other}, which may be a part of it, found both: "
                    f"{own[0].path.parent}"
                )
    return {"train": train, "validation": held_out}


def _without(files: Sequence[ShardFile], found: Places, *sides: str) -> list[ShardFile]:
    """Leaves out the files of some sides of a split, which are counted."""
    for file in files:
        if file.side in sides:
            found.beside.append(Beside(file.path, file.reader, f"{file.side} split"))
    return [file for file in files if file.side not in sides]


def _wholes(files: list[ShardFile], found: Places) -> list[ShardFile]:
    """Leaves out levanter's parts below the cache that they became."""
    (deep,) = READERS["levanter"].endings
    names = {file: file.path.as_posix() for file in files}
    homes = {name.removesuffix(deep) for name in names.values() if name.endswith(deep)}
    parts = [
        file
        for file, name in names.items()
        if any(name.startswith(f"{home}/") and name != home + deep for home in homes)
    ]
    found.beside.extend(Beside(file.path, file.reader, "ending") for file in parts)
    return [file for file in files if file not in parts]
