"""Texts out of JSON lines, Parquet and Arrow files and saved datasets, one row at a time.

What cannot be read is named by file and line or row. pyarrow decompresses and reads tables (it is
what `datasets` is built on); JSON is read line by line here, because neither names the line that is
broken, nor goes on behind it.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from bydore_pyro.errors import DataError

__all__ = ["RowConfig", "RowReader", "is_row_file"]

JSON_LINES = (".jsonl", ".jsonl.gz", ".jsonl.zst")
TABLES = (".parquet", ".arrow")
SAVED_DATASET = "state.json"  # what `datasets.Dataset.save_to_disk` leaves in its folder


@dataclass(frozen=True, kw_only=True)
class RowConfig:
    """Where the text stands in files of rows (JSON lines, Parquet, Arrow, saved datasets)."""

    text_column: str = field(
        default="text", metadata={"help": "Column of the text; dots reach into nested ones."}
    )
    domain_column: str | None = field(
        default=None,
        metadata={
            "help": "Column of the domain's name, such as meta.pile_set_name, where one file holds "
            "many domains."
        },
    )
    on_error: Literal["stop", "skip"] = field(
        default="stop",
        metadata={"help": "Stop at a row that cannot be used, or skip and count such rows."},
    )

    def __post_init__(self) -> None:
        for name in ("text_column", "domain_column"):
            if getattr(self, name) == "":
                raise ValueError(f"Expected a column's name for {name}, found an empty one")
        if self.on_error not in ("stop", "skip"):
            raise ValueError(f"Expected on_error 'stop' or 'skip', actual {self.on_error!r}")


def is_row_file(path: Path) -> bool:
    """Whether a file or folder is read row by row."""
    return path.name.endswith((*JSON_LINES, *TABLES)) or (path / SAVED_DATASET).is_file()


@dataclass
class RowReader:
    """Yields ``(row, text)`` of a file; rows, lines of JSON too, count from 1.

    Attributes:
        config: The columns, and what happens to a row that cannot be used.
        domain: Only rows whose domain column holds this name; all rows when None.
        skipped: Rows that could not be used, counted when errors are skipped. A file that breaks
            off counts as one.
    """

    config: RowConfig
    domain: str | None = None
    skipped: int = 0

    def __call__(self, path: Path) -> Iterator[tuple[int, str]]:
        """Reads the file.

        Raises:
            DataError: A row that is not JSON, not an object, lacks the column or holds no text in
                it, or a file that breaks off or is of another format; with `on_error="stop"`.
        """
        self.skipped = 0
        unit = "line" if path.name.endswith(JSON_LINES) else "row"
        number = 0
        try:
            for number, row in enumerate(_rows(path), start=1):
                if isinstance(row, bytes) and not row.strip():
                    continue  # an empty line
                try:
                    row = _parse(row) if isinstance(row, bytes) else row
                    if self._wanted(row):
                        yield number, self._text(row, self.config.text_column)
                except _BadRow as bad:
                    self._bad(f"{bad}, {path}, {unit} {number}")
        except (DataError, MemoryError):
            raise
        except FileNotFoundError:
            raise DataError(f"Expected a file, found none: {path}") from None
        except Exception as error:  # pyarrow and datasets raise nothing narrower
            reason = " ".join(str(error).split())[:200]
            self._bad(f"Expected a whole {_format(path)} file, found one that breaks after {unit} "
                      f"{number}: {path}: {reason}")  # fmt: skip

    def domains(self, path: Path) -> list[str]:
        """Returns the names in the domain column, in the order in which they first come."""
        column = self.config.domain_column
        if column is None:
            raise ValueError("Expected a domain_column, found none")
        names = RowReader(RowConfig(text_column=column, on_error=self.config.on_error))
        return list(dict.fromkeys(name for _, name in names(path)))

    def _wanted(self, row: Any) -> bool:
        column = self.config.domain_column
        return self.domain is None or column is None or self._text(row, column) == self.domain

    def _text(self, row: Any, column: str) -> str:
        value = row
        for part in column.split("."):
            if not isinstance(value, Mapping) or part not in value:
                found = ", ".join(map(str, row)) if isinstance(row, Mapping) else type(row).__name__
                raise _BadRow(f"Expected a column '{column}', found {found[:100]}")
            value = value[part]
        if not isinstance(value, str):
            raise _BadRow(f"Expected text in column '{column}', found {type(value).__name__}")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _BadRow(f"Expected text in column '{column}', found half a character") from None
        return value

    def _bad(self, message: str) -> None:
        if self.config.on_error == "stop":
            raise DataError(message)
        self.skipped += 1


class _BadRow(Exception):
    """A row that cannot be used; the message lacks its place."""


def _rows(path: Path) -> Iterator[Any]:
    """Yields rows as mappings, lines of JSON as bytes."""
    if path.name.endswith(JSON_LINES):
        yield from _lines(path)
    elif path.name.endswith(TABLES):
        yield from _table_rows(path)
    else:
        import datasets

        yield from datasets.load_from_disk(str(path))


def _lines(path: Path) -> Iterator[bytes]:
    import pyarrow

    with pyarrow.input_stream(str(path), compression="detect") as stream:
        yield from io.BufferedReader(stream)


def _table_rows(path: Path) -> Iterator[Mapping]:
    import pyarrow
    from pyarrow import parquet

    with pyarrow.memory_map(str(path)) as source:
        if path.suffix == ".parquet":
            batches: Iterable = parquet.ParquetFile(source).iter_batches(batch_size=256)
        else:
            batches = _arrow_batches(source)
        for batch in batches:
            yield from batch.to_pylist()


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
