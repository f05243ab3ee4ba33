"""Text by domain: documents, exact duplicates dropped, split into training and validation."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bydore_pyro.errors import DataError, require_finite

__all__ = ["CorpusConfig", "SourceFile", "TextCorpus", "build_corpus", "folder_sources"]

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
        metadata={"help": "Share of the files held out for validation; large files never are."},
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
    """One file of a domain; `name` is its path on any machine, `read` returns its text or None."""

    name: str
    path: Path
    read: Callable[[Path], str | None]


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


def folder_sources(folder: Path) -> dict[str, list[SourceFile]]:
    """Lists a folder's domains: each sub-folder is one, with the text files below it.

    Raises:
        DataError: When the folder does not exist, has no sub-folders, or one of them has no files.
    """
    if not folder.is_dir():
        raise DataError(f"Expected --data 'environment' or a folder, found no folder {folder}")
    domains = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not domains:
        raise DataError(f"Expected one sub-folder a domain, found none in {folder}")
    sources = {}
    for domain in domains:
        _check_name(domain)
        files = sorted(p for p in domain.rglob("*") if p.is_file())
        if not files:
            raise DataError(f"Expected text files, found none in {domain}")
        sources[domain.name] = [SourceFile(str(p.relative_to(folder)), p, read_text) for p in files]
    return sources


def _check_name(domain: Path) -> None:
    """Refuses names that files, options or JSON could not carry."""
    try:
        length = len(domain.name.encode())
    except UnicodeEncodeError:
        raise DataError(f"Expected a UTF-8 folder name, found {domain.name!r}") from None
    if length > 200 or "=" in domain.name:
        raise DataError(f"Expected a name of at most 200 bytes without '=', found {domain.name!r}")


def build_corpus(
    sources: Mapping[str, Iterable[SourceFile]], config: CorpusConfig, *, origin: str
) -> TextCorpus:
    """Reads documents domain by domain, in an order drawn from the seed, up to the cap.

    A file lies on one side of the split in every domain that it feeds (a Python file feeds its
    source and its docstrings), so no validation text is seen in training under another name.

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
        taken = duplicates = unreadable = 0
        for source in _shuffled(sources[name], config.data_seed, name):
            if taken >= config.domain_megabytes * 1e6:
                break
            text = source.read(source.path)
            if text is None:
                unreadable += 1
                continue
            held_out = _is_held_out(source, config)
            kept = 0
            for document in _documents(text, config):
                digest = hashlib.sha256(document.encode()).digest()
                if digest in seen:
                    duplicates += 1
                    continue
                seen.add(digest)
                (validation if held_out else train)[name].append(document)
                kept += len(document.encode())
            if kept:
                taken += kept
                files[name].append(
                    {
                        "file": source.name,
                        "bytes": kept,
                        "sha256": hashlib.sha256(text.encode()).hexdigest(),
                        "split": "validation" if held_out else "train",
                    }
                )
        counts[name] = {
            "bytes": taken,
            "train_documents": len(train[name]),
            "validation_documents": len(validation[name]),
            "duplicates_dropped": duplicates,
            "files_not_utf8": unreadable,
        }
        log.info("%s: %.1f MB, %d documents", name, taken / 1e6, len(train[name]))
    read = {"domains": counts, "files": files}
    sha256 = hashlib.sha256(json.dumps(read, sort_keys=True).encode()).hexdigest()
    return TextCorpus(train, validation, {"origin": origin, "sha256": sha256, **read})


def _shuffled(files: Iterable[SourceFile], seed: int, domain: str) -> list[SourceFile]:
    ordered = sorted(files, key=lambda f: f.name)
    rng = np.random.default_rng([seed, *domain.encode()])
    return [ordered[i] for i in rng.permutation(len(ordered))]


def _is_held_out(source: SourceFile, config: CorpusConfig) -> bool:
    if source.path.stat().st_size > LARGEST_VALIDATION_FILE * config.domain_megabytes * 1e6:
        return False
    digest = hashlib.sha256(f"{config.data_seed}:{source.name}".encode()).digest()
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
