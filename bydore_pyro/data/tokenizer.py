"""The tokenizer, any of Hugging Face's or a byte-level BPE trained on the corpus, and texts to
tokens, in this process or in several.
"""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bydore_pyro import files, pieces
from bydore_pyro.command_line import Checked, option
from bydore_pyro.errors import DataError, expecting

if TYPE_CHECKING:
    from tokenizers import Tokenizer

END_OF_TEXT = "<|endoftext|>"
FILE = "tokenizer.json"
Encoded = tuple[np.ndarray, np.ndarray]  # the texts' tokens, joined; the length of each
Pending = Future[Encoded] | pieces.Task[Encoded]  # what is being encoded: it has a `result()`


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(Checked):
    """The tokenizer."""

    tokenizer: str | None = option(
        None,
        "Hugging Face tokenizer: a folder or a hub name. Default: a byte-level BPE, trained on "
        "the training text.",
    )
    vocabulary: int = option(
        2048, "Size of the vocabulary, if a tokenizer is trained.", least=257, most=2**17
    )
    tokenizer_megabytes: float = option(
        32.0,
        "MB of text on which a tokenizer is trained, equally many of each domain.",
        above=0,
        most=1e4,
    )

    separator: int | None = option(
        None,
        "Of token shards: the token that divides documents, where it is not the tokenizer's "
        "end-of-text token.",
        least=0,
    )
    token_bytes: Literal[2, 4, 8] | None = option(
        None, "Of token shards: bytes of a token, where no file says."
    )


def train_tokenizer(texts: Iterable[str], vocabulary: int, folder: Path) -> None:
    """Trains a byte-level BPE and writes it as `AutoTokenizer.from_pretrained(folder)` reads it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END_OF_TEXT)
    fast.save_pretrained(str(folder))


def save_tokenizer(name: str, folder: Path) -> None:
    """Loads a Hugging Face tokenizer, without running code that comes with it, and writes it.

    Raises:
        DataError: When there is none, it has no `tokenizers` backend, or no end-of-text token.
    """
    from transformers import AutoTokenizer

    with expecting(f"Expected a tokenizer's folder or hub name, found '{name}':"):
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    if not tokenizer.is_fast:
        raise DataError(f"Expected a tokenizer with a {FILE}, found '{name}' without")
    if tokenizer.eos_token is None and END_OF_TEXT in tokenizer.get_vocab():  # that of a run
        tokenizer.eos_token = END_OF_TEXT
    if tokenizer.eos_token is None:
        raise DataError(f"Expected a tokenizer with an end-of-text token, found '{name}' without")
    tokenizer.save_pretrained(str(folder))


def load_encoder(folder: Path) -> tuple[Tokenizer, int]:
    """Returns the tokenizer that encodes documents, and the token that ends one.

    Special tokens that stand in the text as words are encoded as words; nothing is cut or padded.

    Raises:
        DataError: When the folder holds no tokenizer that can be read.
    """
    from tokenizers import Tokenizer

    with expecting(f"Expected a tokenizer in {folder}, found:"):
        tokenizer = Tokenizer.from_file(str(folder / FILE))
        config = files.read_json(folder / "tokenizer_config.json")
        end = config["eos_token"]
        token = tokenizer.token_to_id(end if isinstance(end, str) else end["content"])
        if token is None:
            raise ValueError(f"no token {end}")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer, token


def pad_token(folder: Path, tokenizer: Tokenizer) -> int | None:
    """Returns the token that fills up sequences, None where a tokenizer has none."""
    pad = files.read_json(folder / "tokenizer_config.json").get("pad_token")
    name = pad.get("content") if isinstance(pad, dict) else pad
    found: int | None = tokenizer.token_to_id(name) if isinstance(name, str) else None
    return found


def vocabulary_of(tokenizer: Tokenizer) -> int:
    """Returns the largest token id plus 1; ids may have holes, so there may be fewer tokens."""
    return max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1


def tokenizer_sha256(folder: Path) -> str:
    """Returns the hash of the tokenizer's file: two with the same hash give the same tokens."""
    return hashlib.sha256((folder / FILE).read_bytes()).hexdigest()


def other_token(folder: Path, other: Path) -> str | None:
    """Returns a token of a tokenizer that another one does not know by the same number, None where
    it knows them all. The other may have further tokens.

    Raises:
        DataError: When a folder holds no tokenizer that can be read.
    """
    from tokenizers import Tokenizer

    with expecting(f"Expected tokenizers in {folder} and {other}, found:"):
        own, known = (
            Tokenizer.from_file(str(place / FILE)).get_vocab(with_added_tokens=True)
            for place in (folder, other)
        )
    return next((token for token, number in own.items() if known.get(token) != number), None)


def encode(tokenizer: Any, end: int, dtype: np.dtype, texts: list[str]) -> Encoded:
    """Returns the tokens of the texts, each with the end-of-text token behind it, and the length of
    each in tokens."""
    ids = [e.ids for e in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    lengths = np.array([len(i) + 1 for i in ids], np.int64)
    tokens = np.empty(lengths.sum(), dtype)
    ends = np.cumsum(lengths) - 1
    inside = np.ones(len(tokens), bool)
    inside[ends] = False
    tokens[inside] = np.fromiter(chain.from_iterable(ids), dtype, count=len(tokens) - len(ends))
    tokens[ends] = end
    return tokens, lengths


@contextmanager
def encoding(
    folder: Path, dtype: np.dtype, processes: int, cluster: str | None = None
) -> Iterator[Callable[[list[str]], Pending]]:
    """Gives the block a function that encodes texts in the background.

    Args:
        folder: The tokenizer's.
        dtype: Of the tokens.
        processes: Worker processes; 0 encodes in this process, in the tokenizer's own threads.
        cluster: In place of these, as for `bydore_pyro.pieces.join_cluster`.
    """
    executor: Executor
    if cluster is not None:
        pieces.join_cluster(cluster)
        yield pieces.on_cluster(partial(_encode_elsewhere, folder.absolute(), dtype))
        return
    if processes == 0:
        executor, function = ThreadPoolExecutor(1), partial(encode, *load_encoder(folder), dtype)
    else:
        executor = ProcessPoolExecutor(processes, get_context("spawn"), _start)
        function = partial(_encode_elsewhere, folder, dtype)
    try:
        yield lambda texts: executor.submit(function, texts)
    finally:
        executor.shutdown(cancel_futures=True)


def _start() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that reads decides
    threading.Thread(target=_end_with, args=(parent_process(),), daemon=True).start()


def _end_with(parent: Any) -> None:
    """Ends a worker whose parent was killed; nothing else would."""
    parent.join()
    os._exit(1)


def _encode_elsewhere(folder: Path, dtype: np.dtype, texts: list[str]) -> Encoded:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one thread a process
    return encode(*_encoder(folder), dtype, texts)


_encoder = lru_cache(maxsize=1)(load_encoder)
