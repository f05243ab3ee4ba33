"""Tokens to batches: what the search and the training draw sequences from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.data.permutation import Permutation
from bydore_pyro.data.store import TokenStore
from bydore_pyro.utils import DataError

__all__ = ["Domains", "SequenceStream"]

BLOCK = 64  # positions whose sequences are looked up at once
#: Reads tokens by calling what it is given, and checks them.
Taken = Callable[[Callable[[], np.ndarray]], np.ndarray]
KINDS = ("train", "signal", "measure")  # of streams


class SequenceStream:
    """Sequences of one token array, in a seeded order, without repetition within an epoch.

    Position ``n`` of the stream lies in epoch ``n // N`` and is found without replaying the ones
    before it.

    Args:
        tokens: The token array.
        length: Tokens in a sequence, ``T``.
        seed: Numbers that name the stream.
        choice: A random order of all sequences and the part of it that the stream is made of; all
            sequences when None. Streams of different parts of one order share no sequence.
        taken: Calls what reads, and checks what it returns: `TokenStore.taken` of the array.
    """

    def __init__(
        self,
        tokens: np.ndarray,
        length: int,
        seed: Sequence[int],
        choice: tuple[Permutation, range] | None = None,
        *,
        taken: Taken = lambda take: take(),
    ) -> None:
        total = len(tokens) // length
        self._sequences = tokens[: total * length].reshape(total, length)
        self._choice, self._taken = choice, taken
        self.count = total if choice is None else len(choice[1])
        self._seed = tuple(seed)
        self._block = lru_cache(maxsize=2)(self._find_block)

    def read(self, position: int, count: int) -> np.ndarray:
        """Returns sequences ``(count, T)`` from `position` of the stream on."""
        return self.sequences(self.rows(position, count))

    def sequences(self, rows: np.ndarray) -> np.ndarray:
        """Returns the sequences ``(count, T)`` of these numbers in the token array."""
        return self._taken(lambda: self._sequences[rows])

    def rows(self, position: int, count: int) -> np.ndarray:
        """Returns the numbers of these sequences in the token array, ``(count,)``."""
        end = position + count
        blocks = range(position // BLOCK, -(-end // BLOCK))
        rows = np.concatenate([self._block(block) for block in blocks])
        start = position - blocks.start * BLOCK
        return rows[start : start + count]

    def _find_block(self, number: int) -> np.ndarray:
        """The sequences at `BLOCK` positions that follow each other; alone they would cost more."""
        positions = np.arange(number * BLOCK, (number + 1) * BLOCK)
        epochs = positions // self.count
        rows = np.empty_like(positions)
        for epoch in range(epochs[0], epochs[-1] + 1):
            own = epochs == epoch
            order = Permutation(self.count, [*self._seed, epoch])
            rows[own] = order(positions[own] % self.count)
        if self._choice is None:
            return rows
        base, part = self._choice
        return base(rows + part.start)


class Domains:
    """The domains of a search: training sequences by domain, and a validation set.

    Args:
        corpus: The tokens.
        validation: The validation set as shares of domains' held-out text; shares are normalised.
            A domain named here need not be trained on.
        names: The domains to train on; when None, all that have training text.
        sequence_length: ``T``, tokens in a sequence.
        validation_sequences: Most sequences in the validation set.
        minimal_validation: Fewest sequences in the validation set.
        measured: Sequences of each domain that are kept for measuring and never trained on, but no
            more than a third of the domain's.
        seed: Of every order.
        device: Where batches go.

    Raises:
        DataError: Fewer than two domains, an unknown domain, one shorter than one sequence, or a
            validation set that is too small.
        ValueError: When `sequence_length` is below 2.
    """

    def __init__(
        self,
        corpus: TokenStore,
        validation: Mapping[str, float],
        *,
        names: Sequence[str] | None = None,
        sequence_length: int = 128,
        validation_sequences: int = 512,
        minimal_validation: int = 16,
        measured: int = 0,
        seed: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        if sequence_length < 2:
            raise ValueError(f"Expected sequence_length >= 2, actual {sequence_length}")
        trained = (name for name, tokens in corpus.train.items() if len(tokens))
        self.names = tuple(trained if names is None else names)
        self.sequence_length = sequence_length
        self.device = torch.device(device)
        self.corpus = corpus
        self._seed = seed
        _check(corpus, self.names, validation, sequence_length)
        extra = (n for n in validation if len(corpus.train[n]) >= sequence_length)
        #: The domains that training batches can be drawn from: `names`, and the validation's.
        self.trainable = tuple(dict.fromkeys((*self.names, *extra)))
        total = sum(validation.values())
        self.validation_shares = {name: share / total for name, share in validation.items()}
        self._measured = measured
        self._streams = {
            (kind, name): self._stream(kind, number, name)
            for number, kind in enumerate(KINDS if measured else KINDS[:2])
            for name in self.trainable
        }
        self._positions = dict.fromkeys(self._streams, 0)
        self.validation = self._validation_set(validation_sequences, minimal_validation)
        self._validation_rng = np.random.default_rng([seed, 2])

    def _stream(self, kind: str, number: int, name: str) -> SequenceStream:
        tokens, length = self.corpus.train[name], self.sequence_length
        seed, count = [self._seed, number, *name.encode()], len(tokens) // length
        kept, taken = min(self._measured, count // 3), partial(self.corpus.taken, "train", name)
        if not kept or kind == "signal":  # a domain of two sequences has none to spare
            return SequenceStream(tokens, length, seed, taken=taken)
        order = Permutation(count, [self._seed, 4, *name.encode()])
        part = range(kept) if kind == "measure" else range(kept, count)
        return SequenceStream(tokens, length, seed, (order, part), taken=taken)

    @property
    def num_domains(self) -> int:
        """K."""
        return len(self.names)

    def train_batch(self, counts: Mapping[str, int]) -> Tensor:
        """Draws a training batch ``(B, T)``, `counts` sequences of each domain, in that order."""
        return self._draw("train", counts)

    def signal_batch(self, sequences: int, names: Sequence[str] | None = None) -> Tensor:
        """Draws `sequences` of each domain, ``(K * sequences, T)``, domain after domain.

        Args:
            sequences: Of each domain.
            names: Which domains; all when None.
        """
        return self._draw("signal", dict.fromkeys(names or self.names, sequences))

    def measurable(self) -> np.ndarray:
        """Returns how many sequences of each domain are kept for measuring ``(K,)``.

        Raises:
            ValueError: When none are.
        """
        if not self._measured:
            raise ValueError("Expected domains with measured > 0 for gradient matching, actual 0")
        return np.array([self._streams["measure", name].count for name in self.names])

    def measure_batch(self, name: str, count: int) -> tuple[Tensor, np.ndarray]:
        """Draws sequences ``(count, T)`` that are never trained on, and the number of the document
        that each lies in ``(count,)``; those of one document are no independent witnesses.

        Needs `measured` > 0; a domain of fewer than three sequences has the ones it trains on.
        """
        stream = self._streams["measure", name]
        rows = stream.rows(self._positions["measure", name], count)
        self._positions["measure", name] += count
        batch = torch.from_numpy(stream.sequences(rows).astype(np.int64))
        documents = _documents(self.corpus.train_documents[name], rows, self.sequence_length)
        return batch.to(self.device), documents

    def validation_batch(self, size: int) -> Tensor:
        """Draws a validation batch ``(size, T)`` without repetition within it."""
        rows = self._validation_rng.choice(
            len(self.validation), min(size, len(self.validation)), replace=False
        )
        return self.validation[torch.from_numpy(rows).to(self.device)]

    def state(self) -> dict[str, Any]:
        """Returns where every order stands, as plain values."""
        return {
            "positions": [[*key, position] for key, position in self._positions.items()],
            "validation": self._validation_rng.bit_generator.state,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Goes on from a `state` of the same domains."""
        self._positions = {(kind, name): position for kind, name, position in state["positions"]}
        self._validation_rng.bit_generator.state = state["validation"]

    def epochs(self) -> dict[str, float]:
        """Returns how many times each domain's training text has been drawn for training."""
        return {
            name: self._positions["train", name] / self._streams["train", name].count
            for name in self.names
        }

    def sequences(self) -> dict[str, int]:
        """Returns the number of training sequences of each domain, the measured ones included."""
        length = self.sequence_length
        return {name: len(self.corpus.train[name]) // length for name in self.names}

    def most_weights(self, max_epochs: float, tokens: float) -> dict[str, float]:
        """Returns the largest weight of each domain with which no text of it is read too often.

        Args:
            max_epochs: How many times a domain's text may be read.
            tokens: Length of the run.
        """
        return {
            name: max_epochs * count * self.sequence_length / tokens
            for name, count in self.sequences().items()
        }

    def _draw(self, kind: str, counts: Mapping[str, int]) -> Tensor:
        parts = []
        for name, count in counts.items():
            if count:
                key = kind, name
                parts.append(self._streams[key].read(self._positions[key], count))
                self._positions[key] += count
        batch = np.concatenate(parts).astype(np.int64)
        return torch.from_numpy(batch).to(self.device)

    def _validation_set(self, most: int, fewest: int) -> Tensor:
        """Sequences of the held-out text, each domain's number proportional to its share."""
        streams = {
            name: SequenceStream(
                self.corpus.validation[name],
                self.sequence_length,
                [self._seed, 3, *name.encode()],
                taken=partial(self.corpus.taken, "validation", name),
            )
            for name in self.validation_shares
        }
        shares = self.validation_shares
        limit = int(min(most, *(streams[n].count / share for n, share in shares.items())))
        counts = {name: round(share * limit) for name, share in shares.items()}
        if 0 in counts.values() and sum(counts.values()) >= fewest:
            name = next(name for name, count in counts.items() if count == 0)
            raise DataError(
                f"Expected a validation share of at least one in {2 * limit} for '{name}', found "
                f"{shares[name]:.2g}"
            )
        if sum(counts.values()) < fewest:
            held_out = {name: stream.count for name, stream in streams.items()}
            raise DataError(
                f"Expected at least {fewest} validation sequences of {self.sequence_length} tokens,"
                f" found {sum(counts.values())} (held-out sequences: {held_out}; in a domain of"
                " many files, files larger than a twentieth of --domain_megabytes are never held"
                " out)"
            )
        parts, documents, before = [], [], 0
        for name, count in counts.items():
            if count:
                rows, ends = streams[name].rows(0, count), self.corpus.validation_documents[name]
                parts.append(streams[name].sequences(rows))
                documents.append(before + _documents(ends, rows, self.sequence_length))
                before += len(ends)
        #: The number of the document that each validation sequence lies in.
        self.validation_documents = np.concatenate(documents)
        return torch.from_numpy(np.concatenate(parts).astype(np.int64)).to(self.device)


def _documents(ends: np.ndarray, rows: np.ndarray, length: int) -> np.ndarray:
    """The number of the document that the middle of each sequence lies in."""
    return np.searchsorted(ends, rows * length + length // 2, side="right")


def _check(
    corpus: TokenStore, names: Sequence[str], validation: Mapping[str, float], length: int
) -> None:
    known = ", ".join(corpus.names)
    for name in (*names, *validation):
        if name not in corpus.names:
            raise DataError(f"Expected a domain of the data ({known}), found '{name}'")
    if len(set(names)) != len(names):
        raise DataError(f"Expected every domain once, found {', '.join(names)}")
    if len(names) < 2:
        raise DataError(f"Expected at least two domains, found {len(names)}: {', '.join(names)}")
    for name in names:
        if len(corpus.train[name]) < length:
            raise DataError(
                f"Expected at least one sequence of {length} tokens in domain '{name}', "
                f"found {len(corpus.train[name])} tokens"
            )
    total = sum(validation.values())
    if not validation or any(not share > 1e-6 * abs(total) for share in validation.values()):
        raise DataError(f"Expected validation shares > 0, found {dict(validation)}")
