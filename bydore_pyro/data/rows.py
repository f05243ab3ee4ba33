"""Texts out of JSON lines, Parquet and Arrow files, saved and hub datasets, one row at a time.

What cannot be read is named by file and line or row. pyarrow decompresses and reads tables (it is
what `datasets` is built on); JSON is read line by line here, because neither names the line that is
broken, nor goes on behind it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from bydore_pyro.utils import DataError, one_line, option, require_fields

__all__ = ["Row", "RowConfig", "is_row_file", "numbered_lines", "read_hub", "read_rows"]

JSON_LINES = (".jsonl", ".jsonl.gz", ".jsonl.zst")
TABLES = (".parquet", ".arrow")
SAVED_DATASET = "state.json"  # what `datasets.Dataset.save_to_disk` leaves in its folder
AT_ONCE = 16  # rows of a table that become Python's objects at once, fewer if they are large
LONGEST = 100_000_000  # bytes of a line, characters of a text
BLOCK = 2**17  # bytes that are read at a time
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, kw_only=True)
class RowConfig:
    """Where the text stands in rows (JSON lines, Parquet, Arrow, saved and hub datasets)."""

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

    `number` counts lines or rows from 1. `text` is None for what could not be used. `domain` is
    what the domain column names. `position` is the share of the file that has been read, in [0, 1].
    """

    number: int
    text: str | None
    domain: str | None = None
    position: float = 1.0


def is_row_file(path: Path) -> bool:
    """Whether a file or folder is read row by row."""
    return path.name.endswith((*JSON_LINES, *TABLES)) or (path / SAVED_DATASET).is_file()


def read_rows(
    path: Path, config: RowConfig, names: Mapping[str, str] | None = None
) -> Iterator[Row]:
    """Yields the rows of a file or of a saved dataset.

    Args:
        path: The file, or the folder of a dataset that `datasets` saved.
        config: The columns, and what happens to a row that cannot be used.
        names: What the domain column may hold, to the name that the domain gets here; other rows
            are passed over. Every domain, under its own name, when None.

    Raises:
        DataError: A row that is not JSON, not an object, lacks the column or holds no text in
            it, or a file that breaks off or is of another format; with `on_error="stop"`. With
            `"skip"` these are rows without text, a file that breaks off one of them.
    """
    unit = "line" if path.name.endswith(JSON_LINES) else "row"
    if not path.exists():
        raise DataError(f"Expected a file, found none: {path}")
    yield from _usable(_rows(path, config), f"{_format(path)} file", str(path), unit, config, names)


def read_hub(
    name: str,
    config: RowConfig,
    names: Mapping[str, str] | None = None,
    *,
    subset: str | None = None,
    split: str = "train",
) -> Iterator[Row]:
    """Streams the rows of a dataset on the Hugging Face hub; no code that comes with it is run.

    Args:
        name: The dataset's name, ``owner/name``; `config` and `names` are those of `read_rows`.
        subset: The dataset's configuration, where it has several.
        split: Which of its splits.

    Raises:
        DataError: As for `read_rows`, or when the dataset cannot be opened.
    """
    import datasets

    try:
        stream = datasets.load_dataset(name, subset, split=split, streaming=True)
    except Exception as error:  # of many libraries
        raise DataError(
            f"Expected a dataset on the hub with a split '{split}', found that '{name}' cannot be "
            f"opened: {one_line(error)}"
        ) from None
    rows = ((number, row, 0.0) for number, row in enumerate(stream, start=1))
    yield from _usable(rows, "hub dataset", f"hub:{name}", "row", config, names)


def _usable(
    rows: Iterable[tuple[int, Any, float]],
    kind: str,
    place: str,
    unit: str,
    config: RowConfig,
    names: Mapping[str, str] | None,
) -> Iterator[Row]:
    """Turns rows into texts; the one place that decides what is an error and what is skipped."""
    number = 0
    try:
        for number, row, position in rows:
            try:
                if row is None:
                    raise _too_long("a line")
                row = _parse(row) if isinstance(row, bytes) else row
                domain = None
                if config.domain_column is not None:
                    domain = _text(row, config.domain_column)
                    if names is not None:
                        if domain not in names:
                            continue
                        domain = names[domain]
                yield Row(number, _text(row, config.text_column), domain, position)
            except _BadRow as bad:
                if config.on_error == "stop":
                    raise DataError(f"{bad}, {place}, {unit} {number}") from None
                yield Row(number, None, None, position)
    except (DataError, GeneratorExit):
        raise
    except Exception as error:  # pyarrow and datasets raise nothing narrower
        if config.on_error == "stop":
            raise DataError(
                f"Expected a whole {kind}, found one that breaks after {unit} {number}: {place}: "
                f"{one_line(error)}"
            ) from None
        yield Row(number + 1, None)


def _text(row: Any, column: str) -> str:
    value = row
    literal = isinstance(row, Mapping) and column in row
    for part in [column] if literal else column.split("."):
        if not isinstance(value, Mapping) or part not in value:
            found = ", ".join(map(str, row)) if isinstance(row, Mapping) else type(row).__name__
            raise _BadRow(f"Expected a column '{column}', found {found[:100]}")
        value = value[part]
    if not isinstance(value, str):
        raise _BadRow(f"Expected text in column '{column}', found {type(value).__name__}")
    if len(value) > LONGEST:
        raise _too_long("text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _BadRow(f"Expected text in column '{column}', found half a character") from None
    return value


class _BadRow(Exception):
    """A row that cannot be used; the message lacks its place."""


def _too_long(what: str) -> _BadRow:
    return _BadRow(f"Expected {what} of at most {LONGEST // 10**6} MB, found more")


def _rows(path: Path, config: RowConfig) -> Iterator[tuple[int, Any, float]]:
    """Yields numbered rows as mappings, lines of JSON as bytes (None for one that is too long), and
    the share of the file that has been read."""
    if path.name.endswith(JSON_LINES):
        yield from _lines(path)
    elif path.name.endswith(TABLES):
        yield from _table_rows(path, config)
    else:
        import datasets

        saved = datasets.load_from_disk(str(path))
        saved = saved.select_columns(_needed(config, saved.column_names))
        if not len(saved):
            return
        saved.data.validate(full=True)
        yield from ((n, row, n / len(saved)) for n, row in enumerate(saved, start=1))


def _lines(path: Path) -> Iterator[tuple[int, bytes | None, float]]:
    import pyarrow

    size = path.stat().st_size
    compression = {".gz": "gzip", ".zst": "zstd"}.get(path.suffix)
    with path.open("rb") as raw:
        stream: Any = raw
        if compression:
            stream = io.BufferedReader(pyarrow.CompressedInputStream(raw, compression), BLOCK)
        for number, line in numbered_lines(stream, LONGEST):
            yield number, line, raw.tell() / size


def numbered_lines(stream: io.BufferedReader, longest: int) -> Iterator[tuple[int, bytes | None]]:
    """Yields the lines that are not blank, with their numbers from 1.

    Args:
        stream: Of bytes; a byte order mark at its start is left out.
        longest: Most bytes of a line. Of a longer one no more than that are held.

    Returns:
        Number and line, without the blanks around it; None for a line that is too long.
    """
    number = 0
    while line := stream.readline(longest + 1):
        number += 1
        if number == 1:
            line = line.removeprefix(BYTE_ORDER_MARK)
        if len(line) > longest and not line.endswith(b"\n"):
            while (rest := stream.readline(BLOCK)) and not rest.endswith(b"\n"):
                pass
            yield number, None
        elif line := line.strip():
            yield number, line
        else:  # those behind it at once: a small compressed file can hold a billion
            ahead = stream.peek()
            blank = ahead[: len(ahead) - len(ahead.lstrip())]
            number += blank.count(b"\n")
            stream.read(blank.rfind(b"\n") + 1)


def _needed(config: RowConfig, columns: Sequence[str]) -> list[str]:
    """The columns that are read: others may hold what cannot be. All of them where one is missing,
    so that the error can name what there is."""
    wanted = [config.text_column, *([config.domain_column] if config.domain_column else [])]
    roots = [name if name in columns else name.split(".")[0] for name in wanted]
    return list(dict.fromkeys(roots)) if set(roots) <= set(columns) else list(columns)


def _table_rows(path: Path, config: RowConfig) -> Iterator[tuple[int, Any, float]]:
    import pyarrow
    from pyarrow import parquet

    with pyarrow.OSFile(str(path)) as source:  # a mapped one that is cut ends the process
        if path.suffix == ".parquet":
            file = parquet.ParquetFile(source)
            total = file.metadata.num_rows
            columns = _needed(config, file.schema_arrow.names)
            batches: Iterable[Any] = file.iter_batches(batch_size=256, columns=columns)
        else:
            total, batches = 0, _arrow_batches(source)
        done = 0
        for batch in batches:
            kept = batch.select(_needed(config, batch.schema.names))
            kept.validate(full=True)  # a broken one would be read beyond its end
            at_once = max(1, min(AT_ONCE, LONGEST * kept.num_rows // max(1, kept.nbytes)))
            for start in range(0, kept.num_rows, at_once):
                for row in kept.slice(start, at_once).to_pylist():
                    done += 1
                    yield done, row, done / total if total else 0.0


def _arrow_batches(source: Any) -> Iterator[Any]:
    """Both Arrow formats: the file's, with an index at its end, and the stream's of `datasets`."""
    import pyarrow

    if source.read(6) == b"ARROW1":
        reader = pyarrow.ipc.open_file(source)
        for index in range(reader.num_record_batches):
            yield reader.get_batch(index)
    else:
        source.seek(0)
        yield from pyarrow.ipc.open_stream(source)


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise _BadRow("Expected UTF-8, found other bytes") from None
    except (ValueError, RecursionError) as error:
        raise _BadRow(f"Expected a JSON object, found {type(error).__name__}: {error}") from None


def _format(path: Path) -> str:
    endings = (*JSON_LINES, *TABLES)
    return next((e.lstrip(".") for e in endings if path.name.endswith(e)), "dataset")
