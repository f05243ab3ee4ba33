"""Where text is listed: the environment, a folder, a list of domains, the Pile, a hub dataset."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

from bydore_pyro import mixture, terminal
from bydore_pyro.data.documents import File, Split
from bydore_pyro.data.environment import environment_files
from bydore_pyro.data.index import SPLITS
from bydore_pyro.data.kinds import head, is_beside_rows, is_notice, is_row_file, is_rows_or_txt
from bydore_pyro.data.remote import is_remote, path_of, readable_place, size_and_time
from bydore_pyro.data.rows import LARGE_TEXT, Row, RowConfig, read_hub, read_rows, read_text
from bydore_pyro.data.splits import (
    CALLED,
    Named,
    check_name,
    domain_of,
    domain_parts,
    named_sides,
    sides_beside,
)
from bydore_pyro.data.streams import Part
from bydore_pyro.errors import DataError, listed, one_line
from bydore_pyro.files import readable, yaml_or_json

LISTS = (".json", ".yaml", ".yml")  # what a list of domains is named like
PILE, HUB = "pile:", "hub:"
TREE = "**"  # at the end of a path: folders of folders
KEYS = ("train", "validation", "text_column")
NO_TEXT, NO_DOMAIN = "beside the text", "neither a folder, rows nor .txt"


class LeftOut(NamedTuple):
    """A file that is not read: its name, the domain that it lies in, and the reason."""

    name: str
    domain: str | None
    reason: str


Listed = list[File | LeftOut]


class ListedDomain(NamedTuple):
    """A domain of a list: its places, without `validation` where it names no sides, and the column
    of its text, if it names one."""

    train: list[str]
    validation: list[str] | None
    text_column: str | None


def list_files(data: str, rows: RowConfig) -> tuple[list[File], list[LeftOut]]:
    """Lists the files of text, and those that are left out; opens none but a list of domains.

    Args:
        data: ``"environment"``; a folder of domains, or a tree of them, ``DATA/**``; a JSON or YAML
            file that lists domains; or ``"pile:"`` with the folder or the hub name of a copy of the
            Pile. With a `domain_column`, a file of rows, a folder of them, or ``"hub:"`` with a
            dataset's name. Folders and files may be addresses that fsspec reads.
        rows: The columns of rows.

    Raises:
        DataError: When there is no such data, it cannot be read, or a domain has no files.
    """
    with readable_place(data):
        listed_files = _listed_files(data, rows)
    files = [one for one in listed_files if isinstance(one, File)]
    left_out = [one for one in listed_files if isinstance(one, LeftOut)]
    names: dict[str, list[str]] = {}
    for one in left_out:
        names.setdefault(f"left out ({one.reason})", []).append(one.name)
    for file in files:
        if file.misleading:
            names.setdefault(CALLED, []).append(file.name)
    for what, own in names.items():
        terminal.tell(f"{what}: {listed(own, 5)}")
    return files, left_out


def _listed_files(data: str, rows: RowConfig) -> Listed:
    path = path_of(data)
    if data == "environment":
        files, missing = environment_files()
        if missing:
            terminal.tell(f"not installed, so not part of the corpus: {', '.join(missing)}")
        return [*files]
    if data.startswith(PILE):
        return _pile(data.removeprefix(PILE), rows)
    if path.is_file() and path.suffix in LISTS and not _names_domains(path, rows):
        return _listed(path, rows)
    if rows.domain_column is not None:
        return [_hub(data, rows)] if data.startswith(HUB) else _of_rows(path, rows)
    if is_row_file(path) or data.startswith(HUB):
        raise DataError(
            f"Expected --domain_column, the column with each row's domain in {data}, found none (a "
            "list of domains names whole files and datasets)"
        )
    return _folder(path, rows)


def _names_domains(path: Path, rows: RowConfig) -> bool:
    """Whether a file that may be a list of domains holds rows that name theirs."""
    return rows.domain_column is not None and is_row_file(path) and b'"domains"' not in head(path)


def _folder(folder: Path, rows: RowConfig) -> Listed:
    """Each sub-folder is a domain, and each file of rows or of text (.txt) beside them.

    Others are left out.
    """
    tree, folder = folder.name == TREE, folder.parent if folder.name == TREE else folder
    if not folder.is_dir():
        raise DataError(
            "Expected --data 'environment', a folder, a list of domains (.json, .yaml), a token "
            f"store, 'pile:' or 'hub:', found no folder '{folder}'"
        )
    entries = sorted(folder.iterdir())
    beside_each_other = [
        one.name
        for one in entries
        if _is_domain(one) and not (tree and one.is_dir()) and not one.name.startswith(".")
    ]
    if sides := sides_beside(beside_each_other):  # each would be a domain that is trained on
        raise DataError(
            "Expected a sub-folder or a file for each domain, found names of the sides of a split, "
            f"{sides[0]} and {sides[1]}, in {folder}: put the files of each domain into one "
            "folder, or name them in a list of domains (.yaml)"
        )
    domains = _tree(folder, rows) if tree else {}
    beside: Listed = []
    for entry in () if tree else entries:
        if entry.name.startswith("."):
            continue
        if not _is_domain(entry) or is_beside_rows(entry, ()):
            about = is_notice(entry) or is_beside_rows(entry, ())
            reason = NO_TEXT if about else NO_DOMAIN
            beside.append(LeftOut(_named(entry, folder), None, reason))
            continue
        name = domain_of(entry.name if entry.is_dir() else entry.name.split(".")[0])
        check_name(name)
        if name in domains:
            raise DataError(f"Expected every domain once, found '{name}' again: {entry}")
        domains[name] = _files_in(entry, rows, folder, name)
        if all(isinstance(file, LeftOut) for file in domains[name]):
            raise DataError(f"Expected text files, found none in '{entry}'")
    if not domains:
        raise DataError(
            f"Expected a sub-folder or a file for each domain, found none in '{folder}'"
        )
    return [file for files in domains.values() for file in files] + beside


def _is_domain(entry: Path) -> bool:
    return entry.is_dir() or is_rows_or_txt(entry)


def _tree(folder: Path, rows: RowConfig) -> dict[str, Listed]:
    """Each folder that holds files is a domain, called by its path without the name of a side; and
    each file beside the topmost."""
    files = files_below(folder)
    paths = [file.relative_to(folder).parts for file in files]
    found: dict[str, dict[Path, Named]] = {}
    for file, path, named in zip(files, paths, named_sides(paths), strict=True):
        above = domain_parts(path[:-1], named)
        check_name(name := domain_of("/".join(above) or file.name.split(".")[0]))
        found.setdefault(name, {})[file] = named
    return {name: _sided(folder, own, rows, folder, name) for name, own in found.items()}


def _files_in(
    path: Path,
    rows: RowConfig,
    root: Path,
    domain: str | None,
    split: Split | None = None,
    files: Sequence[Path] | None = None,
) -> Listed:
    """A file, or the files below a folder; with no `domain`, those of rows, which name theirs.

    Where the list names no side, the names of files and folders below the path do.
    """
    files = files_below(path) if files is None else files
    named = named_sides(f.relative_to(path).parts for f in files)
    return _sided(path, dict(zip(files, named, strict=True)), rows, root, domain, split)


def _sided(
    path: Path,
    files: Mapping[Path, Named],
    rows: RowConfig,
    root: Path,
    domain: str | None,
    split: Split | None = None,
) -> Listed:
    """The files of a path on the side of the list, or on those that names decide.

    Where a validation split stands, all others are training files. A test split is left out: it is
    for whoever judges the model. Where no name decides, a seed draws what is held out. Of what the
    list calls training text held-out splits are left out; all is held out that it calls so.
    """
    beside = {f for f in files if f != path and is_beside_rows(f, files)}
    if domain is None:
        beside |= {f for f in files if not is_row_file(f)}
    drawn: Split | None = None
    if any(named.side == "validation" for file, named in files.items() if file not in beside):
        drawn = "train"
    found: Listed = []
    for file, named in files.items():
        side, reason = split or drawn, NO_TEXT if file in beside else None
        if reason is None and split != "validation" and named.side not in (None, "train"):
            side = "validation"
            reason = f"{named.side} split" if split or named.side == "test" else None
        if reason:
            found.append(LeftOut(_named(file, root), domain, reason))
        else:
            listed_file = _file(file, rows, root, domain, side)
            misleading = split is None and named.called is not None
            found.append(dataclasses.replace(listed_file, misleading=misleading))
    return found


def files_below(path: Path, above: tuple[str, ...] = (), *, empty: bool = False) -> list[Path]:
    """Returns the files below a path, itself if it is a file; if asked for, `empty` folders too.

    A link to a folder that it lies in is passed over. What cannot be read, as a link that leads
    nowhere or a pipe, counts as a file: `_file` refuses or skips it.
    """
    if not path.is_dir():
        return [path]
    # `Path.resolve` raises where links lead in a circle.
    real = str(path) if is_remote(path) else os.path.realpath(path)
    if real in above:
        return []
    inside = sorted(p for p in path.iterdir() if not p.name.startswith("."))
    if empty and not inside:
        return [path]
    return [f for p in inside for f in files_below(p, (*above, real), empty=empty)]


def _file(path: Path, rows: RowConfig, root: Path, domain: str | None, side: Split | None) -> File:
    size, version, unusable = 0, 0, None
    try:
        size, version = size_and_time(path)
        if not path.is_file():
            unusable = "a pipe, socket or device"
        elif not size:
            unusable = "an empty file"
    except OSError as error:
        unusable = f"{error.strerror} (a link that leads nowhere?)"
    read: Callable[..., Iterator[Row]]
    if unusable is not None:
        if rows.on_error == "stop":
            raise DataError(f"Expected text, found {unusable}: {path}")
        size, read = 0, partial(iter, [Row(1, None)])
    elif is_row_file(path):
        read = partial(read_rows, path, rows)
    else:
        read = partial(read_text, path, rows)
    of_rows = is_row_file(path) or size > LARGE_TEXT
    return File(_named(path, root), domain, read, size, version, path, side, of_rows)


def _named(path: Path, root: Path) -> str:
    inside = is_remote(path) == is_remote(root) and path != root and path.is_relative_to(root)
    return readable(path.relative_to(root).as_posix() if inside else path.as_posix())


def _hub(name: str, rows: RowConfig, domain: str | None = None, split: Split | None = None) -> File:
    """A dataset: ``hub:owner/name`` or ``hub:owner/name:subset``, with ``@split`` at the end."""
    named, _, part = name.removeprefix(HUB).partition("@")
    dataset, _, subset = named.partition(":")
    if not dataset:
        raise DataError("Expected the name of a dataset after 'hub:', found none")
    read = partial(read_hub, dataset, rows, subset or None, part or "train")
    return File(name, domain, read, side=split, of_rows=True)


def _of_rows(path: Path, rows: RowConfig) -> Listed:
    files = _files_in(path, rows, path, None)
    if all(isinstance(file, LeftOut) for file in files):
        raise DataError(f"Expected .jsonl, .json, .csv, .tsv or .parquet files, found none: {path}")
    return files


def _pile(data: str, rows: RowConfig) -> Listed:
    """The Pile's published domains, by their short names, out of a folder or from the hub."""
    config = dataclasses.replace(rows, domain_column=rows.domain_column or mixture.PILE_COLUMN)
    if not data:
        raise DataError("Expected a folder or a hub name after 'pile:', found none")
    path = path_of(data)
    on_hub = not path.exists() and re.fullmatch(r"[\w.-]+/[\w.-]+(@\w+)?", data)

    def published(read: Callable[..., Iterator[Row]], *part: Part) -> Iterator[Row]:
        for row in read(*part):
            if row.domain in mixture.PILE_DOMAINS:
                yield row._replace(domain=mixture.PILE_DOMAINS[row.domain])
            else:  # one that was skipped, or of a withdrawn domain: both are counted
                yield row._replace(text=None, domain=None)

    names = tuple(mixture.PILE_DOMAINS.values())
    return [
        dataclasses.replace(one, read=partial(published, one.read), domains=names)
        if isinstance(one, File)
        else one
        for one in ([_hub(HUB + data, config)] if on_hub else _of_rows(path, config))
    ]


def _listed(path: Path, rows: RowConfig) -> Listed:
    """A JSON or YAML file: domains by name, each a path, paths, or a mapping."""
    if rows.domain_column is not None:
        raise DataError(
            f"Expected no --domain_column beside a list of domains, found it for {path}"
        )
    domains = read_list(path)
    return [file for name in domains for file in _entry(name, domains[name], rows, path)]


def read_list(path: Path) -> dict[str, ListedDomain]:
    """Reads a JSON or YAML list of domains: each a place, places, or a mapping of sides to these.

    Raises:
        DataError: When it is no list of domains, or what it says of one is nothing usable.
    """
    try:
        content = yaml_or_json(path.read_text("utf-8"))
    except DataError as error:
        raise DataError(f"{error} in {path}") from None
    except (OSError, ValueError) as error:
        raise DataError(
            f"Expected a list of domains, found a broken file {path}: {one_line(error)}"
        ) from None
    domains = content.get("domains") if isinstance(content, Mapping) else None
    if not isinstance(domains, Mapping) or not domains:
        raise DataError(f"Expected 'domains:' with names and their sources, found none in {path}")
    return {name: _listed_domain(name, entry, path) for name, entry in domains.items()}


def _listed_domain(name: Any, entry: Any, listing: Path) -> ListedDomain:
    if not isinstance(name, str):
        raise DataError(f"Expected the names of domains in quotes, found {name!r} in {listing}")
    check_name(name)
    where = f"domain '{name}' in {listing}"
    if not isinstance(entry, Mapping):
        entry = {"train": entry}
    if set(entry) - set(KEYS) or not {"train", "validation"} & set(entry):
        raise DataError(
            f"Expected {', '.join(KEYS)} with at least train or validation, found "
            f"{', '.join(map(str, entry)) or 'nothing'} for {where}"
        )
    column = entry.get("text_column")
    if "text_column" in entry and not isinstance(column, str):
        raise DataError(f"Expected text for text_column, found {column!r} for {where}")
    sides = {key: v if isinstance(v, list) else [v] for key, v in entry.items() if key in SPLITS}
    for side, places in sides.items():
        if not places:
            raise DataError(f"Expected at least one path for {side}, found none for {where}")
        for place in places:
            if not isinstance(place, str) or "\0" in place:
                raise DataError(f"Expected a path, found {place!r} for {where}")
    return ListedDomain(sides.get("train", []), sides.get("validation"), column)


def _entry(name: str, entry: ListedDomain, rows: RowConfig, listing: Path) -> Listed:
    where = f"domain '{name}' in {listing}"
    config = dataclasses.replace(rows, text_column=entry.text_column or rows.text_column)
    found: Listed = []
    for side in SPLITS:
        split: Split | None = None if entry.validation is None else side
        for place in getattr(entry, side) or []:
            if place.startswith(HUB):
                found.append(_hub(place, config, name, split))
                continue
            beside = place if is_remote(place) else str(listing.parent / place)
            with readable_place(place):
                path = path_of(beside)
                files = None if path.exists() else _matches(path)
                if files == []:
                    raise DataError(f"Expected a file, found none for '{place}' of {where}")
                top = path if files is None else path.parent
                found += _files_in(top, config, listing.parent, name, split, files)
    read = {one.name for one in found if isinstance(one, File)}
    if not read:
        raise DataError(f"Expected at least one file of text, found none for {where}")
    return [one for one in found if isinstance(one, File) or one.name not in read]


def _matches(path: Path) -> list[Path]:
    """The files of those that match a path, and below them: stars stand in its last part alone."""
    if is_remote(path):
        found = sorted(path.parent.glob(path.name))
    else:
        found = [path.parent / name for name in sorted(glob(path.name, root_dir=path.parent))]
    return [file for one in found for file in files_below(one)]
