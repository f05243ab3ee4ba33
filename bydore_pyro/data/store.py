"""Token stores: one memory-mapped array of tokens a domain and side, with an index of them.

A folder with

    index.json               format, tokenizer, counts and hashes (what `TokenStore.index` holds)
    tokenizer/               the tokenizer, for `AutoTokenizer.from_pretrained`
    train/NAME.bin           tokens of a domain, little-endian uint16 or uint32, documents joined,
    validation/NAME.bin      each with the end-of-text token behind it
    train/NAME.ends,         where its independent documents end in that array: one number each,
    validation/NAME.ends     little-endian int64, ascending, exclusive, the last its length

In the name of a file '=', which no domain's name holds, stands for '/'.

A document is independent of the others as far as the split knows: a whole file where files are held
out, a row where rows are, a piece where pieces are. Cut because it is long, it is several documents
of ``NAME.bin`` and still one of ``NAME.ends``.

An open store keeps every third held-out document to judge finished models by (`with_judged`).
Whoever reads tokens from elsewhere makes a `TokenStore` of its arrays.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from bydore_pyro.data.index import DOMAIN_TOKENS, INDEX, SPLITS, read_index
from bydore_pyro.data.remote import size_and_time
from bydore_pyro.data.tokens import LazyTokens, Tokens, joined, kept
from bydore_pyro.errors import DataError, listed
from bydore_pyro.files import content_hash

SIDES = (*SPLITS, "judged")  # of an open store
END = np.dtype("<i8")  # signed: numpy turns uint64 into floats beside other integers
ALWAYS_VERIFIED = 1e9  # bytes; hashing them takes a second or two
EVERY = 3  # one held-out document of so many is judged
SEEDING = 64  # first tokens of a text that seed what is drawn of it


class TokenFile:
    """A file of an open store, with its state when it was opened.

    Args:
        path: The file.
        sha256: What `hashed` returns for it. A file that was touched or copied is the same by the
            hash of its content.
        hashed: Hashes a file; its content when None.

    Raises:
        OSError: When it is not there.
    """

    def __init__(
        self, path: Path, sha256: str, hashed: Callable[[Path], str] | None = None
    ) -> None:
        self.path, self.sha256, self._hashed = path, sha256, hashed or file_sha256
        self._seen = size_and_time(path)

    def require_size(self) -> None:
        """Checks that the file is as long as it was: to read a mapped file that was cut ends the
        process.

        Raises:
            DataError: When it is not, or is gone.
        """
        try:
            if self.path.stat().st_size == self._seen[0]:
                return
            change = "other content"
        except OSError as error:
            change = str(error.strerror)
        raise DataError(f"Expected {self.path} not to change while it is read, found {change}")

    def require_unchanged(self) -> None:
        """Checks that the file holds what it held when it was opened.

        Raises:
            DataError: When it is gone or holds something else.
        """
        self.require_size()
        if (found := size_and_time(self.path)) != self._seen:
            if self._hashed(self.path) != self.sha256:
                raise DataError(
                    f"Expected {self.path} not to change while it is read, found other content"
                )
            self._seen = found


def file_sha256(path: Path) -> str:
    """Returns the hash of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, eq=False)
class Answers:
    """Which tokens of a text are scored: those of an answer, at the end of each document.

    Attributes:
        starts: Where the answer of each document begins ``(n,)``, among all tokens.
        sizes: Bytes of UTF-8 of each token of an answer ``(N,)``; 0 of all others.
        questions: The number of each document's question ``(n,)``, ascending from 0 without gaps.
        right: Where the documents of a question are choices: which are right ``(n,)``, at least one
            of each question. None where each document is a right answer.
    """

    starts: np.ndarray
    sizes: np.ndarray
    questions: np.ndarray
    right: np.ndarray | None = None

    def only(self, text: Text, chosen: np.ndarray) -> Answers:
        """Returns those of the chosen documents of a text, as `Text.only` places them."""
        starts, ends = text.starts[chosen], text.ends[chosen]
        inside = np.repeat(chosen, np.diff(text.ends, prepend=0))
        begin = np.cumsum(ends - starts) - (ends - starts)
        return Answers(
            starts=self.starts[chosen] - starts + begin,
            sizes=self.sizes[inside],
            questions=np.unique(self.questions[chosen], return_inverse=True)[1],
            right=None if self.right is None else self.right[chosen],
        )


@dataclass(frozen=True, eq=False)
class Text:
    """The text of a domain on a side: a token array that knows its documents and its files.

    Attributes:
        tokens: ``(N,)``; of files, each reading checks the sizes of those that it reads from.
        ends: Where the independent documents end: ascending, exclusive, the last one N.
        files: Where both lie; none where they are in memory.
        answers: Of a task: what of each document is scored; None of plain text.
    """

    tokens: Tokens
    ends: np.ndarray = field(repr=False)
    files: tuple[TokenFile, ...] = field(default=(), repr=False)
    answers: Answers | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, key: slice | np.ndarray) -> Any:
        return self.tokens[key]

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.tokens, dtype, copy=copy)

    @property
    def dtype(self) -> np.dtype:
        """The type of the tokens, unsigned integers."""
        return self.tokens.dtype

    @classmethod
    def in_files(cls, tokens: Tokens, ends: np.ndarray, files: Sequence[TokenFile]) -> Text:
        """Returns a text in files, whose sizes each reading checks.

        A text of many files is `joined` of one such text each: what a reading costs does not grow
        with the number of the files that it does not read.
        """

        def take(positions: np.ndarray) -> np.ndarray:
            for file in files:
                file.require_size()
            return np.asarray(tokens[positions])

        return cls(LazyTokens(take, tokens.dtype, (0, len(tokens))), ends, tuple(files))

    @property
    def starts(self) -> np.ndarray:
        """Where the documents begin."""
        return self.ends - np.diff(self.ends, prepend=0)

    @property
    def questions(self) -> np.ndarray:
        """The number of what each document belongs to ``(n,)``: its question, else its own."""
        return np.arange(len(self.ends)) if self.answers is None else self.answers.questions

    @property
    def seed(self) -> tuple[int, ...]:
        """Numbers that seed what is drawn of the text: its length and its first tokens. The same
        text draws the same under any name and in any place."""
        first = self.tokens[np.arange(min(len(self), SEEDING))]
        return len(self), *np.asarray(first).tolist()

    @classmethod
    def joined(cls, texts: Sequence[Text]) -> Text:
        """Returns texts one behind the other as one, without copying tokens."""
        if len(texts) == 1:
            return texts[0]
        before = np.cumsum([0, *map(len, texts)])
        ends = [text.ends + start for text, start in zip(texts, before, strict=False)]
        files = tuple(file for text in texts for file in text.files)
        return cls(joined([t.tokens for t in texts]), np.concatenate([before[:0], *ends]), files)

    def only(self, chosen: np.ndarray) -> Text:
        """Returns the chosen documents, booleans ``(n,)``, one behind the other, without copying
        tokens."""
        if chosen.all():
            return self
        starts, stops = self.starts[chosen], self.ends[chosen]
        ends = np.cumsum(stops - starts)
        ends.flags.writeable = False
        answers = None if self.answers is None else self.answers.only(self, chosen)
        return Text(kept(self.tokens, (starts, stops)), ends, self.files, answers)

    def require_unchanged(self) -> None:
        """Checks that no file has changed since it was opened, also of those that are not read.

        Raises:
            DataError: Names the first that has.
        """
        for file in self.files:
            file.require_unchanged()


@dataclass(frozen=True)
class TokenStore:
    """Text by domain and side, memory-mapped.

    Attributes:
        folder: Where it lies.
        train: Text of each domain, sorted by name; empty where a domain has none.
        validation: Held-out text, of which targets are made.
        index: What `index.json` holds.
        judged: Held-out text by which finished models are judged, read by nothing else; empty where
            a domain has none.
        reopen: Opens it again in another process, where its folder does not hold its text.
    """

    folder: Path
    train: Mapping[str, Text]
    validation: Mapping[str, Text]
    index: dict[str, Any] = field(repr=False)
    judged: Mapping[str, Text] = field(default_factory=dict)
    reopen: Callable[[], TokenStore] | None = field(default=None, repr=False, compare=False)

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

    def in_all(self, name: str) -> dict[str, Any] | None:
        """Returns the estimated ``tokens`` of all training text of a sampled domain, and their
        ``standard_error``, None if unknown; None where the store holds all text."""
        members = self.index.get("pools", {}).get(name, [])
        if any(found := [self.in_all(member) for member in members]):
            errors = [sampled["standard_error"] if sampled else 0 for sampled in found]
            error = None if None in errors else round(math.hypot(*errors))
            return {"tokens": sum(map(self.size, members)), "standard_error": error}
        return self.index.get("domains", {}).get(name, {}).get("train", {}).get("in_all")

    def stated(self, name: str) -> int | None:
        """Returns the tokens that there are of a domain as the user states them, None where not."""
        known = self.index.get(DOMAIN_TOKENS, {})
        members = self.index.get("pools", {}).get(name, [name])
        if known.keys() >= {*members}:
            return round(math.fsum(known[member] for member in members))
        return None

    def stands_for_other_text(self, name: str) -> bool:
        """Whether there is more of a domain, or less, than the text that the store holds of it."""
        return self.stated(name) is not None or self.in_all(name) is not None

    def size(self, name: str) -> int:
        """Returns the training tokens of a domain: those that are stated; else, for a sampled one,
        those of all its text."""
        stated, sampled = self.stated(name), self.in_all(name)
        if stated is not None:
            return stated
        return sampled["tokens"] if sampled else len(self.train[name])

    def natural(self, names: Iterable[str] | None = None) -> dict[str, float]:
        """Returns the natural weights of the domains, or of the named ones: each one's share of all
        their training text (`size`), not of what the store holds of it. They sum to 1."""
        sizes = {name: self.size(name) for name in (self.names if names is None else names)}
        total = sum(sizes.values())
        return {name: size / total for name, size in sizes.items()}

    def read(self, side: str, name: str, key: slice | np.ndarray) -> np.ndarray:
        """Returns tokens of a side and domain: a slice, or those at an array of positions.

        Raises:
            DataError: When a file was cut, or holds tokens beyond the vocabulary.
        """
        text: Text = getattr(self, side)[name]
        found = np.asarray(text.tokens[key])
        largest = int(found.max(initial=0))
        if largest >= self.vocabulary:
            text.require_unchanged()  # else that is the reason
            raise DataError(
                f"Expected tokens below {self.vocabulary}, the vocabulary of {self.tokenizer}, "
                f"found {largest} in the {side} text of '{name}'"
            )
        return found

    def with_judged(self, names: Iterable[str] | None = None) -> TokenStore:
        """Returns a store in which every third held-out document is no longer validation but
        judged, in domains without judged text; where `names` are given, which changes the hash, in
        these alone. Nothing is copied."""
        validation, judged, index = {**self.validation}, {**self.judged}, self.index
        wanted = self.names if names is None else names
        new = [name for name in wanted if not len(judged.get(name, ()))]
        for name in new:
            text = validation[name]
            judges = text.questions % EVERY == EVERY - 1
            validation[name], judged[name] = text.only(~judges), text.only(judges)
        if names is not None and new:
            index = {**index, "sha256": content_hash([self.sha256, *new])}
        return replace(self, validation=validation, judged=judged, index=index)

    def require_unchanged(self) -> None:
        """Checks that no file has changed since it was opened.

        Raises:
            DataError: Names the first that has.
        """
        for side in SIDES:
            for text in getattr(self, side).values():
                text.require_unchanged()


def check_needed(needed: Iterable[str], names: Iterable[str]) -> None:
    """Refuses data that lacks a domain.

    Raises:
        DataError: Names the first that is missing.
    """
    known = set(names)
    for name in needed:
        if name not in known:
            offered = listed(sorted(known))
            raise DataError(f"Expected a domain of the data ({offered}), found '{name}'")


def selected(wanted: Iterable[str], names: Iterable[str]) -> list[str]:
    """Returns the domains that names stand for, each once: a domain, or all below `web/legal`, also
    written `web/legal/*`.

    Raises:
        DataError: Names the first for which there is none.
    """
    known, found = list(names), dict[str, None]()
    for one in wanted:
        above = f"{one.removesuffix('*').rstrip('/')}/"
        below = [name for name in known if name == one or name.startswith(above)]
        if one in known:
            below = [one]
        check_needed([one] if not below else [], known)
        found |= dict.fromkeys(below)
    return list(found)


def stored_as(name: str) -> str:
    """Returns the name of a domain's files, without their endings."""
    return name.replace("/", "=")


def is_store(folder: Path) -> bool:
    """Whether a folder looks like a token store."""
    return (folder / INDEX).is_file() and (folder / "tokenizer").is_dir()


def open_store(folder: Path, *, verify: bool | None = None) -> TokenStore:
    """Opens a token store.

    Lengths and the tokenizer's hash are always checked; the arrays' hashes with `verify`, and when
    it is None in a store of up to a gigabyte.

    Raises:
        DataError: When it is not a store, of another version (one of an earlier version must be
            prepared again), or does not hold what its index says.
    """
    index = read_index(folder)
    dtype = np.dtype(index["dtype"])
    store, texts = TokenStore(folder, {}, {}, index), []
    for name, split in product(sorted(index["domains"]), SPLITS):
        entry, arrays, files = index["domains"][name][split], [], []
        for ending, kind, length, key in (
            ("bin", dtype, "tokens", "sha256"),
            ("ends", END, "independent_documents", "ends_sha256"),
        ):
            path, count = folder / split / f"{stored_as(name)}.{ending}", entry[length]
            try:
                files.append(TokenFile(path, entry[key]))
                found = path.stat().st_size
                if found != count * kind.itemsize:
                    raise DataError(
                        f"Expected {count * kind.itemsize} bytes, found {found}: {path}"
                    )
                mapped = np.memmap(path, kind, mode="r") if count else np.empty(0, kind)
            except OSError as error:
                raise DataError(f"Expected an array, found {path}: {error.strerror}") from None
            arrays.append(np.asarray(mapped))
        tokens, ends = arrays
        last = int(ends[-1]) if len(ends) else 0
        if last != entry["tokens"]:
            raise DataError(
                f"Expected the last end of a document at {entry['tokens']}, found {last}: {path}"
            )
        texts.append(Text.in_files(tokens, ends, files))
        getattr(store, split)[name] = texts[-1]
    size = sum(len(text) * dtype.itemsize for text in texts)
    if verify or (verify is None and size <= ALWAYS_VERIFIED):
        for file in (file for text in texts for file in text.files):
            if file_sha256(file.path) != file.sha256:
                raise DataError(f"Expected what {INDEX} names, found other content in {file.path}")
    return store.with_judged()


def nothing_counted() -> dict[str, Any]:
    """Returns the index entry of a domain of which nothing has been taken."""
    of_side = {"tokens": 0, "documents": 0, "independent_documents": 0, "bytes": 0}
    return {
        "train": dict(of_side),
        "validation": dict(of_side),
        "duplicates_dropped": 0,
        "in_validation_dropped": 0,
        "skipped": 0,
    }
