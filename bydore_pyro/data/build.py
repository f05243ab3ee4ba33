"""A token store that is being built.

What has been read and written is recorded in a database, in one transaction with the hashes of the
documents. A build that was killed goes on from its last record: arrays are cut back to their
recorded lengths, and the source that it was in is read again up to the recorded row.

A document may have been cut into several texts, and the last of these may be dropped as duplicates.
So its end is known only when the next document of its place begins, and the end of the last
document is written at the very end.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bydore_pyro.data.documents import Document, SourceFile, Split, documents_of, split_of_file
from bydore_pyro.data.encode import Encoded, Encoder
from bydore_pyro.data.plan import Plan
from bydore_pyro.data.sources import check_name
from bydore_pyro.data.store import END, SPLITS, nothing_counted
from bydore_pyro.data.tokenizer import load_encoder
from bydore_pyro.utils import DataError, appearing_file

__all__ = ["RECORD", "Build", "is_recorded"]

RECORD = "progress.sqlite"
BATCH = 500_000  # characters that are encoded at once
SECONDS_BETWEEN_RECORDS = 20.0
HASH = 16  # bytes of a document's hash that are kept
CACHE = 64_000  # kB of the database that stay in memory


def is_recorded(folder: Path) -> bool:
    """Whether a build in a folder could go on from somewhere, or would begin anew."""
    if not (folder / RECORD).exists():
        return False
    with closing(sqlite3.connect(folder / RECORD)) as database:
        found = database.execute("SELECT count(*) FROM record").fetchone()
    return bool(found[0])


class Text(NamedTuple):
    """A text on its way to the encoder: its place, and whether it begins a document."""

    text: str
    domain: str
    split: Split
    size: int  # bytes
    begins: bool


class Build:
    """A store that is being built, and its record.

    Args:
        folder: Where; it holds the tokenizer already.
        plan: What goes into it.

    Attributes:
        counts: By domain, as the index of the store tells them.
        source: Number of the next source; with `row`, the last row of it that was read.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder, self.plan = folder, plan
        self.vocabulary = load_encoder(folder / "tokenizer")[0].get_vocab_size()
        self.dtype = np.dtype("<u2" if self.vocabulary <= 2**16 else "<u4")
        self.counts: dict[str, dict[str, Any]] = {}
        self.source = self.row = 0
        self._of_source = _new_source()  # what is noted of the source that is being read
        self._taken: dict[tuple[str, Split], int] = {}  # bytes read, ahead of what is written
        # Source and row of each place's last text, row 0 where all of the source is one document.
        self._last: dict[tuple[str, Split], tuple[int, int]] = {}
        self._touched: set[Path] = set()  # not yet on the disk
        self._batch: list[Text] = []
        self._characters = 0  # of the batch
        self._database = sqlite3.connect(folder / RECORD, isolation_level=None)
        for statement in (
            "PRAGMA journal_mode = WAL",
            f"PRAGMA cache_size = -{CACHE}",
            "CREATE TABLE IF NOT EXISTS seen (hash BLOB PRIMARY KEY, split TEXT) WITHOUT ROWID",
            "CREATE TABLE IF NOT EXISTS record (content TEXT)",
            "CREATE TABLE IF NOT EXISTS files (content TEXT)",
        ):
            self._database.execute(statement)
        self._resume()
        self._database.execute("BEGIN")

    def _resume(self) -> None:
        found = self._database.execute("SELECT content FROM record").fetchone()
        if found:
            record = json.loads(found[0])
            self.source, self.row = record["source"], record["row"]
            self._of_source = record["of_source"]
            self.counts = record["counts"]
            self._last = {(n, split): (source, row) for n, split, source, row in record["last"]}
        for split in SPLITS:
            for name, counts in self.counts.items():
                self._taken[name, split] = counts[split]["bytes"]
            (self.folder / split).mkdir(exist_ok=True)
            for path in (self.folder / split).iterdir():
                recorded = self.counts.get(path.stem, nothing_counted())[split]
                if path.suffix == ".bin":
                    length = recorded["tokens"] * self.dtype.itemsize
                else:
                    length = max(recorded["independent_documents"] - 1, 0) * END.itemsize
                os.truncate(path, length)

    def close(self) -> None:
        """Forgets what has not been recorded."""
        self._database.close()

    def run(self, encoder: Encoder, bar: Callable[[float, float, str], None]) -> None:
        """Reads what is left of the sources, writes their tokens, and records it."""
        sources = self.plan.sources
        total, before = sum(s.size for s in sources), sum(s.size for s in sources[: self.source])
        last = time.monotonic()
        for number in range(self.source, len(sources)):
            source, start = sources[number], self.row
            done = start  # every document up to this row has been taken
            for document in self._documents(source):
                if document.row <= start:
                    continue  # read before the build was stopped
                if document.row > done:
                    if time.monotonic() - last > SECONDS_BETWEEN_RECORDS:
                        self._record(encoder, number, done)
                        last = time.monotonic()
                    done = document.row
                self._take(document, number)
                if self._characters >= BATCH:
                    self._submit(encoder)
                    bar(before + document.position * source.size, total, self._summary())
            self._end_source(source)
            before += source.size
            self.row = 0
        self._record(encoder, len(sources), 0)
        bar(total, total, self._summary())

    def _documents(self, source: SourceFile) -> Iterator[Document]:
        """Yields a source's documents; one that changes meanwhile is refused, not trusted."""
        try:
            yield from documents_of(source, self.plan.corpus, self._taken)
        except (DataError, OSError):
            source.require_unchanged()  # else that is the reason
            raise
        source.require_unchanged()

    def write_last_ends(self) -> None:
        """Writes where the last document of every place ends; once, after `run`."""
        for name, counts in self.counts.items():
            for split in SPLITS:
                tokens = counts[split]["tokens"]
                last = np.array([tokens] if tokens else [], END)
                self._append(self.folder / split / f"{name}.ends", last)
        self._sync()

    def write_files(self) -> None:
        """Writes what was read of each source."""
        rows = self._database.execute("SELECT content FROM files ORDER BY rowid")
        with appearing_file(self.folder / "files.jsonl") as aside, aside.open("w") as file:
            file.writelines(f"{content}\n" for (content,) in rows)

    def _take(self, document: Document, number: int) -> None:
        """Counts a document of a source and, where it is new, puts it into the batch."""
        name, text, source = document.domain, document.text, self.plan.sources[number]
        if text is not None and name is not None and name not in self.counts:
            try:
                check_name(name)
            except DataError as error:
                if self.plan.rows.on_error == "stop":
                    raise DataError(f"{error}, {source.name}, row {document.row}") from None
                text = name = None
        if text is None or name is None:
            self._of_source["skipped"] += 1
            if name is not None:
                self.counts.setdefault(name, nothing_counted())["skipped"] += 1
            return
        counts, content = self.counts.setdefault(name, nothing_counted()), text.encode()
        digest = hashlib.sha256(content).digest()
        noted = self._of_source
        noted["documents"] += 1
        noted["bytes"] += len(content)
        noted["sha256"] = hashlib.sha256(bytes.fromhex(noted["sha256"]) + digest).hexdigest()
        before = self._seen(digest[:HASH], document.split)
        if before is not None:
            held_out = document.split == "train" and before == "validation"
            counts["in_validation_dropped" if held_out else "duplicates_dropped"] += 1
            return
        place = name, document.split
        self._taken[place] = self._taken.get(place, 0) + len(content)
        witness = number, 0 if source.is_whole else document.row
        begins = self._last.get(place) != witness
        self._batch.append(Text(text, name, document.split, len(content), begins))
        self._characters += len(text)
        self._last[place] = witness

    def _seen(self, digest: bytes, split: Split) -> str | None:
        """Notes a document; returns the side on which it stood before, None where it is new."""
        execute = self._database.execute
        new = execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", (digest, split))
        if new.rowcount:
            return None
        return execute("SELECT split FROM seen WHERE hash = ?", (digest,)).fetchone()[0]

    def _submit(self, encoder: Encoder) -> None:
        if self._batch:
            batch, self._batch, self._characters = self._batch, [], 0
            for encoded, ready in encoder.submit([text.text for text in batch], batch):
                self._write(encoded, ready)

    def _write(self, encoded: Encoded, batch: list[Text]) -> None:
        """Appends a batch's tokens, and where documents end, to the arrays of their places."""
        tokens, lengths = encoded
        places: dict[tuple[str, Split], list[int]] = {}
        for number, text in enumerate(batch):
            places.setdefault((text.domain, text.split), []).append(number)
        ends = np.cumsum(lengths)
        for (name, split), own in places.items():
            of_side = self.counts[name][split]
            parts = [tokens[ends[i] - lengths[i] : ends[i]] for i in own]
            starts = of_side["tokens"] + np.cumsum(lengths[own]) - lengths[own]
            starts = starts[[batch[i].begins for i in own]]
            self._append(self.folder / split / f"{name}.bin", np.concatenate(parts))
            # Each begins where the one before it ends; before the first there is none.
            self._append(self.folder / split / f"{name}.ends", starts[starts > 0].astype(END))
            of_side["tokens"] += int(lengths[own].sum())
            of_side["documents"] += len(own)
            of_side["independent_documents"] += len(starts)
            of_side["bytes"] += sum(batch[i].size for i in own)

    def _append(self, path: Path, array: np.ndarray) -> None:
        with path.open("ab") as file:
            file.write(array.tobytes())
        self._touched.add(path)

    def _end_source(self, source: SourceFile) -> None:
        if self._of_source["documents"] or self._of_source["skipped"]:
            drawn = "by piece" if source.by_piece else "by row"
            split = split_of_file(source, self.plan.corpus) or drawn
            line = {"file": source.name, "domain": source.domain, "split": split, **self._of_source}
            self._database.execute("INSERT INTO files VALUES (?)", (json.dumps(line),))
        self._of_source = _new_source()

    def _record(self, encoder: Encoder, source: int, row: int) -> None:
        """Records that every row of the sources before, and this one's up to `row`, is written."""
        self._submit(encoder)
        for encoded, ready in encoder.drain():
            self._write(encoded, ready)
        self._sync()
        record = {
            "source": source,
            "row": row,
            "of_source": self._of_source,
            "counts": self.counts,
            "last": [[*place, *witness] for place, witness in self._last.items()],
        }
        self._database.execute("DELETE FROM record")
        self._database.execute("INSERT INTO record VALUES (?)", (json.dumps(record),))
        self._database.execute("COMMIT")
        self._database.execute("BEGIN")

    def _sync(self) -> None:
        for path in self._touched:
            with path.open("rb") as file:
                os.fsync(file.fileno())
        self._touched.clear()

    def _summary(self) -> str:
        megabytes = sum(self._taken.values()) / 1e6
        dropped = sum(
            counts["duplicates_dropped"] + counts["in_validation_dropped"]
            for counts in self.counts.values()
        )
        return f"{megabytes:,.0f} MB of {len(self.counts)} domains, {dropped:,} documents dropped"


def _new_source() -> dict[str, Any]:
    return {"documents": 0, "bytes": 0, "skipped": 0, "sha256": ""}
