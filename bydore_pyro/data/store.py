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
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
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
    "check_needed",
    "is_store",
    "joined_stores",
    "nothing_counted",
    "open_store",
]

FORMAT = "bydore_pyro.tokens/2"
INDEX = "index.json"
SPLITS: tuple[Literal["train", "validation"], ...] = ("train", "validation")
END = np.dtype("<i8")  # signed: numpy turns uint64 into floats beside other integers
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


def check_needed(needed: Iterable[str], names: Iterable[str]) -> None:
    """Refuses data that lacks a domain.

    Raises:
        DataError: Names the first that is missing.
    """
    known = sorted(names)
    for name in needed:
        if name not in known:
            raise DataError(f"Expected a domain of the data ({', '.join(known)}), found '{name}'")


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
    dtype = np.dtype(index["dtype"])
    arrays: dict[str, dict[str, np.ndarray]] = {split: {} for split in SPLITS}
    ends: dict[str, dict[str, np.ndarray]] = {split: {} for split in SPLITS}
    files: dict[tuple[str, str], list[WatchedFile]] = {}
    for split in SPLITS:
        for name in sorted(index["domains"]):
            entry, path = index["domains"][name][split], folder / split / name
            tokens, documents = entry["tokens"], entry["independent_documents"]
            of_ends = Path(f"{path}.ends")
            arrays[split][name] = _mapped(Path(f"{path}.bin"), tokens, dtype, "tokens")
            ends[split][name] = _mapped(of_ends, documents, END, "ends of documents")
            last = int(ends[split][name][-1]) if documents else 0
            if last != tokens:
                raise DataError(
                    f"Expected the last end of a document at {tokens}, found {last}: {of_ends}"
                )
            files[split, name] = [
                WatchedFile(Path(f"{path}.bin"), entry["sha256"]),
                WatchedFile(of_ends, entry["ends_sha256"]),
            ]
    size = sum(array.nbytes for side in arrays.values() for array in side.values())
    if verify or (verify is None and size <= ALWAYS_VERIFIED):
        for watched in (file for both in files.values() for file in both):
            if file_sha256(watched.path) != watched.sha256:
                what = "tokens" if watched.path.suffix == ".bin" else "ends of documents"
                raise DataError(
                    f"Expected the {what} that {INDEX} names, found others in {watched.path}"
                )
    return TokenStore(
        folder,
        arrays["train"],
        arrays["validation"],
        index,
        ends["train"],
        ends["validation"],
        files,
    )


def _read_index(folder: Path) -> dict[str, Any]:
    """Returns the index, whose own hash and whose tokenizer's hash are the ones that it names."""
    path = folder / INDEX
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"Expected the index of a token store, found {path}: {error}") from None
    found = index.get("format") if isinstance(index, dict) else None
    if found != FORMAT:
        raise DataError(
            f"Expected a token store of format '{FORMAT}', found {found!r} in {path}: prepare it "
            "again"
        )
    try:
        expected, rest = index["tokenizer_sha256"], (index["vocabulary"], index["dtype"])
        own = index["sha256"] == sha256_of(index["domains"], expected, *rest)
    except KeyError as error:
        raise DataError(
            f"Expected the index of a token store, found {path} without {error}"
        ) from None
    if not own:
        raise DataError(f"Expected {path} to match the hash in it, found another")
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
    return index


def _mapped(path: Path, count: int, dtype: np.dtype, what: str) -> np.ndarray:
    """Maps an array of so many numbers from a file."""
    try:
        size = path.stat().st_size
        if size != count * dtype.itemsize:
            raise DataError(f"Expected {count} {what}, found {size // dtype.itemsize}: {path}")
        return np.asarray(np.memmap(path, dtype, mode="r")) if count else np.empty(0, dtype)
    except OSError as error:
        raise DataError(f"Expected an array of {what}, found {path}: {error.strerror}") from None


def nothing_counted() -> dict[str, Any]:
    """Returns an index's entry of a domain of which nothing has been taken."""
    of_side = {"tokens": 0, "documents": 0, "independent_documents": 0, "bytes": 0}
    return {
        "train": dict(of_side),
        "validation": dict(of_side),
        "duplicates_dropped": 0,
        "in_validation_dropped": 0,
        "skipped": 0,
    }


def sha256_of(domains: dict[str, Any], tokenizer: str, vocabulary: int, dtype: str) -> str:
    """Returns the hash that names a store: of its domains' entries and of its tokenizer."""
    content = json.dumps([domains, tokenizer, vocabulary, dtype], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def joined_stores(store: TokenStore, added: TokenStore) -> TokenStore:
    """Returns a store with the domains of another too, which replace those of the same name.

    Raises:
        DataError: When the other was built with another tokenizer.
    """
    if added.tokenizer_sha256 != store.tokenizer_sha256:
        raise DataError(
            f"Expected tokens of the tokenizer in {store.folder} "
            f"({store.tokenizer_sha256[:12]}), found others in {added.folder} "
            f"({added.tokenizer_sha256[:12]}): bydore prepare --tokenizer {store.tokenizer}"
        )
    domains = dict(sorted({**store.index["domains"], **added.index["domains"]}.items()))
    sha256 = sha256_of(domains, store.tokenizer_sha256, store.vocabulary, store.index["dtype"])
    return replace(
        store,
        train=dict(sorted({**store.train, **added.train}.items())),
        validation=dict(sorted({**store.validation, **added.validation}.items())),
        train_documents={**store.train_documents, **added.train_documents},
        validation_documents={**store.validation_documents, **added.validation_documents},
        index={**store.index, "domains": domains, "sha256": sha256},
        files={**store.files, **added.files},
    )
