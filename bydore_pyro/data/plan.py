"""What goes into a token store: the sources in their order, and the options that matter."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from bydore_pyro.data.documents import (
    SMALL_PIECE,
    CorpusConfig,
    SourceFile,
    documents_of,
    in_reading_order,
)
from bydore_pyro.data.rows import RowConfig
from bydore_pyro.data.sources import list_sources
from bydore_pyro.data.store import FORMAT
from bydore_pyro.data.tokenizer import TokenizerConfig

__all__ = ["Plan", "make_plan", "sample_text"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plan:
    """What goes into a store: two equal plans give the same store, byte for byte.

    `sources` are in the order in which they are read; `key` tells plans apart.
    """

    data: str
    sources: list[SourceFile]
    corpus: CorpusConfig
    rows: RowConfig
    tokenizer: TokenizerConfig

    @property
    def parts(self) -> dict[str, Any]:
        """The parts that make a difference, as plain values."""
        rows = asdict(self.rows)
        del rows["on_error"]  # a store that was built without an error is the same either way
        files = [
            f"{s.domain}\0{s.name}\0{s.size}\0{s.version}\0{s.split}\0"
            f"{SMALL_PIECE if s.by_piece else None}"
            for s in self.sources
        ]
        digest = hashlib.sha256("\n".join(sorted(files)).encode())
        return {
            "format": FORMAT,
            "data": self.data,
            "corpus": asdict(self.corpus),
            "rows": rows,
            "tokenizer": asdict(self.tokenizer),
            "files": {"number": len(self.sources), "names, sizes and times": digest.hexdigest()},
        }

    @property
    def key(self) -> str:
        """A hash of the parts."""
        return hashlib.sha256(json.dumps(self.parts).encode()).hexdigest()[:16]

    @property
    def domains(self) -> list[str]:
        """The domains that are known before anything is read, sorted."""
        named = {s.domain for s in self.sources if s.domain is not None}
        return sorted(named.union(*(s.domains for s in self.sources)))


def make_plan(
    data: str,
    corpus: CorpusConfig | None = None,
    rows: RowConfig | None = None,
    tokenizer: TokenizerConfig | None = None,
    progress: Callable[[str], None] = log.info,
) -> Plan:
    """Lists what goes into a store; opens no source.

    Raises:
        DataError: See `list_sources`.
    """
    corpus, rows = corpus or CorpusConfig(), rows or RowConfig()
    sources = in_reading_order(list_sources(data, rows, progress), corpus)
    return Plan(data, sources, corpus, rows, tokenizer or TokenizerConfig())


def sample_text(plan: Plan) -> Iterator[str]:
    """Yields training text, the same amount of every domain as far as there is as much."""
    total = plan.tokenizer.tokenizer_megabytes * 1e6
    share = total / (len(plan.domains) or 16)
    taken: dict[str, int] = {}
    for source in plan.sources:
        passed = 0
        if source.domain is not None and taken.get(source.domain, 0) >= share:
            continue
        for document in documents_of(source, plan.corpus, {}):
            name = document.domain
            if document.text is None or name is None or document.split != "train":
                continue
            size = len(document.text.encode())
            passed += size
            if taken.get(name, 0) < share:
                taken[name] = taken.get(name, 0) + size
                yield document.text
            # A source of many domains may go on for long without one that is wanted.
            if passed >= total or (source.domain == name and taken[name] >= share):
                break
        if sum(taken.values()) >= total:
            return
