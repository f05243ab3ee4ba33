"""Documents to tokens, in this process or in several."""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from bydore_pyro.data.encode import Encoder, _start, encode, encoding
from bydore_pyro.data.tokenizer import load_encoder, train_tokenizer

TEXTS = [f"text number {i} — ü " * (i % 7) for i in range(60)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer") / "t"
    train_tokenizer(TEXTS, 290, folder)
    return folder


def test_every_document_ends_with_the_end_of_text(folder: Path) -> None:
    tokenizer, end = load_encoder(folder)
    tokens, lengths = encode(tokenizer, end, np.dtype("<u2"), TEXTS)
    parts = np.split(tokens, np.cumsum(lengths)[:-1])
    assert [p[-1] for p in parts] == [end] * len(TEXTS)
    assert [tokenizer.decode(p[:-1].tolist()) for p in parts] == TEXTS
    assert tokens.dtype == np.uint16


@pytest.mark.parametrize("processes", [0, 2])
def test_batches_come_back_in_order(folder: Path, processes: int) -> None:
    tokenizer, end = load_encoder(folder)
    batches = [TEXTS[i : i + 7] for i in range(0, 60, 7)]
    found, waiting = [], 0
    with encoding(folder, np.dtype("<u4"), processes) as encoder:
        assert isinstance(encoder, Encoder)
        for number, batch in enumerate(batches):
            found += encoder.submit(batch, number)
            waiting = max(waiting, number + 1 - len(found))
        found += encoder.drain()
    assert [label for _, label in found] == list(range(len(batches)))
    assert 0 < waiting <= 2 * processes + 2, "memory does not grow with the corpus"
    for (tokens, lengths), label in found:
        expected = encode(tokenizer, end, np.dtype("<u4"), batches[label])
        np.testing.assert_array_equal(tokens, expected[0])
        np.testing.assert_array_equal(lengths, expected[1])


def test_a_worker_whose_parent_is_gone_before_it_runs_ends(folder: Path) -> None:
    another = 0  # no process has this number
    start = (folder, np.dtype("<u2"), another)
    with (
        ProcessPoolExecutor(1, get_context("spawn"), initializer=_start, initargs=start) as pool,
        pytest.raises(BrokenProcessPool),
    ):
        pool.submit(time.sleep, 60).result()
