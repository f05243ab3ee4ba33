"""Token stores: one memory-mapped array of tokens a domain and side, with an index of them.

A folder with

    index.json               format, tokenizer, counts and hashes (what `TokenStore.index` holds)
    files.jsonl              a line for each source that was read: name, domain, bytes, hash
    tokenizer/               the tokenizer, for `AutoTokenizer.from_pretrained`
    train/NAME.bin           tokens of a domain, little-endian uint16 or uint32, documents joined,
    validation/NAME.bin      each with the end-of-text token behind it
    train/NAME.ends,         where its independent documents end in that array: one number each,
    validation/NAME.ends     little-endian int64, ascending, exclusive, the last its length

A document is independent of the others as far as the split knows: a whole file where files are held
out, a row where rows are, a piece where pieces are. Cut because it is long, it is several documents
of ``NAME.bin`` and still one of ``NAME.ends``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bydore_pyro.data.tokenizer import tokenizer_sha256
from bydore_pyro.data.unchanged import WatchedFile, file_sha256
from bydore_pyro.utils import DataError

__all__ = [
    "END",
    "FORMAT",
    "INDEX",
    "SPLITS",
    "TokenStore",
    "is_store",
    "open_store",
]

FORMAT = "bydore_pyro.tokens/2"
FORMATS_BEFORE = ("bydore_pyro.tokens/1",)
INDEX = "index.json"
SPLITS: tuple[Literal["train", "validation"], ...] = ("train", "validation")
END = np.dtype("<i8")  # signed: numpy turns uint64 into floats beside other integers
DTYPES: dict[str, np.dtype] = {"<u2": np.dtype("<u2"), "<u4": np.dtype("<u4")}
ALWAYS_VERIFIED = 1e9  # bytes; hashing them takes a second or two


@dataclass(frozen=True)
class TokenStore:
    """Tokens by domain and side, memory-mapped.

    Attributes:
        folder: Where it lies.
        train: Token array of each domain, sorted by name; empty where a domain has none.
        validation: The held-out ones.
        index: What `index.json` holds.
        train_documents: Of each domain, where the independent documents of its token array end:
            exclusive, ascending, the last the array's length; empty where the array is.
        validation_documents: Of the held-out ones.
        files: What the arrays are mapped from, by side and domain; none where they are not.
    """

    folder: Path
    train: dict[str, np.ndarray]
    validation: dict[str, np.ndarray]
    index: dict[str, Any] = field(repr=False)
    train_documents: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    validation_documents: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    files: dict[tuple[str, str], list[WatchedFile]] = field(default_factory=dict, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The domains, sorted."""
        return tuple(self.train)

    @property
    def tokenizer(self) -> Path:
        """The tokenizer's folder, for `AutoTokenizer.from_pretrained`."""
        return self.folder / "tokenizer"

    @property
    def vocabulary(self) -> int:
        """Number of tokens, ``V``."""
        return self.index["vocabulary"]

    @property
    def sha256(self) -> str:
        """Two stores with the same hash hold the same tokens of the same documents and domains."""
        return self.index["sha256"]

    @property
    def tokenizer_sha256(self) -> str:
        """Two stores with the same hash of the tokenizer count tokens alike."""
        return self.index["tokenizer_sha256"]

    def taken(self, split: str, name: str, take: Callable[[], np.ndarray]) -> np.ndarray:
        """Returns tokens that `take` reads out of an array of the store, held against the store.

        Args:
            split: The side.
            name: The domain.
            take: Reads; it is not called where the file has changed since the store was opened.

        Raises:
            DataError: When the file has changed, or holds tokens beyond the vocabulary.
        """
        self.require_unchanged((split, name))
        found = take()
        largest = int(found.max(initial=0))
        if largest >= self.vocabulary:
            raise DataError(
                f"Expected tokens below {self.vocabulary}, the vocabulary of {self.folder}, found "
                f"{largest} in the {split} text of '{name}'"
            )
        return found

    def require_unchanged(self, place: tuple[str, str] | None = None) -> None:
        """Checks that the files are what they were when the store was opened.

        Args:
            place: A side and a domain; the whole store when None.

        Raises:
            DataError: Names the first that is not.
        """
        for files in self.files.values() if place is None else [self.files.get(place, [])]:
            for file in files:
                file.require_unchanged()

    def manifest(self) -> dict[str, Any]:
        """Returns the index and what was read of every source.

        Raises:
            DataError: When the list of sources is missing or damaged.
        """
        path = self.folder / "files.jsonl"
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
            return {**self.index, "files": [json.loads(line) for line in lines]}
        except (OSError, ValueError) as error:
            raise DataError(f"Expected a line for each source, found {path}: {error}") from None


def is_store(folder: Path) -> bool:
    """Whether a folder looks like a token store."""
    return (folder / INDEX).is_file() and (folder / "tokenizer").is_dir()


def open_store(folder: Path, *, verify: bool | None = None) -> TokenStore:
    """Opens a token store.

    Args:
        folder: The store.
        verify: Whether the arrays are held against their hashes. When None, those of a store of up
            to a gigabyte are. Lengths, and the tokenizer's hash, always are.

    Raises:
        DataError: When it is not a store, of another version (one of an earlier version must be
            prepared again), or does not hold what its index says.
    """
    index = _read_index(folder)
    try:
        dtype = DTYPES[index["dtype"]]
        sides: dict[str, dict[str, dict[str, Any]]] = {
            split: {name: index["domains"][name][split] for name in sorted(index["domains"])}
            for split in SPLITS
        }
        size = sum(e["tokens"] for side in sides.values() for e in side.values()) * dtype.itemsize
        expected = index["tokenizer_sha256"]
        hashes = [
            (s, n, ending, e[key])
            for s, side in sides.items()
            for n, e in side.items()
            for ending, key in (("bin", "sha256"), ("ends", "ends_sha256"))
        ]
        counts = {
            s: {n: (e["tokens"], e["independent_documents"]) for n, e in side.items()}
            for s, side in sides.items()
        }
        named, vocabulary = index["sha256"], index["vocabulary"]
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"Expected the index of a token store, found {folder / INDEX} without {error}"
        ) from None
    if named != sha256_of(index["domains"], expected, vocabulary, index["dtype"]):
        raise DataError(f"Expected {folder / INDEX} to match the hash in it, found another")
    _check_tokenizer(folder, expected)
    arrays: dict[str, dict[str, np.ndarray]] = {split: {} for split in SPLITS}
    ends: dict[str, dict[str, np.ndarray]] = {split: {} for split in SPLITS}
    for split, side in counts.items():
        for name, (tokens, documents) in side.items():
            path = folder / split / name
            arrays[split][name] = _open_array(Path(f"{path}.bin"), tokens, dtype)
            ends[split][name] = _open_ends(Path(f"{path}.ends"), documents, tokens)
    files: dict[tuple[str, str], list[WatchedFile]] = {}
    verified = verify or (verify is None and size <= ALWAYS_VERIFIED)
    for split, name, ending, expected in hashes:
        path = folder / split / f"{name}.{ending}"
        files.setdefault((split, name), []).append(WatchedFile(path, expected))
        if verified and file_sha256(path) != expected:
            what = "tokens" if ending == "bin" else "ends of documents"
            raise DataError(f"Expected the {what} that {INDEX} names, found others in {path}")
    return TokenStore(
        folder,
        arrays["train"],
        arrays["validation"],
        index,
        ends["train"],
        ends["validation"],
        files,
    )


def _check_tokenizer(folder: Path, expected: str) -> None:
    try:
        found = tokenizer_sha256(folder / "tokenizer")
    except OSError as error:
        raise DataError(
            f"Expected the store's tokenizer, found none: {folder}: {error.strerror}"
        ) from None
    if found != expected:
        raise DataError(
            f"Expected the tokenizer that {folder} was built with ({expected[:12]}), found another "
            f"({found[:12]})"
        )


def _read_index(folder: Path) -> dict[str, Any]:
    path = folder / INDEX
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"Expected the index of a token store, found {path}: {error}") from None
    found = index.get("format") if isinstance(index, dict) else None
    if found in FORMATS_BEFORE:
        raise DataError(
            f"Expected a token store of format '{FORMAT}', found {found!r} in {path}, which does "
            "not record where documents end: prepare it again"
        )
    if found != FORMAT:
        raise DataError(f"Expected a token store of format '{FORMAT}', found {found!r} in {path}")
    return index


def _open_array(path: Path, tokens: int, dtype: np.dtype) -> np.ndarray:
    try:
        size = path.stat().st_size
        if size != tokens * dtype.itemsize:
            raise DataError(f"Expected {tokens} tokens, found {size // dtype.itemsize}: {path}")
        if tokens == 0:
            return np.empty(0, dtype)
        return np.asarray(np.memmap(path, dtype, mode="r"))
    except OSError as error:
        raise DataError(f"Expected an array of tokens, found {path}: {error.strerror}") from None


def _open_ends(path: Path, documents: int, tokens: int) -> np.ndarray:
    try:
        size = path.stat().st_size
        if size != documents * END.itemsize:
            raise DataError(
                f"Expected {documents} ends of documents, found {size // END.itemsize}: {path}"
            )
        ends = np.asarray(np.memmap(path, END, mode="r")) if documents else np.empty(0, END)
    except OSError as error:
        reason = f"{path}: {error.strerror}"
        raise DataError(f"Expected an array of ends of documents, found {reason}") from None
    last = int(ends[-1]) if documents else 0
    if last != tokens:
        raise DataError(f"Expected the last end of a document at {tokens}, found {last}: {path}")
    return ends


def sha256_of(domains: dict[str, Any], tokenizer: str, vocabulary: int, dtype: str) -> str:
    """Returns the hash that names a store: of its domains' entries and of its tokenizer."""
    content = json.dumps([domains, tokenizer, vocabulary, dtype], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()
