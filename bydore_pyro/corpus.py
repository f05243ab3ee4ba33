"""Text by domain: documents, exact duplicates dropped, split into training and validation."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from bydore_pyro.errors import require_finite
from bydore_pyro.rows import RowReader

__all__ = ["CorpusConfig", "SourceFile", "TextCorpus", "build_corpus", "read_text"]

log = logging.getLogger(__name__)

# A file above this share of a domain's cap always trains: as validation it would be most of it.
LARGEST_VALIDATION_FILE = 0.05


@dataclass(frozen=True, kw_only=True)
class CorpusConfig:
    """What becomes a document, and how much of it is taken."""

    data_seed: int = field(
        default=0, metadata={"help": "Seed of the order of the files and of the validation split."}
    )
    domain_megabytes: float = field(
        default=4.0, metadata={"help": "Most text taken of one domain, in MB of UTF-8."}
    )
    validation_fraction: float = field(
        default=0.1,
        metadata={
            "help": "Share of the files held out for validation (large ones never are), of the "
            "rows in files of rows."
        },
    )
    shortest_document: int = field(
        default=200, metadata={"help": "Characters; shorter documents are dropped."}
    )
    longest_document: int = field(
        default=20_000, metadata={"help": "Characters; longer documents are cut into pieces."}
    )

    def __post_init__(self) -> None:
        require_finite(self)
        if not self.domain_megabytes > 0:
            raise ValueError(f"Expected domain_megabytes > 0, actual {self.domain_megabytes}")
        if self.data_seed < 0:
            raise ValueError(f"Expected data_seed >= 0, actual {self.data_seed}")
        if not 0 < self.validation_fraction < 1:
            raise ValueError(
                f"Expected validation_fraction in (0, 1), actual {self.validation_fraction}"
            )
        if not 0 < self.shortest_document <= self.longest_document:
            raise ValueError(
                "Expected 0 < shortest_document <= longest_document, actual "
                f"{self.shortest_document} and {self.longest_document}"
            )


@dataclass(frozen=True)
class SourceFile:
    """One file of a domain; `name` is its path on any machine.

    `read` returns the file's text, or None where it is not UTF-8; a `RowReader` yields many texts.
    `split` is the side that the file is on; when None it is drawn from the seed, for a file of rows
    row by row.
    """

    name: str
    path: Path
    read: Callable[[Path], str | None] | RowReader
    split: Literal["train", "validation"] | None = None


@dataclass(frozen=True)
class TextCorpus:
    """Documents by domain and split, and the manifest of where they came from."""

    train: dict[str, list[str]]
    validation: dict[str, list[str]]
    manifest: dict = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The domains, sorted."""
        return tuple(self.train)


def read_text(path: Path) -> str | None:
    """Returns the file's text, or None where it is not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return None


def build_corpus(
    sources: Mapping[str, Iterable[SourceFile]], config: CorpusConfig, *, origin: str
) -> TextCorpus:
    """Reads documents domain by domain, in an order drawn from the seed, up to the cap.

    A file lies on one side of the split in every domain that it feeds (a Python file feeds its
    source and its docstrings), so no validation text is seen in training under another name; of a
    file of rows that holds for each row. A document that comes again is dropped.

    Args:
        sources: Files by domain.
        config: Lengths, cap, split and seed.
        origin: What the text is, for the manifest.

    Returns:
        The corpus. Domains are sorted by name; one without any document has empty lists.
    """
    train: dict[str, list[str]] = {}
    validation: dict[str, list[str]] = {}
    files: dict[str, list[dict]] = {}
    counts: dict[str, dict] = {}
    seen: set[bytes] = set()
    for name in sorted(sources):
        train[name], validation[name], files[name] = [], [], []
        taken = {"train": 0, "validation": 0}
        duplicates = skipped = 0
        for source in _shuffled(sources[name], config.data_seed, name):
            if _is_full(source, config, taken):
                continue  # not even opened
            kept = {"train": 0, "validation": 0}
            digest = hashlib.sha256()
            for text, held_out in _texts(source, config):
                if _is_full(source, config, {k: taken[k] + kept[k] for k in taken}):
                    break
                if text is None:
                    skipped += 1
                    continue
                digest.update(text.encode())
                for document in _documents(text, config):
                    key = hashlib.sha256(document.encode()).digest()
                    if key in seen:
                        duplicates += 1
                        continue
                    seen.add(key)
                    (validation if held_out else train)[name].append(document)
                    kept["validation" if held_out else "train"] += len(document.encode())
            if isinstance(source.read, RowReader):
                skipped += source.read.skipped
            for split, size in kept.items():
                taken[split] += size
                if size:
                    files[name].append(
                        {
                            "file": source.name,
                            "bytes": size,
                            "sha256": digest.hexdigest(),
                            "split": split,
                        }
                    )
        counts[name] = {
            "bytes": sum(taken.values()),
            "train_documents": len(train[name]),
            "validation_documents": len(validation[name]),
            "duplicates_dropped": duplicates,
            "skipped": skipped,
        }
        log.info("%s: %.1f MB", name, sum(taken.values()) / 1e6)
    read = {"domains": counts, "files": files}
    sha256 = hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()
    return TextCorpus(train, validation, {"origin": origin, "sha256": sha256, **read})


def _shuffled(files: Iterable[SourceFile], seed: int, domain: str) -> list[SourceFile]:
    ordered = sorted(files, key=lambda f: f.name)
    rng = np.random.default_rng([seed, *domain.encode()])
    shuffled = [ordered[i] for i in rng.permutation(len(ordered))]
    # Validation first: a document that stands on both sides is then dropped from training.
    return sorted(shuffled, key=lambda f: f.split != "validation")


def _is_full(source: SourceFile, config: CorpusConfig, taken: Mapping[str, int]) -> bool:
    """Whether a domain needs no more of a file; files of a given split have a cap of their own."""
    cap = config.domain_megabytes * 1e6
    if source.split == "validation":
        return taken["validation"] >= config.validation_fraction * cap
    return (taken["train"] if source.split == "train" else sum(taken.values())) >= cap


def _texts(source: SourceFile, config: CorpusConfig) -> Iterator[tuple[str | None, bool]]:
    """Yields a file's texts, each with whether it is held out for validation."""
    if isinstance(source.read, RowReader):
        for row, text in source.read(source.path):
            yield text, _is_held_out(source, config, f"{source.name}:{row}")
        return
    large = source.path.stat().st_size > LARGEST_VALIDATION_FILE * config.domain_megabytes * 1e6
    held_out = _is_held_out(source, config, source.name)
    yield source.read(source.path), held_out and (source.split is not None or not large)


def _is_held_out(source: SourceFile, config: CorpusConfig, name: str) -> bool:
    if source.split is not None:
        return source.split == "validation"
    digest = hashlib.sha256(f"{config.data_seed}:{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < config.validation_fraction * 2**64


def _documents(text: str, config: CorpusConfig) -> Iterator[str]:
    """Cuts a file into documents, at the last line break before the limit where there is one."""
    start = 0
    while start < len(text):
        end = min(start + config.longest_document, len(text))
        if end < len(text):
            line_break = text.rfind("\n", start + config.shortest_document, end)
            end = line_break + 1 if line_break > 0 else end
        piece = text[start:end].strip()
        if len(piece) >= config.shortest_document:
            yield piece
        start = end
