"""A token store that is being built.

What has been read and written is recorded in a database, in one transaction with the hashes of the
documents. A build that was killed goes on behind the last file, or part of a file, that is
recorded: arrays are cut back to their recorded lengths.

A document may have been cut into several texts, and the last of these may be dropped as duplicates.
So its end is known only when the next document of its place begins, and the end of the last
document is written at the very end.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bydore_pyro.data.documents import CorpusConfig, Document, Source, Split
from bydore_pyro.data.index import NOT_HASHED, SPLITS
from bydore_pyro.data.overlap import StandingIn
from bydore_pyro.data.remote import list_anew
from bydore_pyro.data.sampling import Sizes, Taken
from bydore_pyro.data.store import END, nothing_counted, stored_as
from bydore_pyro.data.tokenizer import Pending, encoding, load_encoder, vocabulary_of
from bydore_pyro.errors import DataError

RECORD = "progress.sqlite"
RECORDS = 3  # kind of its content; a build goes on with its own kind alone
BATCH = 500_000  # characters that are encoded at once
COMPARED = 2**16  # characters that are compared with targets at once
SECONDS_BETWEEN_RECORDS = 20.0
HASH = 16  # bytes of a document's hash that are kept
CACHE = 64_000  # kB of the database that stay in memory
#: Shows how many of how many bytes of the sources have been read, and what was taken of them.
Bar = Callable[[float, float, str], None]


class _Text(NamedTuple):
    """A text on its way to the encoder; `size` is in bytes."""

    text: str
    domain: str
    split: Split
    size: int
    begins: bool
    source: int


class Build:
    """A store that is being built, and its record.

    Args:
        folder: Where; it holds the tokenizer already.
        sources: What goes into it, in this order.
        corpus: How documents are made.
        cap: As for `Taken`.
        without: Texts of targets, by name: documents in which one stands are left out and counted,
            but for those that names have held out.

    Attributes:
        counts: By domain, as the index of the store holds them.
        beside: What the index holds beside them (`NOT_HASHED`), by its key and domain.
        sizes: Of the domains in all, as far as their files were read.
        units: By domain, the number of rows or files that were read, and the bytes of their text
            before anything is cut, dropped or left out; without text that is named validation text.
        nameless: How many rows were skipped before their domain was known.
        source: Number of the next source.
    """

    def __init__(
        self,
        folder: Path,
        sources: Sequence[Source],
        corpus: CorpusConfig,
        cap: float | None = None,
        without: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self._contains_target = StandingIn(without.values()) if without else None
        self.folder, self.sources, self.taken = folder, sources, Taken(corpus, cap)
        self.vocabulary = vocabulary_of(load_encoder(folder / "tokenizer")[0])
        self.dtype = np.dtype("<u2" if self.vocabulary <= 2**16 else "<u4")
        self.counts: dict[str, dict[str, Any]] = {}
        self.beside: dict[str, dict[str, Any]] = {key: {} for key in NOT_HASHED}
        self.units: dict[str, list[int]] = {}
        self.sizes = Sizes()
        self.source = self.nameless = 0
        # Source and row of the last text of each domain and side.
        self._last: dict[tuple[str, Split], tuple[int, int]] = {}
        self._touched: set[Path] = set()  # not yet on the disk
        self._batch: list[_Text] = []
        self._characters = 0  # of the batch
        self._bar: Bar
        self._ends: list[int]  # of the sources, in bytes of all of them
        self._encode: Callable[[list[str]], Pending]
        self._encoded: deque[tuple[Pending, list[_Text]]] = deque()
        self._database = sqlite3.connect(folder / RECORD, isolation_level=None)
        for statement in (
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = NORMAL",
            f"PRAGMA cache_size = -{CACHE}",
            "CREATE TABLE IF NOT EXISTS seen (hash BLOB PRIMARY KEY, split TEXT) WITHOUT ROWID",
            "CREATE TABLE IF NOT EXISTS record (content TEXT)",
        ):
            self._database.execute(statement)
        self._resume()
        self._database.execute("BEGIN")

    def _resume(self) -> None:
        found = self._database.execute("SELECT content FROM record").fetchone()
        if found:
            record = json.loads(found[0])
            self.source, self.nameless, self.counts, self.beside, self.units, sizes = record
            self.sizes = Sizes(sizes)
        for split in SPLITS:
            (self.folder / split).mkdir(exist_ok=True)
            for name, counts in self.counts.items():
                self.taken.add(name, split, counts[split]["bytes"])
            for path in (self.folder / split).iterdir():
                of_name = self.counts.get(path.stem.replace("=", "/"), nothing_counted())
                recorded = of_name[split]
                length = recorded["tokens"] * self.dtype.itemsize
                if path.suffix == ".ends":
                    length = max(recorded["independent_documents"] - 1, 0) * END.itemsize
                os.truncate(path, length)

    def close(self) -> None:
        """Drops what has not been recorded."""
        self._database.close()

    def run(self, processes: int, bar: Bar, cluster: str | None = None) -> None:
        """Reads the rest of the sources, with so many processes or tasks that encode.

        Raises:
            DataError: When a file cannot be read.
        """
        last, most = time.monotonic(), 2 * processes + 2  # batches on their way at a time
        sizes = [source.size or source.file.size for source in self.sources]
        self._bar, self._ends = bar, [0, *accumulate(sizes)]
        with encoding(self.folder / "tokenizer", self.dtype, processes, cluster) as self._encode:
            for number in range(self.source, len(self.sources)):
                self._read(number, most)
                if time.monotonic() - last > SECONDS_BETWEEN_RECORDS:
                    self._record(number + 1)
                    last = time.monotonic()
            self._record(len(self.sources))
        self._train_on_some()
        bar(self._ends[-1], self._ends[-1], self._so_far())
        for name, counts in self.counts.items():
            for split in SPLITS:
                if counts[split]["documents"]:  # where the last one ends
                    with (self.folder / split / f"{stored_as(name)}.ends").open("ab") as file:
                        file.write(np.array([counts[split]["tokens"]], END).tobytes())

    def _train_on_some(self) -> None:
        """Moves the text of domains that the hash has held out whole to the side of training."""
        named = {source.domain for source in self.sources if source.file.side is not None}
        moved = []
        for name, counts in self.counts.items():
            if counts["train"]["tokens"] or {name, None} & named:
                continue
            counts |= {"train": counts["validation"], "validation": counts["train"]}
            for ending in ("bin", "ends"):
                path = self.folder / "validation" / f"{stored_as(name)}.{ending}"
                if path.exists():
                    moved.append(path)
                    copy = self.folder / "train" / path.name
                    self._touched.add(Path(shutil.copyfile(path, copy)))
        self._record(len(self.sources))
        for path in moved:  # not before: who is killed here goes on from the record
            path.unlink()

    def _read(self, number: int, most: int) -> None:
        """Takes the documents of a source until its domains need no more."""
        source, reached, before = self.sources[number], 0, self.taken.total
        if self.taken.is_enough(source):
            return  # and the file stays shut
        try:
            for document in self._compared(source.documents(), source):
                if document.row_bytes is not None and source.file.side != "validation":
                    of_domain = self.units.setdefault(str(document.domain), [0, 0])
                    of_domain[0] += 1
                    of_domain[1] += document.row_bytes
                if self.taken.is_enough(source):
                    break
                if self.taken.leaves_out(source, document):
                    continue
                if document.split == "train":  # of the other side there may be more to come
                    reached = document.reached
                self._take(document, number)
                if self._characters >= BATCH:
                    self._write(most)
                    read = self._ends[number] + self.taken.total - before
                    self._bar(min(read, self._ends[number + 1]), self._ends[-1], self._so_far())
        except (DataError, OSError):
            with suppress(OSError):
                list_anew([source.file.path])
            source.file.require_unchanged()  # else that is the reason
            raise
        self._end(number, reached)

    def _compared(self, documents: Iterable[Document], source: Source) -> Iterator[Document]:
        """Yields documents, without the text of those in which a target's document stands.

        Held-out text that was drawn is compared too: it is like what is trained on, and a domain of
        little text may be trained on it in the end.
        """
        if self._contains_target is None or source.file.side == "validation":
            yield from documents
            return
        for some in _in_batches(documents):
            found = self._contains_target([document.text or "" for document in some])
            for document, contains in zip(some, found.tolist(), strict=True):
                yield (
                    document._replace(text=None, left_out="in_targets") if contains else document
                )

    def _end(self, number: int, reached: int) -> None:
        """Notes how much of a source was read: all of it; or, if none of its domain was read whole,
        up to where there was enough text, as far as that is known."""
        source = self.sources[number]
        size, group = source.size or reached, source.domain or ""
        if self.taken.is_full(source.domain, "train"):
            size = 0 if self.sizes.has(group) else reached
        if size and source.side != "validation":
            self.sizes.end(number, group, size)

    def _seen(self, digest: bytes, split: Split) -> Split | None:
        """Notes a document; returns the side on which an equal one stands, None of a new one."""
        execute = self._database.execute
        if execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", (digest, split)).rowcount:
            return None
        found: Split = execute("SELECT split FROM seen WHERE hash = ?", (digest,)).fetchone()[0]
        return found

    def _take(self, document: Document, number: int) -> None:
        """Counts a document of a source and, where it is new, puts it into the batch."""
        name, text = document.domain, document.text
        if name is None:
            self.nameless += 1
            return
        counts = self.counts.setdefault(name, nothing_counted())
        if note := document.note:
            notes = self.beside["notes"].setdefault(name, [])
            if note not in notes:
                notes.append(note)
        if text is None:
            reason = document.left_out or "skipped"
            if reason == "skipped":
                counts[reason] += 1
            elif reason == "in_targets":
                counts["in_targets_dropped"] = counts.get("in_targets_dropped", 0) + 1
            else:
                self.beside[reason][name] = self.beside[reason].get(name, 0) + 1
            return
        content = text.encode()
        before = self._seen(hashlib.sha256(content).digest()[:HASH], document.split)
        if before is not None:
            held_out = document.split == "train" and before == "validation"
            counts["in_validation_dropped" if held_out else "duplicates_dropped"] += 1
            return
        place = name, document.split
        self.taken.add(*place, len(content))
        witness = number, document.row
        begins = self._last.get(place) != witness
        self._batch.append(_Text(text, name, document.split, len(content), begins, number))
        self._characters += len(text)
        self._last[place] = witness

    def _write(self, keep: int) -> None:
        """Sends the batch off to be encoded, and appends what is encoded, the tokens and where
        documents end, to the arrays of their places, until only `keep` batches are on their way."""
        if self._batch:
            self._encoded.append((self._encode([t.text for t in self._batch]), self._batch))
            self._batch, self._characters = [], 0
        while len(self._encoded) > keep:
            future, batch = self._encoded.popleft()
            tokens, lengths = future.result()
            places: dict[tuple[str, Split], list[int]] = {}
            for number, text in enumerate(batch):
                places.setdefault((text.domain, text.split), []).append(number)
            ends = np.cumsum(lengths)
            for (name, split), own in places.items():
                of_side = self.counts[name][split]
                parts = [tokens[ends[i] - lengths[i] : ends[i]] for i in own]
                starts = of_side["tokens"] + np.cumsum(lengths[own]) - lengths[own]
                starts = starts[[batch[i].begins for i in own]]
                for i in own if split == "train" else ():
                    self.sizes.add(batch[i].source, name, int(lengths[i]))
                # Each begins where the one before it ends; before the first there is none.
                written = {"bin": np.concatenate(parts), "ends": starts[starts > 0].astype(END)}
                for ending, array in written.items():
                    path = self.folder / split / f"{stored_as(name)}.{ending}"
                    with path.open("ab") as file:
                        file.write(array.tobytes())
                    self._touched.add(path)
                of_side["tokens"] += int(lengths[own].sum())
                of_side["documents"] += len(own)
                of_side["independent_documents"] += len(starts)
                of_side["bytes"] += sum(batch[i].size for i in own)

    def _record(self, source: int) -> None:
        """Records that every document of the sources before this one is written."""
        self._write(0)
        self.sizes.close()
        while self._touched:
            with self._touched.pop().open("rb") as file:
                os.fsync(file.fileno())
        record = [source, self.nameless, self.counts, self.beside, self.units, self.sizes.state()]
        self._database.execute("DELETE FROM record")
        self._database.execute("INSERT INTO record VALUES (?)", (json.dumps(record),))
        self._database.execute("COMMIT")
        self._database.execute("BEGIN")

    def _so_far(self) -> str:
        dropped = sum(
            sum(count for key, count in counts.items() if key.endswith("_dropped"))
            for counts in self.counts.values()
        )
        megabytes = self.taken.total / 1e6
        return f"{megabytes:,.0f} MB of {len(self.counts)} domains, {dropped:,} documents dropped"


def _in_batches(documents: Iterable[Document]) -> Iterator[list[Document]]:
    """Yields documents in lists, each of so much text that comparing it at once is worth it."""
    batch: list[Document] = []
    size = 0
    for document in documents:
        batch.append(document)
        size += len(document.text or "")
        if size >= COMPARED:
            yield batch
            batch, size = [], 0
    yield batch
