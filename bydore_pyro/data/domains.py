"""Tokens to batches: what the search and the training draw sequences from."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.data.scored import Sequences, answered_sequences, together
from bydore_pyro.data.store import Text, TokenStore, check_needed
from bydore_pyro.errors import DataError, listed

HeldOut = Literal["validation", "judged"]  # of the first targets are made, the second judges models
EDGE = 1e-6  # shares that are normalised again differ by less
ROUNDS = 8  # of a permutation
BLOCK = 64  # positions whose sequences are looked up at once
FEWEST_QUESTIONS = 64  # of a task, whatever its share, as far as it has them
FEWEST_CHECKED = 8  # sequences: the scatter of fewer says little of the error of their mean
KINDS = ("train", "signal", "measure")  # of streams


class Permutation:
    """A permutation of ``0 ... size - 1``, drawn by a seed, that takes no memory.

    A Feistel network permutes the numbers below the next power of four; a result that is not below
    `size`, which is in [1, 2^60], is permuted again (cycle walking), fewer than four times on
    average.

    References:
        Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002, section 5.
    """

    def __init__(self, size: int, seed: Sequence[int]) -> None:
        self.size = size
        self._half = np.uint64(max(1, ((size - 1).bit_length() + 1) // 2))  # bits
        self._mask = np.uint64((1 << int(self._half)) - 1)
        self._keys = np.random.SeedSequence(list(seed)).generate_state(ROUNDS, np.uint64)

    def __call__(self, positions: np.ndarray) -> np.ndarray:
        """Returns the numbers at `positions`, integers of the same shape below `size`."""
        numbers = self._network(np.asarray(positions, np.uint64))
        while (outside := numbers >= self.size).any():
            numbers[outside] = self._network(numbers[outside])
        return numbers.astype(np.int64)

    def _network(self, numbers: np.ndarray) -> np.ndarray:
        left, right = numbers >> self._half, numbers & self._mask
        for key in self._keys:
            left, right = right, left ^ (_mix(right + key) & self._mask)
        return (left << self._half) | right


def _mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014); wraps around at 2^64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


#: An order of a domain's sequences, and a part of it.
Choice = tuple[Permutation, range]


class SequenceStream:
    """Sequences of a domain's text, in a seeded order, without repetition within an epoch.

    Position ``n`` lies in epoch ``n // N`` and is found without replaying the ones before it.

    Args:
        store: The tokens.
        side: Of the store.
        name: The domain's.
        length: Tokens in a sequence, ``T``.
        seed: Numbers that, with the text's own (`Text.seed`), are the stream's seed.
        choice: An order of all sequences and the part of it that the stream is made of; all when
            None. Streams of different parts of one order share no sequence.
    """

    def __init__(
        self,
        store: TokenStore,
        side: str,
        name: str,
        length: int,
        seed: Sequence[int],
        choice: Choice | None = None,
    ) -> None:
        self._store, self._side, self._name, self._length = store, side, name, length
        text: Text = getattr(store, side)[name]
        self._choice = choice
        self.count = len(text) // length if choice is None else len(choice[1])
        self._seed = (*seed, *text.seed)
        self._block = lru_cache(maxsize=2)(self._find_block)

    def read(self, position: int, count: int) -> np.ndarray:
        """Returns sequences ``(count, T)`` from `position` of the stream on."""
        return self.sequences(self.rows(position, count))

    def first(self, most: int) -> Tensor:
        """Returns the first sequences ``(n, T)``, int64, each once, at most so many."""
        return torch.from_numpy(self.read(0, min(most, self.count)).astype(np.int64))

    def sequences(self, rows: np.ndarray) -> np.ndarray:
        """Returns the sequences ``(count, T)`` with these numbers in the text."""
        positions = rows[:, None] * self._length + np.arange(self._length)  # (count, T)
        return self._store.read(self._side, self._name, positions)

    def rows(self, position: int, count: int) -> np.ndarray:
        """Returns which sequences of the text ``(count,)`` come from `position` on."""
        blocks = range(position // BLOCK, -(-(position + count) // BLOCK))
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
            rows[own] = Permutation(self.count, [*self._seed, epoch])(positions[own] % self.count)
        if self._choice is None:
            return rows
        order, part = self._choice
        return order(rows + part.start)


def held_out_stream(
    store: TokenStore, name: str, length: int, seed: int, side: HeldOut = "validation"
) -> SequenceStream:
    """Returns a domain's held-out sequences, in a seed's order; judged ones in one for all seeds.

    Raises:
        DataError: When it has none.
    """
    tokens, judged = getattr(store, side).get(name, ()), side == "judged"
    if len(tokens) < length:
        kind = "judged text (every third held-out document)" if judged else "held-out text"
        raise DataError(
            f"Expected {kind} of at least {length} tokens in '{name}', found {len(tokens)}"
        )
    return SequenceStream(store, side, name, length, [0 if judged else seed, 3])


def held_out_size(text: Text, length: int) -> int:
    """Returns how many sequences of so many tokens a text has, or a task questions."""
    if text.answers is None:
        return len(text) // length
    return int(text.questions[-1]) + 1 if len(text) else 0


def held_out_sequences(
    store: TokenStore,
    name: str,
    length: int,
    seed: int,
    most: int,
    side: HeldOut = "validation",
) -> Sequences:
    """Returns held-out sequences of a domain's text, or questions of a task with their answers, in
    a seed's order; judged ones in one for all seeds.

    Args:
        store: The tokens.
        name: Of the domain or the task.
        length: ``T``, tokens in a sequence.
        seed: Of the order.
        most: Sequences or questions, at most.
        side: Of the store.

    Raises:
        DataError: When it has none.
    """
    text: Text | None = getattr(store, side).get(name)
    if text is None or text.answers is None:
        stream = held_out_stream(store, name, length, seed, side)
        rows = stream.rows(0, min(most, stream.count))
        tokens = torch.from_numpy(stream.sequences(rows).astype(np.int64))
        return Sequences(tokens, _documents(getattr(store, side)[name].ends, rows, length))
    count = held_out_size(text, length)
    order = Permutation(count, [0 if side == "judged" else seed, 3, *text.seed])
    return answered_sequences(text, length, order(np.arange(min(most, count))))


def twins(store: TokenStore, names: Iterable[str]) -> dict[str, int]:
    """Returns by domain how many of the names before it stand for the same training text.

    It seeds their orders too: samples of the same text under two names must differ.
    """
    seen: Counter[tuple[int, ...]] = Counter()
    found = {}
    for name in names:
        text = store.train[name].seed
        found[name] = seen[text]
        seen[text] += 1
    return found


def kept_aside(
    text: Text, length: int, measured: int, seed: Sequence[int]
) -> tuple[Choice, Choice] | tuple[None, None]:
    """Returns which sequences of a domain are kept for measuring, and which are trained on.

    Both are a `choice` of `SequenceStream`, of one order. All of them where none can be kept: a
    domain of two sequences has none to spare.

    Args:
        text: Of the domain.
        length: Tokens in a sequence, ``T``.
        measured: How many sequences are to be kept; at most a third are.
        seed: Numbers that, with the text's own, are the seed of the order.
    """
    count = len(text) // length
    kept = min(measured, count // 3)
    if not kept:
        return None, None
    order = Permutation(count, [*seed, 4, *text.seed])
    return (order, range(kept)), (order, range(kept, count))


def left_to_check(kept: int, most: int) -> int:
    """Returns how many of a domain's kept sequences no measurement reads: a mixture is checked on
    them. At most a quarter; and none instead of fewer than 8, unless fewer are asked for."""
    count = min(most, kept // 4)
    return count if count >= min(most, FEWEST_CHECKED) else 0


def held_out_counts(
    store: TokenStore, shares: Mapping[str, float], length: int, most: int, fewest: int = 1
) -> dict[str, int]:
    """Returns how many sequences of each domain's validation text a target is made of, and how many
    questions of each task.

    Sequences of plain text are as many as their shares say, so that each counts the same. A task
    has a mean of its own: it gives questions as its share says, but no fewer than 64.

    Args:
        store: The tokens.
        shares: Of the target, by domain or task; they are normalised.
        length: Tokens in a sequence, ``T``.
        most: Sequences and questions in all, but for what a task gives in any case.
        fewest: Sequences in all, where there is no task.

    Raises:
        DataError: When there are fewer, or a share is of less than one sequence.
    """
    total = sum(shares.values())
    parts = {name: share / total for name, share in shares.items()}
    tasks = {name for name in parts if store.validation[name].answers is not None}
    counts = {
        name: min(
            held_out_size(store.validation[name], length),
            max(FEWEST_QUESTIONS, round(most * parts[name])),
        )
        for name in tasks
    }
    plain = {name: part for name, part in parts.items() if name not in tasks}
    if plain:
        most = round(most * math.fsum(plain.values()))
        counts |= _plain_counts(store, plain, length, most, 1 if tasks else fewest)
    return {name: counts[name] for name in parts}


def _plain_counts(
    store: TokenStore, shares: Mapping[str, float], length: int, most: int, fewest: int
) -> dict[str, int]:
    """Returns how many sequences of each domain are as many as its share says."""
    total = sum(shares.values())
    held_out = {name: held_out_size(store.validation[name], length) for name in shares}
    parts = {name: share / total for name, share in shares.items()}
    limit = int(min(most, *(held_out[name] / part for name, part in parts.items())) + EDGE)
    counts = {name: round(part * limit - EDGE) for name, part in parts.items()}
    if (found := sum(counts.values())) < fewest:
        raise DataError(
            f"Expected at least {fewest} validation sequences of {length} tokens, found {found} "
            f"(held-out sequences: {held_out}); --validation_fraction holds out more, and so do "
            "files named validation beside train"
        )
    for name, count in counts.items():
        if not count:
            raise DataError(
                f"Expected a validation share of at least one in {2 * limit} for '{name}', "
                f"found {parts[name]:.2g}"
            )
    return counts


class Domains:
    """The domains of a search: training sequences by domain, and a validation set.

    Args:
        corpus: The tokens.
        validation: Shares of domains' held-out text and of tasks, which are normalised; a domain
            named here need not be trained on.
        names: The domains to train on; when None, all that have training text.
        sequence_length: ``T``, tokens in a sequence.
        validation_sequences: Most sequences in the validation set (`held_out_counts`).
        minimal_validation: Fewest.
        measured: Sequences of each domain that are kept for measuring and never trained on, at most
            a third of its sequences.
        checked: How many of these no measurement reads either (`left_to_check`).
        seed: Of every order.
        device: Where batches go.
        pools: What names stand for several domains (`Pooled`); it is only kept.

    Attributes:
        trainable: The domains that batches can be drawn from: `names`, and the validation's.
        targets: Held-out sequences, or questions, of each domain or task of the validation set.
        seed: Of every order.

    Raises:
        DataError: Fewer than two domains, one that is unknown or shorter than a sequence, or a
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
        checked: int = 0,
        seed: int = 0,
        device: torch.device | str = "cpu",
        pools: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        if sequence_length < 2:
            raise ValueError(f"Expected sequence_length >= 2, actual {sequence_length}")
        trained = (name for name, tokens in corpus.train.items() if len(tokens))
        self.names, self.pools = tuple(trained if names is None else names), pools or {}
        self.sequence_length, self.device = sequence_length, torch.device(device)
        self.corpus, self.seed, self._measured = corpus, seed, measured
        _check(corpus, self.names, validation, sequence_length)
        extra = (n for n in validation if len(corpus.train[n]) >= sequence_length)
        self.trainable = tuple(dict.fromkeys((*self.names, *extra)))
        total = math.fsum(validation.values())
        self.validation_shares = {name: share / total for name, share in validation.items()}
        twin = twins(corpus, self.trainable)
        self._streams = {
            (kind, name): self._stream(kind, number, name, twin[name])
            for number, kind in enumerate(KINDS if measured else KINDS[:2])
            for name in self.trainable
        }
        self._positions = dict.fromkeys(self._streams, 0)
        kept = {name: min(measured, count // 3) for name, count in self.sequences().items()}
        #: How many sequences of each domain `check_batch` returns.
        self.checked = {name: left_to_check(kept[name], checked) for name in self.names}
        counts = held_out_counts(
            corpus,
            self.validation_shares,
            sequence_length,
            validation_sequences,
            minimal_validation,
        )
        self.targets = {
            name: held_out_sequences(corpus, name, sequence_length, seed, count).to(self.device)
            for name, count in counts.items()
        }
        self._validation_rng = np.random.default_rng([seed, 2])

    def _stream(self, kind: str, number: int, name: str, twin: int) -> SequenceStream:
        length, text, choice = self.sequence_length, self.corpus.train[name], None
        if kind != "signal":
            kept, rest = kept_aside(text, length, self._measured, [self.seed, twin])
            choice = kept if kind == "measure" else rest
        seed = [self.seed, twin, number]
        return SequenceStream(self.corpus, "train", name, length, seed, choice)

    def _on_device(self, sequences: np.ndarray) -> Tensor:
        return torch.from_numpy(sequences.astype(np.int64)).to(self.device)

    @property
    def num_domains(self) -> int:
        """K."""
        return len(self.names)

    def train_batch(self, counts: Mapping[str, int]) -> Tensor:
        """Draws a training batch ``(B, T)``, `counts` sequences of each domain, in that order."""
        return self._draw("train", counts)

    def signal_batch(self, sequences: int, names: Sequence[str] | None = None) -> Tensor:
        """Draws `sequences` of each domain, or of `names`, in order ``(K * sequences, T)``."""
        return self._draw("signal", dict.fromkeys(names or self.names, sequences))

    def _draw(self, kind: str, counts: Mapping[str, int]) -> Tensor:
        parts = []
        for name, count in counts.items():
            if count:
                parts.append(self._streams[kind, name].read(self._positions[kind, name], count))
                self._positions[kind, name] += count
        return self._on_device(np.concatenate(parts))

    def measurable(self) -> np.ndarray:
        """Returns how many sequences of each domain are kept for measuring ``(K,)``, without those
        that are left to the check.

        Raises:
            ValueError: When none are.
        """
        if not self._measured:
            raise ValueError("Expected domains with measured > 0 for gradient matching, actual 0")
        kept = [self._streams["measure", name].count for name in self.names]
        return np.array(kept) - [*self.checked.values()]

    def measure_batch(self, name: str, count: int) -> tuple[Tensor, np.ndarray]:
        """Draws sequences that are never trained on ``(count, T)``, and the number of the document
        that each lies in ``(count,)``; sequences of one document are no independent witnesses.

        Needs `measured` > 0; a domain of fewer than three sequences has the ones it trains on.
        When all have come once, they come again, in another order.
        """
        stream, checked = self._streams["measure", name], self._checked_rows(name)
        position, each = self._positions["measure", name], stream.count - len(checked)
        first, last = position // each, (position + count - 1) // each
        epochs = [stream.rows(n * stream.count, stream.count) for n in range(first, last + 1)]
        rows = np.concatenate(epochs)
        rows = rows[~np.isin(rows, checked)][position - first * each :][:count]
        self._positions["measure", name] += count
        return self._with_documents(name, rows)

    def check_batch(self, name: str) -> tuple[Tensor, np.ndarray]:
        """Returns the sequences of a domain that are neither trained on nor measured ``(n, T)``,
        and the number of the document that each lies in ``(n,)``. ``n`` is `checked` of the domain;
        it may be 0."""
        return self._with_documents(name, self._checked_rows(name))

    def _checked_rows(self, name: str) -> np.ndarray:
        """The last sequences of the order in which the kept ones are measured first."""
        stream, count = self._streams["measure", name], self.checked[name]
        return stream.rows(stream.count - count, count) if count else np.empty(0, np.int64)

    def _with_documents(self, name: str, rows: np.ndarray) -> tuple[Tensor, np.ndarray]:
        sequences = self._streams["measure", name].sequences(rows)
        documents = _documents(self.corpus.train[name].ends, rows, self.sequence_length)
        return self._on_device(sequences), documents

    def validation_batch(self, size: int) -> tuple[Tensor, Tensor | None]:
        """Draws a validation batch, at most the whole validation set, without repetition within it.

        Returns:
            Sequences ``(B, T)``, and what each token's loss counts in the loss of its sequence
            ``(B, T - 1)``; None where that is the mean. The mean of the sequences' losses has the
            target's loss as its expectation.

        Raises:
            ValueError: When a target scores choices, whose loss is of several sequences together.
        """
        tokens, weights = self._validation
        total = len(tokens)
        rows = self._validation_rng.choice(total, min(size, total), replace=False)
        places = torch.from_numpy(rows).to(self.device)
        return tokens[places], None if weights is None else weights[places]

    @cached_property
    def _validation(self) -> tuple[Tensor, Tensor | None]:
        if any(target.questions is not None for target in self.targets.values()):
            raise ValueError("Expected targets whose answers are scored, actual choices")
        tokens, weights = together(self.targets.values())
        if weights is None:  # sequences are as many as the shares say
            return tokens, None
        counts = torch.tensor([len(one.tokens) for one in self.targets.values()])
        each = len(tokens) * torch.tensor([*self.validation_shares.values()]) / counts
        return tokens, weights * each.repeat_interleave(counts)[:, None].to(weights)

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
        place = self._positions
        return {n: place["train", n] / self._streams["train", n].count for n in self.names}

    def sequences(self) -> dict[str, int]:
        """Returns the number of training sequences of each domain, the measured ones included."""
        return {name: len(self.corpus.train[name]) // self.sequence_length for name in self.names}

    def trained(self) -> np.ndarray:
        """Returns how many sequences of each domain are trained on ``(K,)``: those that are not
        kept for measuring."""
        return np.array([self._streams["train", name].count for name in self.names])

    def most_weights(self, max_epochs: float, tokens: float) -> dict[str, float]:
        """Returns the largest weight of each domain with which a run of so many tokens reads no
        text more than `max_epochs` times; a sample stands for the text that it was drawn from."""
        sizes = {n: count * self.sequence_length for n, count in self.sequences().items()}
        sizes |= {n: self.corpus.size(n) for n in self.names if self.corpus.in_all(n)}
        return {n: max_epochs * size / tokens for n, size in sizes.items()}


def _documents(ends: np.ndarray, rows: np.ndarray, length: int) -> np.ndarray:
    """The number of the document at the middle of each sequence."""
    return np.searchsorted(ends, rows * length + length // 2, side="right")


def _check(
    corpus: TokenStore, names: Sequence[str], validation: Mapping[str, float], length: int
) -> None:
    check_needed((*names, *validation), corpus.names)
    if len(set(names)) != len(names) or len(names) < 2:
        raise DataError(
            f"Expected at least two domains, each once, found {len(names)}: {listed(names)}"
        )
    for name in names:
        if len(corpus.train[name]) < length:
            raise DataError(
                f"Expected at least one sequence of {length} tokens in domain '{name}', "
                f"found {len(corpus.train[name])} tokens: --sequence_length makes it shorter, "
                "--domains names those to train on"
            )
    total = sum(validation.values())
    if not validation or any(not share > 1e-6 * abs(total) for share in validation.values()):
        raise DataError(f"Expected validation shares > 0, found {dict(validation)}")
