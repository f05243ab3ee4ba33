"""Scored text: sequences of tokens, and what the loss of each token counts in the text's loss.

With ``ell_it`` the loss of token t of sequence i, nats, the loss of a document is of plain text, of
answers to a question, and of the right one among several choices::

    l_i = mean_t ell_it                                               nats per token
    l_i = sum_{t in the answer} ell_it / (bytes of the answer ln 2)   bits per byte
    l_q = -log sum_{i right} p_i,   p_i = softmax over the choices of -sum_t ell_it / bytes_i   nats

The loss of a text is the mean of its documents'. What stands before an answer is only read.

Bits per byte of the right answers, mean over documents and then over tasks, is what OLMo 3 and
olmix choose mixtures by.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.data.store import Text
from bydore_pyro.law import PER_TOKEN

#: What losses are counted in, beside `PER_TOKEN`.
PER_BYTE, OF_CHOICES = "bits per byte", "nats"


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences of a text, ``N`` of them, of ``n`` documents.

    Attributes:
        tokens: ``(N, T)``. Behind the end of a document stands what counts nothing.
        documents: The number of each document ``(n,)``; plain sequences of one document have the
            same, and each sequence counts as a document.
        weights: Of every token's loss from the second on, in its sequence's ``(N, T - 1)``; None of
            plain text, the mean.
        questions: Where sequences are choices: the place of each one's question ``(N,)`` among the
            documents.
        right: Where sequences are choices: whether it is a right one ``(N,)``.
    """

    tokens: Tensor
    documents: np.ndarray
    weights: Tensor | None = None
    questions: Tensor | None = None
    right: Tensor | None = None

    def __len__(self) -> int:
        return len(self.documents)

    @property
    def unit(self) -> str:
        """What losses are counted in."""
        if self.weights is None:
            return PER_TOKEN
        return PER_BYTE if self.questions is None else OF_CHOICES

    @property
    def per_nat(self) -> float:
        """By how much the loss falls, in `unit`, where that of every token falls by a nat: of
        answers, tokens a byte over ln 2."""
        return float(self.token_weights.sum(1).mean())

    @property
    def token_weights(self) -> Tensor:
        """What each token's loss counts in its sequence's ``(N, T - 1)``."""
        if self.weights is not None:
            return self.weights
        count, length = self.tokens.shape
        return torch.full((count, length - 1), 1 / (length - 1), device=self.tokens.device)

    @property
    def sha256(self) -> str:
        """Of all that it is made of: equal hashes, equal losses."""
        digest = hashlib.sha256(repr(tuple(self.tokens.shape)).encode())
        for one in (self.tokens, self.weights, self.questions, self.right):
            if one is not None:
                digest.update(one.cpu().numpy().tobytes())
        digest.update(self.documents.tobytes())
        return digest.hexdigest()

    def to(self, device: torch.device | str) -> Sequences:
        """Returns the same on a device."""
        moved: dict[str, Any] = {
            name: value.to(device)
            for name, value in vars(self).items()
            if isinstance(value, Tensor)
        }
        return replace(self, **moved)

    def of_sequences(self, token_losses: Tensor) -> Tensor:
        """Returns the loss of each sequence ``(N,)``, of tokens' losses ``(N, T - 1)``, nats."""
        return weighted(token_losses, self.weights)

    def losses(self, of_sequences: Tensor) -> Tensor:
        """Returns the loss of each document ``(n,)``, in `unit`, of sequences' losses ``(N,)``."""
        if self.questions is None or self.right is None:
            return of_sequences
        whole = self._logsumexp(of_sequences, self.questions, torch.ones_like(self.right))
        return whole - self._logsumexp(of_sequences, self.questions, self.right)

    def gradients(self, of_sequences: Tensor, losses: Tensor) -> Tensor:
        """Returns the gradient of each document's loss ``(n, S)``: of sequences' gradients
        ``(N, S)`` and losses ``(N,)``, by the chain rule."""
        if self.questions is None or self.right is None:
            return of_sequences
        places, right = (one.to(losses.device) for one in (self.questions, self.right))
        logits = -losses.double()
        whole = self._logsumexp(losses, places, torch.ones_like(right))
        shares = (logits - whole[places]).exp()
        of_right = (logits - self._logsumexp(losses, places, right)[places]).exp() * right
        factors = (of_right - shares).to(of_sequences.dtype)
        found = of_sequences.new_zeros(len(self), of_sequences.shape[1])
        return found.index_add_(0, places, factors[:, None] * of_sequences)

    def _logsumexp(self, losses: Tensor, questions: Tensor, counted: Tensor) -> Tensor:
        """The logarithm of the sum of ``e^-loss`` over each question's counted sequences."""
        places, counted = questions.to(losses.device), counted.to(losses.device)
        values = torch.where(counted, -losses.double(), -math.inf)
        most = values.new_full((len(self),), -math.inf)
        most = most.scatter_reduce_(0, places, values, "amax")
        sums = torch.zeros_like(most).index_add_(0, places, (values - most[places]).exp())
        return most + sums.log()

    def chosen(self, places: np.ndarray) -> Sequences:
        """Returns the documents at some places ``(m,)``, in that order."""
        rows, own = torch.from_numpy(places), self.questions
        if own is not None:
            first = own.cpu().numpy()
            each = [np.flatnonzero(first == place) for place in places]
            rows = torch.from_numpy(np.concatenate(each))
            own = torch.from_numpy(np.repeat(np.arange(len(each)), [len(one) for one in each]))
        parts: dict[str, Any] = {
            name: None if value is None else value[rows.to(value.device)]
            for name, value in (
                ("tokens", self.tokens),
                ("weights", self.weights),
                ("right", self.right),
            )
        }
        return Sequences(documents=self.documents[places], questions=own, **parts)


def weighted(token_losses: Tensor, weights: Tensor | None) -> Tensor:
    """Returns the losses of sequences ``(N,)``: of their tokens' ``(N, T - 1)``, by weights of the
    same shape; the mean without any. A token of weight 0 counts nothing, whatever its loss."""
    if weights is None:
        return token_losses.mean(1)
    return (torch.where(weights > 0, token_losses, 0.0) * weights).sum(1)


def together(targets: Iterable[Sequences]) -> tuple[Tensor, Tensor | None]:
    """Returns the sequences of several texts ``(N, T)``, and the weights of their tokens' losses in
    each one's sequence ``(N, T - 1)``; None of plain text alone."""
    targets = list(targets)
    tokens = torch.cat([one.tokens for one in targets])
    if all(one.weights is None for one in targets):
        return tokens, None
    return tokens, torch.cat([one.token_weights for one in targets])


def answered_sequences(text: Text, length: int, questions: np.ndarray) -> Sequences:
    """Returns some questions of a text with answers, each with an answer or with all its choices.

    A question that is too long with its answer loses its beginning; so does an answer that is
    longer than a sequence, and counts the bytes that are left. An answer without a question stands
    behind the token that ends a document, as a text does in training.

    Args:
        text: With `Text.answers`.
        length: ``T``, tokens in a sequence.
        questions: Their numbers ``(n,)``.

    Raises:
        ValueError: When it is plain text.
    """
    answers = text.answers
    if answers is None:
        raise ValueError("Expected a text with answers, actual plain text")
    places: dict[int, list[int]] = {}
    for document, question in enumerate(text.questions.tolist()):
        places.setdefault(question, []).append(document)
    rows = [(n, d) for n, question in enumerate(questions.tolist()) for d in places[question]]
    tokens = np.zeros((len(rows), length), np.int64)
    weights = np.zeros((len(rows), length - 1), np.float32)
    starts = text.starts
    unit = math.log(2) if answers.right is None else 1.0
    for row, (_, document) in enumerate(rows):
        start, end = int(starts[document]), int(text.ends[document]) - 1
        ids, sizes = np.asarray(text[start : end + 1]), answers.sizes[start:end]
        border = int(answers.starts[document]) - start
        ids, ending = ids[:-1], ids[-1:]
        if not border:
            ids, sizes, border = np.concatenate([ending, ids]), np.append(0, sizes), 1
        cut = max(0, len(ids) - length)
        ids, sizes, border = ids[cut:], sizes[cut:], max(border - cut, 1)
        tokens[row, : len(ids)] = ids
        weights[row, border - 1 : len(ids) - 1] = 1 / (unit * max(1, int(sizes[border:].sum())))
    of = None if answers.right is None else torch.tensor([n for n, _ in rows])
    right = None if answers.right is None else answers.right[[d for _, d in rows]]
    return Sequences(
        tokens=torch.from_numpy(tokens),
        documents=np.asarray(questions),
        weights=torch.from_numpy(weights),
        questions=of,
        right=None if right is None else torch.from_numpy(right),
    )
