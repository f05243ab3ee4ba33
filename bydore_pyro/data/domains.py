"""Tokens to batches: what the search and the training draw sequences from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.data.held_out import held_out_counts, held_out_sequences
from bydore_pyro.data.orders import SequenceStream, kept_aside, left_to_check, twins
from bydore_pyro.data.scored import together
from bydore_pyro.data.store import TokenStore, check_needed
from bydore_pyro.errors import DataError, listed

KINDS = ("train", "signal", "measure")  # of streams


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
        stream = self._streams["measure", name]
        return self._on_device(stream.sequences(rows)), stream.documents(rows)

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
        text more than `max_epochs` times; a sample stands for the text that it was drawn from, and
        all text for what is stated of the corpus (`TokenStore.size`)."""
        sizes = {n: count * self.sequence_length for n, count in self.sequences().items()}
        others = [name for name in self.names if self.corpus.stands_for_other_text(name)]
        sizes |= {name: self.corpus.size(name) for name in others}
        return {n: max_epochs * size / tokens for n, size in sizes.items()}


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
    small = 1e-6 * abs(total)
    if not total > 0 or any(share != 0 and not share > small for share in validation.values()):
        raise DataError(f"Expected validation shares > 0, found {dict(validation)}")
