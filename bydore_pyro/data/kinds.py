"""What a file holds, by its name and by its beginning."""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, NamedTuple

from bydore_pyro.data.remote import opened

Form = Literal["json", "csv", "tsv", "parquet", "text"]
Compression = Literal["gzip", "zstd", "bz2", "xz"]
FORMS: dict[str, Form] = {
    ".json": "json",
    ".jsonl": "json",
    ".jsonlines": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
COMPRESSED: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".xz": "xz"}
HEAD = 4096  # bytes of a beginning
BINARY = 0.05  # share of a text's beginning that is no character of a text, at most
UTF_16 = "text in UTF-16"
BEGINNINGS = {
    b"\xff\xfe": UTF_16,
    b"\xfe\xff": UTF_16,
    b"PAR1": "Parquet",
    b"ARROW1": "Arrow",
    b"\xff\xff\xff\xff": "Arrow",
    b"\x93NUMPY": "NumPy",
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip",
    b"%PDF": "PDF",
    b"SQLite format": "SQLite",
    b"\x89HDF": "HDF5",
}
# A row, alone or the first of an array: a JSON object with a key.
OBJECT = re.compile(rb'\s*(\[\s*)?\{\s*("(?:[^"\\\n]|\\.)*"\s*:|\}\s*[,\]\n])')
# Endings that say nothing of what a file holds.
UNCLEAR = ("", ".bak", ".old", ".orig", ".tmp", ".part", ".data", ".dat", ".dump", ".out")
# What programs leave beside rows, with or without an ending; and what people write there.
ALWAYS = (
    "dataset_info*.json",
    "dataset_dict.json",
    "state.json",
    "_success",
    "_metadata",
    "_common_metadata",
    "_committed_*",
    "_started_*",
    "cache-*.arrow",
)
BESIDE = ("readme*", "license*", "licence*", "copying*", "notice*", "citation*", "changelog*")


class Kind(NamedTuple):
    """How a file's name says that it is written, and compressed."""

    form: Form
    compression: Compression | None = None


def kind_of(path: Path) -> Kind:
    """Returns what the endings of a name say, in any case of letters."""
    *_, before, last = ["", "", *(ending.lower() for ending in path.suffixes)]
    compression = COMPRESSED.get(last)
    return Kind(FORMS.get(before if compression else last, "text"), compression)


def is_row_file(path: Path) -> bool:
    """Whether a file is read row by row."""
    return kind_of(path).form != "text"


def is_rows_or_txt(path: Path) -> bool:
    """Whether a name ends as that of a file of rows or of text (.txt), in any case of letters."""
    return is_row_file(path) or path.suffix.lower() == ".txt"


def can_be_entered(path: Path) -> bool:
    """Whether reading can begin in the middle of a file: not of a table, of what is packed, nor of
    an array in JSON."""
    form, compression = kind_of(path)
    if compression or form in ("csv", "tsv", "parquet"):
        return False
    return path.suffix.lower() != ".json" or not head(path).lstrip().startswith(b"[")


def is_beside_rows(path: Path, among: Collection[Path]) -> bool:
    """Whether a file is no document: what Hugging Face and Spark leave beside rows, and a README or
    a licence among files of rows."""
    if _is_called(path, ALWAYS):
        return True
    return is_notice(path) and any(
        is_row_file(other) and not _is_called(other, ALWAYS) for other in among
    )


def is_notice(path: Path) -> bool:
    """Whether a file is called as what people write about the others: a README, a licence."""
    return _is_called(path, BESIDE)


def _is_called(path: Path, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(path.name.lower(), pattern) for pattern in patterns)


def head(path: Path) -> bytes:
    """Returns the first bytes of a file, without a byte order mark, or nothing."""
    try:
        with opened(path) as file:
            return (file.read(HEAD) or b"").removeprefix(b"\xef\xbb\xbf")
    except OSError:
        return b""


def no_text(begin: bytes) -> str | None:
    """Returns what a file is that is to be read as plain text and begins so; None where it is text.

    A beginning without control characters, in UTF-8, is text, even one that spells "PAR1".
    """
    control = sum(byte < 9 or 13 < byte < 27 for byte in begin)
    if not control and _is_utf8(begin):
        return None
    for magic, name in BEGINNINGS.items():
        if begin.startswith(magic):
            return name
    return "binary" if control > BINARY * len(begin) else None


def looks_like(begin: bytes, column: str) -> str | None:
    """Returns what rows a text file looks like, "JSON" or "a table"; else None.

    Args:
        begin: Of the file.
        column: Of the text in rows, by which a table's header is known.
    """
    if OBJECT.match(begin):
        return "JSON"
    cells = re.split(r"[,;\t]", begin.partition(b"\n")[0].decode("utf-8", "replace").strip())
    plain = [cell.strip().strip('"') for cell in cells]
    if len(plain) > 1 and column in plain and all(re.fullmatch(r"[\w.:-]+", c) for c in plain):
        return "a table"
    return None


def says_text(path: Path) -> bool:
    """Whether the name of a file says that it is no file of rows, whatever it looks like: a `.txt`,
    `.md` or `.py`, but neither a name without an ending nor `rows.jsonl.bak`."""
    *before, last = ["", *(ending.lower() for ending in path.suffixes)]
    if last in (".txt", ".md"):
        return True
    unclear = last in UNCLEAR or last[1:2].isdigit() or last.startswith(".json")
    return not unclear and not any(ending in FORMS for ending in before)


def _is_utf8(begin: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(begin)
    except UnicodeDecodeError:
        return False
    return True
