"""Documents to tokens, in this process or in several; light to import, for the workers."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from bydore_pyro.data.tokenizer import load_encoder

__all__ = ["Encoder", "encoding"]

Encoded = tuple[np.ndarray, np.ndarray]  # the documents' tokens, joined; the length of each
_of_worker: tuple[Any, int, np.dtype]  # a worker's tokenizer, end-of-text token and type


def encode(tokenizer: Any, end: int, dtype: np.dtype, texts: list[str]) -> Encoded:
    """Returns the tokens of the texts, each with the end-of-text token behind it."""
    ids = [e.ids for e in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    lengths = np.array([len(i) + 1 for i in ids])
    tokens = np.empty(lengths.sum(), dtype)
    ends = np.cumsum(lengths) - 1
    inside = np.ones(len(tokens), bool)
    inside[ends] = False
    tokens[inside] = np.fromiter(chain.from_iterable(ids), dtype, count=len(tokens) - len(ends))
    tokens[ends] = end
    return tokens, lengths


def _start(folder: Path, dtype: np.dtype, parent: int) -> None:
    global _of_worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that reads decides
    threading.Thread(target=_end_with_parent, args=(parent,), daemon=True).start()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one thread a process
    _of_worker = (*load_encoder(folder), dtype)


def _end_with_parent(parent: int) -> None:
    """Ends a worker whose parent was killed, before the worker ran or since; nothing else would."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _start_workers(executor: ProcessPoolExecutor, processes: int) -> None:
    """Starts the workers with Ctrl-C switched off, which they inherit: it is for the parent."""
    if threading.current_thread() is not threading.main_thread():
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for task in [executor.submit(os.getpid) for _ in range(processes)]:
            task.result()
    finally:
        signal.signal(signal.SIGINT, before)


def _encode_in_worker(texts: list[str]) -> Encoded:
    return encode(*_of_worker, texts)


class Encoder:
    """Encodes batches of texts in the background and gives them back in order.

    Args:
        executor: Where.
        function: What is run there.
        most: Batches on their way at a time.
    """

    def __init__(
        self, executor: Executor, function: Callable[[list[str]], Encoded], most: int
    ) -> None:
        self._executor, self._function, self._most = executor, function, most
        self._pending: deque[tuple[Future[Encoded], Any]] = deque()

    def submit(self, texts: list[str], label: Any) -> Iterator[tuple[Encoded, Any]]:
        """Takes a batch; yields the batches that must be taken before there is room again."""
        self._pending.append((self._executor.submit(self._function, texts), label))
        yield from self.drain(self._most)

    def drain(self, keep: int = 0) -> Iterator[tuple[Encoded, Any]]:
        """Yields encoded batches with their labels until only `keep` are on their way."""
        while len(self._pending) > keep:
            future, label = self._pending.popleft()
            yield future.result(), label


@contextmanager
def encoding(folder: Path, dtype: np.dtype, processes: int) -> Iterator[Encoder]:
    """Gives the block an encoder with the tokenizer in `folder`.

    Args:
        folder: The tokenizer's.
        dtype: Of the tokens.
        processes: Worker processes; 0 encodes in this process, in the tokenizer's own threads.
    """
    executor: Executor
    function: Callable[[list[str]], Encoded]
    if processes == 0:
        executor = ThreadPoolExecutor(1)
        function = partial(encode, *load_encoder(folder), dtype)
    else:
        executor = ProcessPoolExecutor(
            processes,
            get_context("spawn"),
            initializer=_start,
            initargs=(folder, dtype, os.getpid()),
        )
        function = _encode_in_worker
        _start_workers(executor, processes)
    try:
        yield Encoder(executor, function, most=2 * processes + 2)
    finally:
        executor.shutdown(cancel_futures=True)
