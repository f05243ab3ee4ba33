"""What `--data` can name: the environment, a folder, a list of domains, the Pile, a hub dataset."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bydore_pyro.data.documents import SourceFile, Split
from bydore_pyro.data.environment import environment_sources
from bydore_pyro.data.pieces import SMALLEST_FILE_OF_PIECES, read_text
from bydore_pyro.data.rows import Row, RowConfig, is_row_file, read_hub, read_rows
from bydore_pyro.data.unchanged import size_and_time
from bydore_pyro.mixture import PILE_COLUMN, PILE_DOMAINS
from bydore_pyro.utils import DataError, one_line, readable, yaml_or_json

__all__ = ["check_name", "list_sources"]

LISTS = (".json", ".yaml", ".yml")
# Names by which `datasets` knows the sides of a split.
VALIDATION = {"validation", "valid", "val", "dev"}
TEST = {"test", "testing"}
PILE, HUB = "pile:", "hub:"
DATASETS = "dataset_dict.json"  # what `datasets.DatasetDict.save_to_disk` leaves in its folder
KEYS = ("train", "validation", "text_column", "domain_column", "domain")


def list_sources(data: str, rows: RowConfig, progress: Callable[[str], None]) -> list[SourceFile]:
    """Lists the sources of text and the domains that they feed; opens none but a list of domains.

    Args:
        data: ``"environment"``; a folder of domains; a JSON or YAML file that lists domains; or
            ``"pile:"`` with the folder or the hub name of a copy of the Pile. With a
            `domain_column`, a file of rows, a folder of them, or ``"hub:"`` with a dataset's name.
        rows: The columns of rows.
        progress: Told what is left out.

    Raises:
        DataError: When there is no such data, or a domain has no files.
    """
    if data == "environment":
        sources, missing = environment_sources()
        if missing:
            progress(f"not installed, so not part of the corpus: {', '.join(missing)}")
        return sources
    if data.startswith(PILE):
        return _pile(data.removeprefix(PILE), rows)
    if data.startswith(HUB):
        if rows.domain_column is None:
            raise DataError(
                f"Expected a domain_column that names each row's domain in {data}, found none "
                "(datasets of one domain each: name them in a list of domains)"
            )
        return _hub(data.removeprefix(HUB), rows, None, None)
    path = Path(data)
    if path.is_file() and path.suffix in LISTS:
        return _listed(path, rows)
    if rows.domain_column is not None:
        return _of_rows(path, rows)
    if is_row_file(path) or (path / DATASETS).is_file():
        raise DataError(
            f"Expected a folder of domains, found one file or dataset {path}: --domain_column "
            "names the column with each row's domain; a list of domains names whole files"
        )
    return _folder(path, rows)


def _folder(folder: Path, rows: RowConfig) -> list[SourceFile]:
    """Each sub-folder is a domain, and each file of rows or of text (.txt) beside them."""
    if not folder.is_dir():
        raise DataError(
            "Expected --data 'environment', a folder, a list of domains (.json, .yaml), a token "
            f"store, 'pile:' or 'hub:', found no folder {folder}"
        )
    entries = sorted(
        p
        for p in folder.iterdir()
        if not p.name.startswith(".") and (p.is_dir() or is_row_file(p) or p.suffix == ".txt")
    )
    domains: dict[str, list[SourceFile]] = {}
    for entry in entries:
        name = entry.name if entry.is_dir() else entry.name.split(".")[0]
        check_name(name)
        if name in domains:
            raise DataError(f"Expected every domain once, found '{name}' twice in {folder}")
        files = _walk(entry)
        if not files:
            raise DataError(f"Expected text files, found none in {entry}")
        domains[name] = [
            _source(p, rows, folder, name, split) for p, split in _with_splits(files, entry)
        ]
    if not domains:
        raise DataError(f"Expected a sub-folder or a file for each domain, found none in {folder}")
    return [source for name in domains for source in domains[name]]


def _with_splits(files: list[Path], entry: Path) -> list[tuple[Path, Split | None]]:
    """Pairs files with the side that their names tell.

    Without a validation file none is told; where there is one, test files are left out.
    """
    held_out = {p for p in files if _named(p, entry, VALIDATION)}
    if not held_out:
        return [(p, None) for p in files]
    files = [p for p in files if not _named(p, entry, TEST)]
    return [(p, "validation" if p in held_out else "train") for p in files]


def _walk(path: Path, above: tuple[str, ...] = ()) -> list[Path]:
    """Lists the files below a path, itself where it is one; a saved dataset counts as a file.

    A link to a folder that it lies in is passed over. What cannot be read, as a link that leads
    nowhere or a pipe, counts as a file: `_source` refuses or skips it.
    """
    if not path.is_dir() or is_row_file(path):
        return [path] if path.name != DATASETS else []
    real = os.path.realpath(path)  # `Path.resolve` raises where links lead in a circle
    if real in above:
        return []
    inside = (p for p in path.iterdir() if not p.name.startswith("."))
    return [f for p in sorted(inside) for f in _walk(p, (*above, real))]


def _named(path: Path, entry: Path, names: set[str]) -> bool:
    """Whether a file below `entry`, or a folder on the way to it, is named like a split.

    ``validation.jsonl.gz`` and ``validation-00000-of-00001.parquet`` are, ``dev notes.md`` is not.
    """
    parts = path.relative_to(entry).parts
    words = "|".join(sorted(names))
    return any(re.fullmatch(rf"({words})([-_]?\d[-\w]*)?(\..*)?", p.lower()) for p in parts)


def _source(
    path: Path,
    rows: RowConfig,
    root: Path,
    domain: str | None,
    split: Split | None = None,
    names: Mapping[str, str] | None = None,
) -> SourceFile:
    """One file; `domain` is None where its rows name theirs, `names` as for `read_rows`."""
    if domain is None and not is_row_file(path):
        raise DataError(f"Expected rows that name their domain, found a text file {path}")
    size, version, unusable = 0, 0, None
    try:
        size, version = size_and_time(path)
        if not (path.is_file() or path.is_dir()):
            unusable = "a pipe, socket or device"
        elif not size:
            unusable = "an empty file"
    except OSError as error:
        unusable = f"{error.strerror} (a link that leads nowhere?)"
    read: Callable[[], Iterator[Row]]
    if unusable is not None:
        if rows.on_error == "stop":
            raise DataError(f"Expected text, found {unusable}: {path}")
        size, read = 0, partial(iter, [Row(1, None)])
    elif is_row_file(path):
        read = partial(read_rows, path, rows, names)
    else:
        read = partial(read_text, path, rows.on_error)
    inside = path != root and path.is_relative_to(root)
    name = path.relative_to(root).as_posix() if inside else path.as_posix()
    return SourceFile(
        name=readable(name),
        domain=domain,
        read=read,
        size=size,
        version=version,
        split=split,
        by_row=is_row_file(path) or size > SMALLEST_FILE_OF_PIECES,
        domains=tuple((names or {}).values()),
        path=path,
    )


def _hub(
    name: str,
    rows: RowConfig,
    domain: str | None,
    split: Split | None,
    names: Mapping[str, str] | None = None,
) -> list[SourceFile]:
    """A dataset of the hub: ``owner/name``, ``owner/name:subset``, with ``@split`` at the end."""
    name, _, part = name.partition("@")
    dataset, _, subset = name.partition(":")
    if not dataset:
        raise DataError("Expected the name of a dataset after 'hub:', found none")
    read = partial(read_hub, dataset, rows, names, subset=subset or None, split=part or "train")
    domains = tuple((names or {}).values())
    place = f"hub:{name}@{part}" if part else f"hub:{name}"
    return [SourceFile(place, domain, read, split=split, by_row=True, domains=domains)]


def _of_rows(
    path: Path, rows: RowConfig, names: Mapping[str, str] | None = None
) -> list[SourceFile]:
    """Files of rows that name their domains, with the sides that the files' names tell."""
    files = [p for p in _walk(path) if is_row_file(p)]
    if not files:
        raise DataError(
            f"Expected .jsonl, .jsonl.gz, .jsonl.zst, .parquet or .arrow files, found none: {path}"
        )
    return [_source(f, rows, path, None, side, names) for f, side in _with_splits(files, path)]


def _pile(data: str, rows: RowConfig) -> list[SourceFile]:
    """The Pile's published domains, by their short names, out of a folder or from the hub."""
    config = dataclasses.replace(rows, domain_column=rows.domain_column or PILE_COLUMN)
    if not data:
        raise DataError("Expected a folder or a hub name after 'pile:', found none")
    path = Path(data)
    if not path.exists() and re.fullmatch(r"[\w.-]+/[\w.-]+(@\w+)?", data):
        return _hub(data, config, None, None, PILE_DOMAINS)
    return _of_rows(path, config, PILE_DOMAINS)


def _listed(path: Path, rows: RowConfig) -> list[SourceFile]:
    """A JSON or YAML file: domains by name, each a path, paths, or a mapping (see the README)."""
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
    for name in domains:
        if not isinstance(name, str):
            raise DataError(f"Expected the names of domains in quotes, found {name!r} in {path}")
    return [s for name, entry in domains.items() for s in _entry(name, entry, rows, path)]


def _entry(name: str, entry: Any, rows: RowConfig, listing: Path) -> list[SourceFile]:
    """The files of one domain of a list."""
    check_name(name)
    where = f"domain '{name}' in {listing}"
    if not isinstance(entry, Mapping):
        entry = {"train": entry}
    unknown = set(entry) - set(KEYS)
    if unknown or not {"train", "validation"} & set(entry):
        raise DataError(f"Expected {', '.join(KEYS)} with at least train or validation, found "
                        f"{', '.join(map(str, entry)) or 'nothing'} for {where}")  # fmt: skip
    for option in ("text_column", "domain_column", "domain"):
        if option in entry and not isinstance(entry[option], str):
            raise DataError(f"Expected text for {option}, found {entry[option]!r} for {where}")
    config = RowConfig(
        text_column=entry.get("text_column", rows.text_column),
        domain_column=entry.get("domain_column", rows.domain_column),
        on_error=rows.on_error,
    )
    if "domain" in entry and config.domain_column is None:
        raise DataError(f"Expected a domain_column beside domain, found none for {where}")
    names = {str(entry.get("domain", name)): name} if config.domain_column else None
    fixed = name if names is None else None
    sources = []
    for key in ("train", "validation"):
        split: Split | None = None if "validation" not in entry else key
        named = entry.get(key, [])
        if not isinstance(named, (str, list)):
            raise DataError(f"Expected a path or paths for {key}, found {named!r} for {where}")
        for pattern in [named] if isinstance(named, str) else named:
            if not isinstance(pattern, str):
                raise DataError(f"Expected a path, found {pattern!r} for {where}")
            if pattern.startswith(HUB):
                sources += _hub(pattern.removeprefix(HUB), config, fixed, split, names)
                continue
            try:
                found = _glob(listing.parent, pattern)
            except ValueError as error:
                told = f"Expected a path, found '{pattern}' for {where}: {error}"
                raise DataError(told) from None
            if not found:
                raise DataError(f"Expected a file, found none for '{pattern}' of {where}")
            folder = listing.parent / pattern
            sides: list[tuple[Path, Split | None]] = [(p, split) for p in found]
            if split is None and folder.is_dir():
                sides = _with_splits(found, folder)
            sources += [_source(p, config, listing.parent, fixed, side, names) for p, side in sides]
    if not sources:
        raise DataError(f"Expected at least one file, found none for {where}")
    return sources


def _glob(folder: Path, pattern: str) -> list[Path]:
    path = folder / pattern
    if path.exists():
        return _walk(path)
    if Path(pattern).is_absolute():
        folder, pattern = Path(path.anchor), str(path.relative_to(path.anchor))
    if Path(pattern).name == "**":
        pattern = f"{pattern}/*"  # alone it finds folders, and files in newer Pythons only
    named = Path(pattern).parts
    # Unlike `glob`, `Path.glob` follows no links into folders for "**", nor in circles.
    return sorted(
        found
        for found in folder.glob(pattern)
        if not found.is_dir()
        and all(p in named or not p.startswith(".") for p in found.relative_to(folder).parts)
    )


def check_name(name: str) -> None:
    """Refuses names that files, options or JSON could not carry.

    Raises:
        DataError: When a name is no UTF-8, is empty, is longer than 200 bytes, or holds '=', '/' or
            a null byte.
    """
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise DataError(f"Expected a UTF-8 name of a domain, found {name!r}") from None
    if not 0 < length <= 200 or any(c in name for c in "=/\0"):
        raise DataError(
            f"Expected a domain's name of at most 200 bytes without '=' and '/', found {name!r}"
        )
