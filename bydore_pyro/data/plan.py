"""The plan of a token store, before anything is read: its sources in order, and how much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bydore_pyro import terminal
from bydore_pyro.data.documents import CorpusConfig, Source, sources_of
from bydore_pyro.data.index import FORMAT
from bydore_pyro.data.rows import RowConfig
from bydore_pyro.data.sampling import in_parts
from bydore_pyro.data.sources import LeftOut, list_files
from bydore_pyro.data.tokenizer import TokenizerConfig, encode, load_encoder
from bydore_pyro.files import content_hash

BYTES_OF_A_TOKEN = 4.0  # until they are measured, on so many megabytes of the text
MEASURED_MEGABYTES = 1.0
SHORTEST_OF_ENVIRONMENT = 200  # characters
OF_SHARDS = ("separator", "token_bytes")  # options of a tokenizer without effect on text


@dataclass(frozen=True)
class Plan:
    """The content of a store to be: two equal plans give the same store, byte for byte.

    `sources` are in the order in which they are read, `left_out` those that are not; `key` names
    the plan. `tokens` is the size of the sample, None for all that `corpus` allows. `without` has
    the texts of targets, by name: documents that contain one of them are left out (`overlap`).
    """

    data: str
    sources: list[Source]
    corpus: CorpusConfig
    rows: RowConfig
    tokenizer: TokenizerConfig
    tokens: float | None = None
    left_out: Sequence[LeftOut] = ()
    without: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        """The options that make a difference, as plain values."""
        rows = asdict(self.rows)
        del rows["on_error"]  # a store that was built without an error is the same either way
        tokenizer = asdict(self.tokenizer)
        for name in OF_SHARDS:
            del tokenizer[name]
        given: dict[str, Any] = {"corpus": asdict(self.corpus), "rows": rows}
        given["tokenizer"] = tokenizer
        if self.tokens is not None:
            given["tokens"] = self.tokens
        if self.without:
            given["without"] = {
                name: {"documents": len(texts), "sha256": content_hash(list(texts))}
                for name, texts in self.without.items()
            }
        return given

    @property
    def key(self) -> str:
        """A hash of all that makes a difference."""
        read = (source.file for source in self.sources)
        files = [[f.domain, f.name, f.size, f.version, f.side] for f in read]
        files += [[*one] for one in self.left_out]
        return content_hash([FORMAT, self.data, files, self.options])[:16]

    @property
    def files(self) -> dict[str, dict[str, int]]:
        """How many files of each domain are on which side, or left out for which reason; those
        whose side is "drawn" are split by the seed. "" has the files whose rows name domains."""
        found: dict[str, dict[str, int]] = {}
        sides = [(source.domain, source.file.side or "drawn") for source in self.sources]
        for domain, side in (*sides, *((one.domain, one.reason) for one in self.left_out)):
            of_domain = found.setdefault(domain or "", {})
            of_domain[side] = of_domain.get(side, 0) + 1
        return {name: dict(sorted(own.items())) for name, own in sorted(found.items())}

    @property
    def domains(self) -> list[str]:
        """The domains that are known before anything is read, sorted."""
        named = {s.domain for s in self.sources if s.domain is not None}
        return sorted(named.union(*(s.file.domains for s in self.sources)))


def make_plan(
    data: str,
    corpus: CorpusConfig | None = None,
    rows: RowConfig | None = None,
    tokenizer: TokenizerConfig | None = None,
    tokens: float | None = None,
    without: Mapping[str, Sequence[str]] | None = None,
) -> Plan:
    """Lists what goes into a store; opens no source.

    Args:
        data: What `list_files` takes.
        corpus: How documents are made.
        rows: The columns of rows.
        tokenizer: Which tokenizer.
        tokens: Size of the sample of all domains together, an equal share of each, in place of the
            corpus's limit. Of domains that rows name it holds what it happens to find.
        without: Texts of targets, by name, that no training document may contain.

    Raises:
        DataError: See `list_files`.
    """
    corpus, rows = corpus or CorpusConfig(), rows or RowConfig()
    for name in OF_SHARDS:
        if tokenizer is not None and getattr(tokenizer, name) is not None:
            terminal.tell(f"without effect on text: {name}")
    files, left_out = list_files(data, rows)
    if corpus.shortest_document is None:
        shortest = SHORTEST_OF_ENVIRONMENT if data == "environment" else 1
        corpus = replace(corpus, shortest_document=shortest)
    if tokens is not None:
        cap = tokens * BYTES_OF_A_TOKEN / len({file.domain for file in files})
        corpus = replace(corpus, domain_megabytes=cap / 1e6)
    sources = sources_of(files, corpus)
    parts = corpus, rows, tokenizer or TokenizerConfig()
    return Plan(data, sources, *parts, tokens, left_out, without or {})


def sample_text(plan: Plan) -> Iterator[str]:
    """Yields training text, equally much of every domain as far as it reaches."""
    total = plan.tokenizer.tokenizer_megabytes * 1e6
    share = total / (len(plan.domains) or 16)
    taken: dict[str, int] = {}
    named = all(source.domain is not None for source in plan.sources)
    for source in in_parts(plan.sources, plan.corpus, share if named else total):
        passed = 0
        if source.domain is not None and taken.get(source.domain, 0) >= share:
            continue
        for document in source.documents():
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


def most_text(plan: Plan, tokenizer: Path) -> float | None:
    """Returns the bytes of a domain, or of all domains that rows name, in the plan's tokens.

    The bytes of a token are measured on some of the text. None where the plan has no `tokens`.
    """
    if plan.tokens is None:
        return None
    config = TokenizerConfig(tokenizer_megabytes=MEASURED_MEGABYTES)
    texts = list(sample_text(replace(plan, tokenizer=config)))
    lengths = encode(*load_encoder(tokenizer), np.dtype("<u4"), texts)[1]
    each = sum(len(text.encode()) for text in texts) / max(1, lengths.sum())
    return plan.corpus.cap * (each or BYTES_OF_A_TOKEN) / BYTES_OF_A_TOKEN
