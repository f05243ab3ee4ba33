"""Shared fixtures: a corpus of synthetic domains on disk and small language models."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyro
import pytest
import torch
from pyro.distributions import Dirichlet
from torch import Tensor, nn

from bydore_pyro.corpus import CorpusConfig
from bydore_pyro.domains import Domains
from bydore_pyro.tokens import TokenCorpus, TokenizerConfig, load_tokens

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


@pytest.fixture(scope="session")
def text_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_domains(tmp_path_factory.mktemp("text"), ALPHABETS)


@pytest.fixture(scope="session")
def corpus(text_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> TokenCorpus:
    return load_tokens(
        str(text_folder),
        CorpusConfig(validation_fraction=0.2),
        TokenizerConfig(vocabulary=300),
        cache=tmp_path_factory.mktemp("cache"),
    )


@pytest.fixture
def domains(corpus: TokenCorpus) -> Domains:
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
def bigram(corpus: TokenCorpus) -> Bigram:
    return Bigram(corpus.vocabulary)


def counts_model(counts: Tensor) -> Tensor:
    """Counts ``(..., K)`` with a flat prior; the posterior is Dirichlet(1 + counts)."""
    shares = pyro.sample("shares", Dirichlet(torch.ones_like(counts)))
    pyro.factor("counts", (counts * shares.log()).sum(-1))
    return shares
