"""What `--data` can name: the environment, a folder, a list of domains, the Pile."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from bydore_pyro.corpus import SourceFile, read_text
from bydore_pyro.environment import environment_sources
from bydore_pyro.errors import DataError
from bydore_pyro.pile import PILE_COLUMN, PILE_DOMAINS
from bydore_pyro.rows import RowConfig, RowReader, is_row_file

__all__ = ["Sources", "list_sources"]

Sources = dict[str, list[SourceFile]]
Split = Literal["train", "validation"]

LISTS = (".json", ".yaml", ".yml")
# Names by which `datasets` knows the sides of a split.
VALIDATION = {"validation", "valid", "val", "dev"}
TEST = {"test", "testing"}
PILE = "pile:"
NAMES = ("train", "validation", "text_column", "domain_column", "domain")


def list_sources(data: str, rows: RowConfig, progress: Callable[[str], None]) -> Sources:
    """Lists the files of every domain; opens none but a list of domains.

    Args:
        data: ``"environment"``; a folder of domains; a JSON or YAML file that lists domains; or
            ``"pile:FOLDER"``, files of the Pile. With a `domain_column`, a file of rows or a folder
            of them.
        rows: The columns of files of rows.
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
        return _pile(Path(data.removeprefix(PILE)), rows)
    path = Path(data)
    if path.is_file() and path.suffix in LISTS:
        return _listed(path, rows)
    if rows.domain_column is not None:
        return _by_column(path, rows)
    return _folder(path, rows)


def _folder(folder: Path, rows: RowConfig) -> Sources:
    """Each sub-folder is a domain, and each file of rows or of text (.txt) beside them."""
    if not folder.is_dir():
        raise DataError(
            "Expected --data 'environment', 'pile:FOLDER', a folder or a list of domains (.json, "
            f".yaml), found no folder {folder}"
        )
    entries = sorted(
        p
        for p in folder.iterdir()
        if not p.name.startswith(".") and (p.is_dir() or is_row_file(p) or p.suffix == ".txt")
    )
    sources: Sources = {}
    for entry in entries:
        name = entry.name if entry.is_dir() else entry.name.split(".")[0]
        _check_name(name)
        if name in sources:
            raise DataError(f"Expected every domain once, found '{name}' twice in {folder}")
        sources[name] = _files(entry, rows, folder)
    if not sources:
        raise DataError(f"Expected a sub-folder or a file a domain, found none in {folder}")
    return sources


def _files(entry: Path, rows: RowConfig, root: Path) -> list[SourceFile]:
    """Lists the files of a domain; names that begin with `validation` or `test` tell the split.

    Where there is validation text of its own, test files are left out.
    """
    files = _walk(entry)
    if not files:
        raise DataError(f"Expected text files, found none in {entry}")
    held_out = {p for p in files if _named(p, entry, VALIDATION)}
    if not held_out:
        return [_source(p, rows, root, None) for p in files]
    files = [p for p in files if not _named(p, entry, TEST)]
    return [_source(p, rows, root, "validation" if p in held_out else "train") for p in files]


def _walk(path: Path) -> list[Path]:
    """Lists the files below a path, itself where it is one; a saved dataset counts as a file."""
    if path.is_file() or (path.is_dir() and is_row_file(path)):
        return [path]
    if not path.is_dir():
        return []
    inside = (p for p in path.iterdir() if not p.name.startswith("."))
    return [f for p in sorted(inside) if not (p.is_symlink() and p.is_dir()) for f in _walk(p)]


def _named(path: Path, entry: Path, names: set[str]) -> bool:
    """Whether a file below `entry`, or a folder on the way to it, is named like a split."""
    parts = path.relative_to(entry).parts
    return any(re.split(r"[^a-z]", part.lower())[0] in names for part in parts)


def _source(
    path: Path, rows: RowConfig, root: Path, split: Split | None, domain: str | None = None
) -> SourceFile:
    if path.stat().st_size == 0:
        raise DataError(f"Expected text, found an empty file: {path}")
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()
    read = RowReader(rows, domain) if is_row_file(path) else read_text
    return SourceFile(name, path, read, split)


def _by_column(path: Path, rows: RowConfig) -> Sources:
    """Files of rows whose domain stands in a column."""
    files = _row_files(path)
    found: dict[str, None] = {}
    for file in files:
        found |= dict.fromkeys(RowReader(rows).domains(file))
    if not found:
        raise DataError(f"Expected domains in column '{rows.domain_column}', found none in {path}")
    for name in found:
        _check_name(name)
    return {
        name: [_source(f, rows, path, None, domain=name) for f in files] for name in sorted(found)
    }


def _row_files(path: Path) -> list[Path]:
    files = [p for p in _walk(path) if is_row_file(p)]
    if not files:
        raise DataError(
            f"Expected .jsonl, .jsonl.gz, .jsonl.zst, .parquet or .arrow files, found none: {path}"
        )
    return files


def _pile(path: Path, rows: RowConfig) -> Sources:
    """The Pile's published domains, by their short names."""
    config = RowConfig(
        text_column=rows.text_column,
        domain_column=rows.domain_column or PILE_COLUMN,
        on_error=rows.on_error,
    )
    files = _row_files(path)
    return {
        short: [_source(f, config, path, None, domain=public) for f in files]
        for public, short in PILE_DOMAINS.items()
    }


def _listed(path: Path, rows: RowConfig) -> Sources:
    """A JSON or YAML file: domains by name, each a path, paths, or a mapping (see the README)."""
    try:
        if path.suffix == ".json":
            content = json.loads(path.read_text("utf-8"), object_pairs_hook=_once)
        else:
            content = _yaml(path.read_text("utf-8"))
    except DataError as error:
        raise DataError(f"{error} in {path}") from None
    except Exception as error:  # json and yaml raise their own
        reason = " ".join(str(error).split())[:200]
        raise DataError(
            f"Expected a list of domains, found a broken file {path}: {reason}"
        ) from None
    domains = content.get("domains") if isinstance(content, Mapping) else None
    if not isinstance(domains, Mapping) or not domains:
        raise DataError(f"Expected 'domains:' with names and their sources, found none in {path}")
    return {str(name): _entry(str(name), entry, rows, path) for name, entry in domains.items()}


def _yaml(text: str) -> Any:
    import yaml

    def check(node: yaml.Node | None) -> None:
        if isinstance(node, yaml.MappingNode):
            _once([(key.value, None) for key, _ in node.value])
            for _, value in node.value:
                check(value)

    check(yaml.compose(text, yaml.SafeLoader))
    return yaml.safe_load(text)


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    for name, _ in pairs:
        if [key for key, _ in pairs].count(name) > 1:
            raise DataError(f"Expected every name once, found '{name}' twice")
    return dict(pairs)


def _entry(name: str, entry: Any, rows: RowConfig, listing: Path) -> list[SourceFile]:
    """The files of one domain of a list."""
    _check_name(name)
    where = f"domain '{name}' in {listing}"
    if not isinstance(entry, Mapping):
        entry = {"train": entry}
    unknown = set(entry) - set(NAMES)
    if unknown or "train" not in entry:
        raise DataError(f"Expected {', '.join(NAMES)} with at least train, found "
                        f"{', '.join(map(str, entry)) or 'nothing'} for {where}")  # fmt: skip
    config = RowConfig(
        text_column=str(entry.get("text_column", rows.text_column)),
        domain_column=entry.get("domain_column", rows.domain_column),
        on_error=rows.on_error,
    )
    domain = str(entry.get("domain", name)) if config.domain_column else None
    files = []
    for key in ("train", "validation"):
        split: Split | None = None if "validation" not in entry else key
        named = entry.get(key, [])
        for pattern in [named] if isinstance(named, str) else named:
            if not isinstance(pattern, str):
                raise DataError(f"Expected a path, found {pattern!r} for {where}")
            found = _glob(listing.parent, pattern)
            if not found:
                raise DataError(f"Expected a file, found none for '{pattern}' of {where}")
            files += [_source(p, config, listing.parent, split, domain) for p in found]
    if not files:
        raise DataError(f"Expected at least one file, found none for {where}")
    return files


def _glob(folder: Path, pattern: str) -> list[Path]:
    path = folder / pattern
    if path.exists():
        return _walk(path)
    anchor = Path(path.anchor)
    return sorted(p for p in anchor.glob(str(path.relative_to(anchor))) if p.is_file())


def _check_name(name: str) -> None:
    """Refuses names that files, options or JSON could not carry."""
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise DataError(f"Expected a UTF-8 name of a domain, found {name!r}") from None
    if not 0 < length <= 200 or any(c in name for c in "=/\0"):
        raise DataError(
            f"Expected a domain's name of at most 200 bytes without '=' and '/', found {name!r}"
        )
