"""Texts out of files and hub datasets, one row at a time.

What cannot be read is named by file and line, row or byte.
"""

from __future__ import annotations

import codecs
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from bydore_pyro import files, terminal
from bydore_pyro.command_line import option, require_fields
from bydore_pyro.data.kinds import (
    UTF_16,
    can_be_entered,
    head,
    kind_of,
    looks_like,
    no_text,
    says_text,
)
from bydore_pyro.data.remote import is_remote, opened, readable_place
from bydore_pyro.data.splits import check_name
from bydore_pyro.data.streams import (
    Part,
    Sips,
    lines_of,
    rows_of,
    too_long,
    unpacked,
)
from bydore_pyro.errors import DataError, expecting, listed, one_line

AHEAD = 2**18  # bytes of a column or a compressed file that are read at a time, of a part of it
WHOLE = 2**22  # bytes of a remote file of which all is read
AT_ONCE = 16  # rows of a table that become Python's objects at once
MOST_NOTED = 50  # columns
TEXTUAL = str, list, Mapping  # values that may hold text
LONGEST = 100_000_000  # bytes of a line, characters of a row's text
BLOCK = 2**17  # bytes of a file that are read at a time
SIP = 2**10  # of a part of a compressed one, where it matters how far it was read
# Bytes that come out of it, at least, for the ratio to those that went in: its first hundred
# thousand are packed worse than what follows.
UNPACKED = 2**20
# Text files above this many bytes are read, and split, piece by piece.
LARGE_TEXT = 1_000_000
PIECE = 2**16  # bytes
LONGEST_PIECE = 10_000_000  # characters, where no line ends


@dataclass(frozen=True, kw_only=True)
class RowConfig:
    """Where the text stands in rows (JSON, CSV, Parquet, hub datasets)."""

    text_column: str = option(
        "text", "Column of the text; a dot selects a nested column, as in meta.text."
    )
    domain_column: str | None = option(
        None,
        "Column with each row's domain, such as meta.pile_set_name, if one file contains many "
        "domains.",
    )
    on_error: Literal["stop", "skip"] = option(
        "stop", "Stop at an unusable row or file, or skip and count it."
    )

    def __post_init__(self) -> None:
        require_fields(self)


class Row(NamedTuple):
    """One text of a source.

    Attributes:
        number: Of the line, row or piece, from 1, in the file or in the part of it that is read.
        text: None for what could not be used.
        domain: The name in the domain column, if there is one.
        reached: Bytes of a compressed file, or of a row group, that its part has taken up to there;
            0 in other files.
        note: How the file was read where there is another way, in the first row that shows it.
        whole: Bytes of the text that it is the first piece of; None of what is no first piece.
    """

    number: int
    text: str | None
    domain: str | None = None
    reached: int = 0
    note: str | None = None
    whole: int | None = None


def read_rows(path: Path, config: RowConfig, part: Part | None = None) -> Iterator[Row]:
    """Yields the rows of a file, or of a part of it.

    Raises:
        DataError: When there is no file; with `on_error="stop"` also at a row that is not JSON,
            lacks a column, holds no text in it or names no usable domain, and at the end of a file
            that breaks off. With `"skip"` each of these is a row without text.
    """
    if part is None and not path.exists():
        raise DataError(f"Expected a file, found none: {path}")
    form, compression = kind_of(path)
    place, columns = str(path), list[str]()
    if form == "parquet":
        wanted = [c for c in (config.text_column, config.domain_column) if c is not None]
        table = _table_rows(path, wanted, part, columns)
        for count, row in enumerate(_texts(table, place, config, columns), start=1):
            reached = 0
            if part is not None and part.end is not None:
                reached = round(part.size * count / max(1, part.end - part.start))
            yield row._replace(reached=reached)
        return
    if part is not None and form == "json" and can_be_entered(path):
        with readable_place(place), opened(path) as file, lines_of(file, part)[1] as lines:
            begin = f"{path} from byte {part.start}" if part.start else place
            yield from _texts(rows_of(lines, form, LONGEST), begin, config)
        return
    with readable_place(place), opened(path, AHEAD if part else WHOLE) as file:
        packed = Sips(file, SIP if part else BLOCK)
        with unpacked(packed, compression) as stream:
            plain, at, before = Sips(stream, UNPACKED), 0, None
            lines = io.BufferedReader(plain, UNPACKED)
            for row in _texts(rows_of(lines, form, LONGEST), place, config):
                if part is None:
                    yield row
                    continue
                begun, at = at, lines.tell()
                if part.end is not None and begun >= part.end:
                    return
                if begun >= part.start:  # it is read from its start
                    each = packed.tell() / plain.tell()  # bytes of the file for one that comes out
                    before = round(begun * each) if before is None else before
                    yield row._replace(reached=round(at * each) - before)


def read_columns(
    path: Path, on_error: Literal["stop", "skip"] = "stop"
) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Yields the rows of a file with all their columns, each with its place, such as "line 3".

    Raises:
        DataError: When there is no file; with `on_error="stop"` also at a row that is no JSON
            object, and at the end of a file that breaks off. With `"skip"` each of these is None.
    """
    if not path.exists():
        raise DataError(f"Expected a file, found none: {path}")
    place, unit, number = str(path), "row", 0
    try:
        for unit, number, content in _whole_file(path):
            where, row = f"{unit} {number}", None
            try:
                row = _parsed(unit, content)
                if not isinstance(row, dict):
                    raise DataError(f"Expected a JSON object, found {type(row).__name__}")
            except ValueError as error:
                if on_error == "stop":
                    raise DataError(f"{_fault(error)}, {place}, {where}") from None
                row = None
            yield where, row
    except (DataError, GeneratorExit):
        raise
    except Exception as error:  # pyarrow raises nothing narrower
        if on_error == "stop" or is_remote(place):
            raise _broken(place, unit, number, error) from None
        yield f"{unit} {number + 1}", None


def _whole_file(path: Path) -> Iterator[tuple[str, int, Any]]:
    form, compression = kind_of(path)
    if form == "parquet":
        yield from _table_rows(path, (), None, [])
        return
    with (
        readable_place(str(path)),
        opened(path, WHOLE) as file,
        unpacked(Sips(file, BLOCK), compression) as stream,
    ):
        lines = io.BufferedReader(Sips(stream, UNPACKED), UNPACKED)
        yield from rows_of(lines, form, LONGEST)


def read_hub(
    name: str, config: RowConfig, subset: str | None = None, split: str = "train"
) -> Iterator[Row]:
    """Streams the rows of a dataset on the Hugging Face hub, ``owner/name``; no code that comes
    with it is run.

    Raises:
        DataError: As for `read_rows`, or when the dataset cannot be opened.
    """
    import datasets

    with expecting(
        f"Expected a dataset on the hub with a split '{split}', found that '{name}' cannot be "
        "opened:"
    ):
        stream = datasets.load_dataset(name, subset, split=split, streaming=True)
    rows = (("row", number, row) for number, row in enumerate(stream, start=1))
    yield from _texts(rows, f"hub:{name}", config)


def _texts(
    rows: Iterable[tuple[str, int, Any]],
    place: str,
    config: RowConfig,
    columns: Sequence[str] = (),
) -> Iterator[Row]:
    """Turns rows into texts; the one place that decides what is an error and what is skipped.

    `columns` are those of a table that can hold text, known once a row is read; else each row has
    its own. Those that are not read are noted with the first row that has them.
    """
    unit, number, noted = "row", 0, set[str]()
    for column in (config.text_column, config.domain_column):
        if column is not None:
            noted |= {column, column.partition(".")[0]}
    try:
        for unit, number, content in rows:
            domain = None
            try:
                row = _parsed(unit, content)
                if config.domain_column is not None:
                    named = _text(row, config.domain_column, "--domain_column", whole=True)
                    check_name(named)
                    domain = named
                usable = Row(number, _text(row, config.text_column, "--text_column"), domain)
                if len(noted) <= MOST_NOTED:
                    known = columns or [n for n, v in row.items() if isinstance(v, TEXTUAL)]
                    if others := [name for name in known if name not in noted]:
                        noted.update(others)
                        shown = listed([terminal.visible(name) for name in others], 8)
                        note = f"text is read from the column '{config.text_column}', not from "
                        usable = usable._replace(note=note + shown)
            except ValueError as error:
                if config.on_error == "stop":
                    raise DataError(f"{_fault(error)}, {place}, {unit} {number}") from None
                usable = Row(number, None, domain)
            yield usable
    except (DataError, GeneratorExit):
        raise
    except Exception as error:  # pyarrow and datasets raise nothing narrower
        # Of a remote file it may be the connection, which is no row to be skipped.
        if config.on_error == "stop" or is_remote(place):
            raise _broken(place, unit, number, error) from None
        yield Row(number + 1, None)


def _parsed(unit: str, content: Any) -> Any:
    """A row as plain values."""
    if isinstance(content, DataError):
        raise content
    return files.plain_json(content.decode("utf-8")) if unit == "line" else content


def _fault(error: ValueError) -> str:
    """What is wrong with a row."""
    if isinstance(error, UnicodeDecodeError):
        return "Expected UTF-8, found other bytes"
    return str(error) if isinstance(error, DataError) else f"Expected a JSON object, found {error}"


def _broken(place: str, unit: str, number: int, error: Exception) -> DataError:
    """The error about a file that ends within a row."""
    where = f"after {unit} {number}" if number else "at its beginning"
    reason = one_line(error) or type(error).__name__
    return DataError(f"Expected a whole file, found one that breaks {where}: {place}: {reason}")


def _text(row: Any, column: str, named_by: str, *, whole: bool = False) -> str:
    """The text of the column that an option names; where `whole` numbers name something too, that
    number as text."""
    value = column_of(row, column, named_by)
    if whole and isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, Mapping) and value:
        inside = listed([f"{column}.{key}" for key in value], 5)
        raise DataError(
            f"Expected text in column '{column}', found a mapping ({named_by} can name {inside})"
        )
    return checked_text(value, column)


def column_of(row: Any, column: str, named_by: str) -> Any:
    """Returns what a row holds in the column that an option names; a dot selects a nested one.

    Raises:
        DataError: When there is no such column.
    """
    value = row
    literal = isinstance(row, Mapping) and column in row
    for part in [column] if literal else column.split("."):
        if not isinstance(value, Mapping) or part not in value:
            found = type(row).__name__
            if isinstance(row, Mapping):
                found = f"{', '.join(map(str, row))[:100]} ({named_by} names another)"
            raise DataError(f"Expected a column '{column}', found {found}")
        value = value[part]
    return value


def checked_text(value: Any, column: str) -> str:
    """Returns what a column holds, if it is text that can be written.

    Raises:
        DataError: When it is something else, too long, or holds half a character.
    """
    if not isinstance(value, str):
        raise DataError(f"Expected text in column '{column}', found {type(value).__name__}")
    if len(value) > LONGEST:
        raise too_long("text", LONGEST)
    try:
        value.encode()
    except UnicodeEncodeError:
        half = any("\ud800" <= character < "\udc80" for character in value)
        found = "half a character" if half else "bytes that are no UTF-8"
        raise DataError(f"Expected text in column '{column}', found {found}") from None
    return value


def _table_rows(
    path: Path, wanted: Iterable[str], part: Part | None, with_text: list[str]
) -> Iterator[tuple[str, int, Any]]:
    """Yields the rows of a Parquet file, after adding the columns that can hold text to a list.

    Of the columns those that are wanted are read; all where none is named.
    """
    from pyarrow import parquet, types

    # `pre_buffer` would read, and hold, whole columns.
    given: dict[str, Any] = {"pre_buffer": False, "buffer_size": AHEAD if part else 0}
    with opened(path) as raw, parquet.ParquetFile(raw, **given) as file:
        names = file.schema_arrow.names
        kinds = (types.is_string, types.is_large_string, types.is_nested, types.is_dictionary)
        with_text += [f.name for f in file.schema_arrow if any(kind(f.type) for kind in kinds)]
        roots = [c if c in names else c.split(".")[0] for c in wanted]
        # Other columns may hold what cannot be read; all where one is missing, for the error.
        columns = roots if roots and set(roots) <= set(names) else names
        number, last, groups = 0, math.inf, [*range(file.num_row_groups)]
        if part is not None and part.group is not None:
            groups = [part.group]
            number = sum(file.metadata.row_group(g).num_rows for g in range(part.group))
            first = number + part.start
            last = math.inf if part.end is None else number + part.end
        columns = [*dict.fromkeys(columns)]
        if twice := [name for name in columns if names.count(name) > 1]:
            raise DataError(f"Expected every column once, found '{twice[0]}' twice, {path}")
        for batch in file.iter_batches(AT_ONCE, row_groups=groups, columns=columns):
            for row in batch.to_pylist():
                number += 1
                if number > last:
                    return
                if part is None or number > first:
                    yield "row", number, row


def read_text(
    path: Path, config: RowConfig | None = None, part: Part | None = None
) -> Iterator[Row]:
    """Yields a text file or a part of it, a large one in pieces that end with a line where they
    can.

    A line of more than 10 million characters is cut, so that one of any length can be read. What a
    name such as `a.txt` says is taken: rows in it are text too.

    Raises:
        DataError: Where it begins as what is no text does, or as rows do and its name does not say
            that it is text; where it is not UTF-8 or cannot be read; with `on_error="stop"`. With
            "skip" the rest of the file is one row without text.
    """
    number, config = 0, config or RowConfig()
    on_error, looked_at = config.on_error, part is None or not part.start or not is_remote(path)
    with readable_place(str(path)):
        try:
            found = None
            if looked_at:
                begin = head(path)
                if odd := no_text(begin):
                    advice = "convert it to UTF-8" if odd == UTF_16 else "remove or unpack it"
                    raise DataError(f"Expected plain text, found {odd}: {path}: {advice}")
                found = looks_like(begin, config.text_column)
            if found and not says_text(path):
                raise DataError(
                    f"Expected plain text, found {found}: {path}: an ending says how it is read: "
                    ".txt as text, .jsonl, .json, .csv, .tsv or .parquet as rows"
                )
            for number, piece in enumerate(_pieces(path, part), start=1):
                note = f"looks like {found} and is read as text, as its ending says"
                yield Row(number, piece, note=note if found and number == 1 else None)
        except (DataError, OSError) as error:
            if on_error == "stop" or (is_remote(path) and isinstance(error, OSError)):
                raise
            yield Row(number + 1, None)


def _pieces(path: Path, part: Part | None) -> Iterator[str]:
    decoder, rest = codecs.getincrementaldecoder("utf-8-sig")(), ""
    length = PIECE if part or path.stat().st_size > LARGE_TEXT else LARGE_TEXT
    with opened(path, 0 if part else WHOLE) as raw:
        start, file = lines_of(raw, part) if part else (0, io.BufferedReader(raw))
        while True:
            block = file.read(length)
            try:
                rest += decoder.decode(block, final=not block)
            except UnicodeDecodeError as error:
                at = start + file.tell() - len(error.object) + error.start
                raise DataError(
                    f"Expected UTF-8, found other bytes, {path}, byte {at}: convert it to UTF-8, "
                    "or give --on_error skip"
                ) from None
            if not block:
                break
            end = rest.rfind("\n") + 1 if length == PIECE else 0
            if len(rest) - end >= LONGEST_PIECE:
                end = len(rest)
            if end:
                yield rest[:end]
                rest = rest[end:]
    if rest:
        yield rest
