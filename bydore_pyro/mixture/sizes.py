"""How much text there is of each domain, as a user says it: `--domain_tokens`.

An entry is `NAME=TOKENS`, or a file of many:

| content | tokens |
|---|---|
| JSON, YAML or TOML of names and numbers | `web: 1.3T` |
| the same with more of each domain | `web: {tokens: 1.3T, documents: 2B}` |
| a table with the columns `domain` and `tokens`, and perhaps `documents`; or of two columns | \
`web,1.3T` |
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bydore_pyro import files, terminal
from bydore_pyro.errors import expecting, listed
from bydore_pyro.mixture.listed import COMMENT, is_number, number_of
from bydore_pyro.mixture.names import matched
from bydore_pyro.mixture.parsing import parsed, without_comments
from bydore_pyro.mixture.sheets import column_of, sheets_of, weights_of_sheet
from bydore_pyro.mixture.units import Supply

OPTION = "--domain_tokens"
SHOWN = 10  # names in a line


def supply_from(entries: Sequence[str], names: Collection[str] = ()) -> dict[str, Supply]:
    """Reads how much text there is of each domain.

    Args:
        entries: Files, and `NAME=TOKENS`.
        names: The domains that it is asked about, if known. Names are matched to these (`matched`),
            and it is said which match, and which are none of these.

    Raises:
        DataError: When a file is no such, a number is not above 0, or a name stands twice, also
            after it was matched.
    """
    found: list[tuple[str, Supply]] = []
    for entry in entries:
        found += _of_file(Path(entry)) if _is_file(entry) else [_of_entry(entry)]
    with expecting(f"Expected the tokens of domains with {OPTION}, found:", ValueError):
        there = files.unique_keys(found)
    if not names:
        return there
    called = matched(there, names)
    if called:
        pairs = listed([f"{new!r:.60} for {old!r:.60}" for old, new in called.items()], SHOWN)
        terminal.tell(f"{OPTION}: domains are called as in the data: {pairs}")
    there = {called.get(name, name): one for name, one in there.items()}
    if unknown := [name for name in there if name not in names]:
        terminal.tell(f"{OPTION}: not among the domains: {listed(unknown, SHOWN)}")
    return there


def as_entries(entries: Sequence[str]) -> list[str]:
    """Returns entries without files, whose tokens stand in their place, to be kept with a run."""
    return [f"{name}={one.tokens:.15g}" for name, one in supply_from(entries).items()]


def _is_file(entry: str) -> bool:
    return "=" not in entry or Path(entry).is_file()


def _of_entry(entry: str) -> tuple[str, Supply]:
    name, _, tokens = entry.rpartition("=")
    with expecting(f"Expected NAME=TOKENS or a file with {OPTION}, found '{entry}':", ValueError):
        if not name:
            raise ValueError("no name")
        return name, Supply(_count(tokens, name))


def _of_file(path: Path) -> list[tuple[str, Supply]]:
    with expecting(f"Expected tokens of domains in {path}, found:", OSError, ValueError):
        tokens, documents = _columns(path.read_text("utf-8-sig"))
        if not tokens:
            raise ValueError("no domain")
        counts = {name: _count(value, name) for name, value in documents.items() if value}
        return [(n, Supply(_count(value, n), counts.get(n))) for n, value in tokens.items()]


def _columns(text: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Returns the tokens and the documents that a text has of domains."""
    plain, _ = without_comments(text)
    for rows in sheets_of(plain):
        header = [cell.lower() for cell in rows[0]]
        if {"domain", "tokens"} <= {*header}:
            columns = [
                column_of(rows, "domain", key) for key in ("tokens", "documents") if key in header
            ]
            return columns[0], columns[1] if len(columns) > 1 else {}
    sheet = weights_of_sheet(plain)
    found: Any = sheet.weights if sheet else parsed(text)
    if not isinstance(found, dict):
        raise ValueError(f"{reprlib.repr(found)} instead of names with tokens, such as web: 1.3T")
    found = {name: value for name, value in found.items() if not COMMENT.fullmatch(name)}
    entries = {name: one for name, one in found.items() if isinstance(one, dict)}
    lacking = [name for name, one in entries.items() if "tokens" not in one]
    if lacking:
        raise ValueError(f"no 'tokens' of '{lacking[0]}'")
    tokens = {name: one["tokens"] if name in entries else one for name, one in found.items()}
    return tokens, {name: one.get("documents") for name, one in entries.items()}


def _count(value: Any, name: str) -> float:
    """Returns a number above 0, which is no percentage."""
    number = math.nan
    if is_number(value) and not str(value).strip().endswith("%"):
        with suppress(ValueError):
            number = number_of(value, name)
    if not 0 < number < math.inf:
        raise ValueError(
            f"{reprlib.repr(value)} instead of a number above 0, such as 1.3T, of '{name}'"
        )
    return number
