"""Shared fixtures: a corpus of synthetic domains on disk and small language models."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import huggingface_hub.constants
import pytest
import torch
from quick import QUICK
from tiny import (
    ALPHABETS,
    Bigram,
    make_problem,
    write_domains,
)

from bydore_pyro.baselines.problem import Problem
from bydore_pyro.cli.main import main
from bydore_pyro.data.documents import CorpusConfig
from bydore_pyro.data.domains import Domains
from bydore_pyro.data.store import TokenStore
from bydore_pyro.data.tokenizer import TokenizerConfig
from bydore_pyro.data.tokens import load_tokens

# Begun in the background of a shell, tests ignore Ctrl-C, and so would all that they start.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


torch.set_num_threads(1)  # small tensors: threads cost more than they bring


# A test that reaches for a hub must fail at once; what is imported above has read the variable.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
huggingface_hub.constants.HF_HUB_OFFLINE = True


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A token store of three small domains, as `bydore prepare` leaves it."""
    folder = tmp_path_factory.mktemp("store")
    text = write_domains(folder / "text", {"a": "abcde", "b": "vwxyz", "c": "klmno"}, files=30)
    main(["prepare", "--data", str(text), "--out", str(folder / "store"), "--vocabulary", "280",
          "--processes", "0"])  # fmt: skip
    return folder / "store"


@pytest.fixture(autouse=True)
def _quick_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file whose tests judge draws has a fixture of this name of its own."""
    for module, name, value in QUICK:
        monkeypatch.setattr(module, name, value)


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


@pytest.fixture
def bigram(corpus: TokenStore) -> Bigram:
    return Bigram(corpus.vocabulary)


@pytest.fixture
def problem(corpus: TokenStore, tmp_path: Path) -> Problem:
    return make_problem(corpus, tmp_path / "proxies")
