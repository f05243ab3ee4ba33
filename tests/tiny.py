"""What many tests need: small domains, stores, models and problems."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path

import numpy as np
import pyro
import torch
from pyro.distributions import Dirichlet
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from bydore_pyro.data.documents import CorpusConfig
from bydore_pyro.data.plan import Plan, make_plan
from bydore_pyro.data.rows import RowConfig
from bydore_pyro.data.store import Text, TokenStore
from bydore_pyro.data.tokenizer import END_OF_TEXT, TokenizerConfig
from bydore_pyro.proxy.config import ProxyConfig
from bydore_pyro.proxy.proxy import Proxy
from bydore_pyro.trials.problem import Problem

ALPHABETS = {"birds": "abcdefgh", "digits": "0123456789", "greek": "αβγδεζηθ", "upper": "QRSTUVWX"}


@contextmanager
def lines_told() -> Iterator[list[str]]:
    """Gives a list of the lines that the block tells, filled at its end."""
    lines: list[str] = []
    with redirect_stderr(io.StringIO()) as aside:
        try:
            yield lines
        finally:
            lines += aside.getvalue().splitlines()


def write_domains(folder: Path, alphabets: dict[str, str], files: int = 60) -> Path:
    """Writes domains of random words, each over an alphabet of its own; returns the folder."""
    rng = np.random.default_rng(0)
    for name, alphabet in alphabets.items():
        words = ["".join(rng.choice(list(alphabet), size=rng.integers(2, 6))) for _ in range(30)]
        (folder / name).mkdir(parents=True)
        for index in range(files):
            text = " ".join(rng.choice(words, size=120))
            (folder / name / f"{index}.txt").write_text(text, encoding="utf-8")
    return folder


def row(word: str, number: int, **columns: object) -> dict:
    """A row whose text tells its number."""
    return {"text": f"{word} {number} " * 60, **columns}


def write_lines(path: Path, rows: list[dict]) -> Path:
    """Writes rows as JSON lines, compressed where the name ends with .gz; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(json.dumps(r) + "\n" for r in rows).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def unparted(store: TokenStore) -> TokenStore:
    """A store whose held-out text, judged too, is validation text, as it lies in the files."""
    if not store.judged:
        return store
    texts = {}
    for name, text in store.validation.items():
        documents = documents_of(text)
        for at, document in enumerate(documents_of(store.judged[name])):
            documents.insert(3 * at + 2, document)
        texts[name] = text_of(documents, text.dtype)
    return dataclasses.replace(store, validation=texts, judged={})


def documents_of(text: Text) -> list[np.ndarray]:
    return np.split(np.asarray(text), text.ends[:-1]) if len(text.ends) else []


def assert_same_text(one: Text, other: Text) -> None:
    """Of the same tokens and documents."""
    np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    np.testing.assert_array_equal(one.ends, other.ends)


def text_of(documents: Sequence[np.ndarray], dtype: np.dtype | str = "<u2") -> Text:
    """Documents one behind the other, of a type of at least two bytes."""
    ends = np.cumsum([len(document) for document in documents]).astype(int)
    return Text(np.concatenate([np.empty(0, dtype), *documents]), ends)


def documents_in(store: TokenStore) -> dict[str, dict[str, list[str]]]:
    """Decodes a store; returns documents by side and domain, judged ones as validation."""
    store = unparted(store)
    tokenizer = Tokenizer.from_file(str(store.tokenizer / "tokenizer.json"))

    def decoded(text: Text) -> list[str]:
        found = tokenizer.decode(np.asarray(text).tolist(), skip_special_tokens=False)
        return found.split(END_OF_TEXT)[:-1]

    return {
        side: {name: decoded(text) for name, text in texts.items()}
        for side, texts in (("train", store.train), ("validation", store.validation))
    }


def small_plan(data: Path | str, corpus: CorpusConfig | None = None, **rows: str) -> Plan:
    """Everything of the data, with a small tokenizer."""
    corpus = corpus or CorpusConfig(validation_fraction=0.2, domain_megabytes=0)
    return make_plan(str(data), corpus, RowConfig(**rows), TokenizerConfig(vocabulary=280))


def ends_in(store: TokenStore, side: str, name: str) -> list[int]:
    """Where the texts of a domain's side end, one after the other, by their end-of-text tokens."""
    store = unparted(store)
    tokenizer = Tokenizer.from_file(str(store.tokenizer / "tokenizer.json"))
    tokens = np.asarray(getattr(store, side)[name])
    return (np.flatnonzero(tokens == tokenizer.token_to_id(END_OF_TEXT)) + 1).tolist()


def write_corpus(folder: Path) -> Path:
    """Text files, rows that name their domains, duplicates, and explicit validation."""
    write_domains(folder, ALPHABETS, files=6)
    write_lines(folder / "law.jsonl", [row("law", i % 90) for i in range(100)])
    write_lines(folder / "web/train.jsonl.gz", [row("web", i) for i in range(200)])
    write_lines(folder / "web/validation.jsonl", [row("web", i) for i in range(0, 200, 20)])
    return folder


def folder_content(folder: Path) -> dict[str, bytes]:
    files = (p for p in folder.rglob("*") if p.is_file())
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(files)}


class Bigram(nn.Module):
    """Logits of the next token from the last token alone: quick, and its derivatives are known."""

    def __init__(self, vocabulary: int, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.table = nn.Parameter(0.1 * torch.randn(vocabulary, vocabulary, generator=generator))

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.table[input_ids]  # (B, T, V)


def counts_model(counts: Tensor) -> Tensor:
    """Counts ``(..., K)`` with a flat prior; the posterior is Dirichlet(1 + counts)."""
    shares = pyro.sample("shares", Dirichlet(torch.ones_like(counts)))
    pyro.factor("counts", (counts * shares.log()).sum(-1))
    return shares


def random_store(
    names: Sequence[str] = "abcd", vocabulary: int = 24, tokens: int = 6400, documents: int = 20
) -> TokenStore:
    """Independent tokens, drawn from a distribution of each domain's own: no text, no disk."""
    rng, other = np.random.default_rng(0), np.random.default_rng(1)
    train, validation, judged = {}, {}, {}
    ends = np.arange(1, documents + 1) * (tokens // documents)
    for name in names:
        shares = rng.gamma(0.5, size=vocabulary)
        cumulated = np.cumsum(shares / shares.sum())
        for side, drawn in ((train, rng), (validation, rng), (judged, other)):
            found = np.searchsorted(cumulated, drawn.random(tokens))
            side[name] = Text(np.minimum(found, vocabulary - 1).astype(np.uint16), ends)
    index = {"vocabulary": vocabulary, "sha256": "random", "tokenizer_sha256": "none"}
    return TokenStore(Path(), train, validation, index, judged)


def make_problem(corpus: TokenStore, runs: Path, **fields: object) -> Problem:
    """A problem whose proxy is quick: held-out text of birds, among four domains."""
    given = {
        "corpus": corpus,
        "names": corpus.names,
        "target": {"birds": 1.0},
        "build": lambda seed: Bigram(corpus.vocabulary, seed),
        "proxy": ProxyConfig(learning_rate=0.03, warmup_steps=2),
        "steps": 40,
        "batch_sequences": 8,
        "sequence_length": 32,
        "validation_sequences": 32,
        "seed": 0,
        "budget": 20.0,
        "runs": runs,
    }
    return Problem(**{**given, **fields})


def steps_spent(problem: Problem) -> float:
    """What a problem's methods have cost, in training steps of its proxy."""
    proxy = Proxy(problem.build(0), problem.proxy)
    length = problem.sequence_length
    step = 3 * problem.batch_sequences * length * proxy._flops_per_token(length)
    return problem.cost.report()["flops"] / step


def write_byte_tokenizer(folder: Path) -> Path:
    """Writes a tokenizer to which every byte is one token."""
    letters = [END_OF_TEXT, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END_OF_TEXT).save_pretrained(
        str(folder)
    )
    return folder
