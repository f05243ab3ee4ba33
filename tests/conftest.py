"""Shared fixtures: a corpus of synthetic domains on disk and small language models."""

from __future__ import annotations

import gzip
import json
import os
import signal
import threading
from pathlib import Path

import numpy as np
import pyro
import pytest
import torch
from pyro.distributions import Dirichlet
from tokenizers import Tokenizer
from torch import Tensor, nn

from bydore_pyro.baselines.problem import Problem
from bydore_pyro.cli import main
from bydore_pyro.data.documents import CorpusConfig
from bydore_pyro.data.plan import Plan, make_plan
from bydore_pyro.data.rows import RowConfig
from bydore_pyro.data.store import TokenStore
from bydore_pyro.data.tokenizer import END_OF_TEXT, TokenizerConfig
from bydore_pyro.data.tokens import load_tokens
from bydore_pyro.domains import Domains
from bydore_pyro.proxy import ProxyConfig

# Begun in the background of a shell, tests ignore Ctrl-C, and so would all that they start.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

torch.set_num_threads(1)  # small tensors: threads cost more than they bring
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a test that reaches for a hub must fail at once

ALPHABETS = {"birds": "abcdefgh", "digits": "0123456789", "greek": "αβγδεζηθ", "upper": "QRSTUVWX"}


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


def documents_in(store: TokenStore) -> dict[str, dict[str, list[str]]]:
    """Decodes a store; returns documents by side and domain."""
    tokenizer = Tokenizer.from_file(str(store.tokenizer / "tokenizer.json"))

    def decoded(tokens: np.ndarray) -> list[str]:
        text = tokenizer.decode(tokens.tolist(), skip_special_tokens=False)
        return text.split(END_OF_TEXT)[:-1]

    return {
        side: {name: decoded(tokens) for name, tokens in arrays.items()}
        for side, arrays in (("train", store.train), ("validation", store.validation))
    }


def small_plan(data: Path | str, corpus: CorpusConfig | None = None, **rows: str) -> Plan:
    """Everything of the data, with a small tokenizer."""
    corpus = corpus or CorpusConfig(validation_fraction=0.2, domain_megabytes=0)
    return make_plan(str(data), corpus, RowConfig(**rows), TokenizerConfig(vocabulary=280))


def ends_in(store: TokenStore, side: str, name: str) -> list[int]:
    """Where the texts of a domain's side end, one after the other, by their end-of-text tokens."""
    tokenizer = Tokenizer.from_file(str(store.tokenizer / "tokenizer.json"))
    tokens = (store.train if side == "train" else store.validation)[name]
    return (np.flatnonzero(tokens == tokenizer.token_to_id(END_OF_TEXT)) + 1).tolist()


def write_corpus(folder: Path) -> Path:
    """Text files, rows that name their domains, duplicates, and explicit validation."""
    write_domains(folder, ALPHABETS, files=6)
    write_lines(folder / "law.jsonl", [row("law", i % 90) for i in range(100)])
    write_lines(folder / "web/train.jsonl.gz", [row("web", i) for i in range(200)])
    write_lines(folder / "web/validation.jsonl", [row("web", i) for i in range(0, 200, 20)])
    return folder


def folder_content(folder: Path) -> dict[str, bytes]:
    """Returns every file of a folder."""
    files = (p for p in folder.rglob("*") if p.is_file())
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(files)}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A token store of three small domains, as `bydore prepare` leaves it."""
    folder = tmp_path_factory.mktemp("store")
    text = write_domains(folder / "text", {"a": "abcde", "b": "vwxyz", "c": "klmno"}, files=30)
    main(["prepare", "--data", str(text), "--out", str(folder / "store"), "--vocabulary", "280",
          "--processes", "0"])  # fmt: skip
    return folder / "store"


@pytest.fixture(autouse=True)
def _few_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds instead of many: the draws of a search are not moved on for long."""
    monkeypatch.setattr("bydore_pyro.diagnostics.MOVES", 20)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of token stores, one for all workers of a test run."""
    folder = tmp_path_factory.getbasetemp()
    return (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "tokens"


@pytest.fixture(scope="session")
def text_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_domains(tmp_path_factory.mktemp("text"), ALPHABETS)


@pytest.fixture(scope="session")
def corpus(text_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> TokenStore:
    return load_tokens(
        str(text_folder),
        CorpusConfig(validation_fraction=0.2),
        TokenizerConfig(vocabulary=300),
        cache=tmp_path_factory.mktemp("cache"),
    )


@pytest.fixture
def domains(corpus: TokenStore) -> Domains:
    return Domains(corpus, {"birds": 1.0}, sequence_length=32, validation_sequences=64)


class Bigram(nn.Module):
    """Logits of the next token from the last token alone: quick, and its derivatives are known."""

    def __init__(self, vocabulary: int, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.table = nn.Parameter(0.1 * torch.randn(vocabulary, vocabulary, generator=generator))

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.table[input_ids]  # (B, T, V)


@pytest.fixture
def bigram(corpus: TokenStore) -> Bigram:
    return Bigram(corpus.vocabulary)


def counts_model(counts: Tensor) -> Tensor:
    """Counts ``(..., K)`` with a flat prior; the posterior is Dirichlet(1 + counts)."""
    shares = pyro.sample("shares", Dirichlet(torch.ones_like(counts)))
    pyro.factor("counts", (counts * shares.log()).sum(-1))
    return shares


def random_store(
    names: str = "abcd", vocabulary: int = 24, tokens: int = 6400, documents: int = 20
) -> TokenStore:
    """Independent tokens, drawn from a distribution of each domain's own: no text, no disk."""
    rng = np.random.default_rng(0)
    train, validation = {}, {}
    for name in names:
        shares = rng.gamma(0.5, size=vocabulary)
        cumulated = np.cumsum(shares / shares.sum())
        for side in (train, validation):
            found = np.searchsorted(cumulated, rng.random(tokens))
            side[name] = np.minimum(found, vocabulary - 1).astype(np.uint16)
    ends = dict.fromkeys(names, np.arange(1, documents + 1) * (tokens // documents))
    index = {"vocabulary": vocabulary, "sha256": "random", "tokenizer_sha256": "none"}
    return TokenStore(Path(), train, validation, index, ends, ends)


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


@pytest.fixture
def problem(corpus: TokenStore, tmp_path: Path) -> Problem:
    return make_problem(corpus, tmp_path / "proxies")
