"""What of a text is scored, against sums by hand; what stands before an answer moves nothing."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from scored_text import END, scored_text

from bydore_pyro.data.scored import (
    OF_CHOICES,
    PER_BYTE,
    Sequences,
    answered_sequences,
    together,
    weighted,
)
from bydore_pyro.law.losses import PER_TOKEN

# (context, answer, bytes of the answer's tokens)
ROWS = [([1, 2, 3], [4, 5], [2, 3]), ([], [6, 7, 8], [1, 1, 4]), ([1] * 6, [5], [3])]


def test_answers_are_scored_in_bits_per_byte_and_questions_lose_their_beginning() -> None:
    found = answered_sequences(scored_text(ROWS), 5, np.array([0, 1, 2]))
    assert found.unit == PER_BYTE
    assert found.tokens.tolist() == [[1, 2, 3, 4, 5], [END, 6, 7, 8, 0], [1, 1, 1, 1, 5]]
    losses = torch.arange(1.0, 13.0).view(3, 4)
    bits = [(3 + 4) / 5, (5 + 6 + 7) / 6, 12 / 3]
    expected = torch.tensor(bits) / math.log(2)
    torch.testing.assert_close(found.losses(found.of_sequences(losses)), expected)
    assert found.per_nat == pytest.approx(sum((2 / 5, 3 / 6, 1 / 3)) / 3 / math.log(2))


def test_of_an_answer_longer_than_a_sequence_the_bytes_that_are_left_count() -> None:
    found = answered_sequences(
        scored_text([([1, 2], [3, 4, 5, 6], [7, 1, 2, 4])]), 4, np.array([0])
    )
    assert found.tokens.tolist() == [[3, 4, 5, 6]]
    weights = np.full(3, 1 / (7 * math.log(2)))
    np.testing.assert_allclose(found.token_weights[0], weights, rtol=1e-6)


def test_a_choice_is_scored_by_its_share_and_its_gradient_is_that_of_autograd() -> None:
    rows = [
        ([1], [2], [1]),
        ([1], [3, 4], [2, 2]),
        ([2], [5], [2]),
        ([2], [6], [1]),
        ([2], [7], [3]),
    ]
    text = scored_text(rows, [0, 0, 1, 1, 1], [False, True, True, False, True])
    found = answered_sequences(text, 4, np.array([1, 0]))
    assert found.unit == OF_CHOICES
    assert len(found) == 2
    losses = torch.rand(5, 3, generator=torch.Generator().manual_seed(0)).double()
    losses.requires_grad_()
    each = found.of_sequences(losses)
    by_hand = [-losses[0, 0] / 2, -losses[1, 0], -losses[2, 0] / 3]
    first = -torch.logsumexp(torch.stack(by_hand)[[0, 2]], 0)
    expected = first + torch.logsumexp(torch.stack(by_hand), 0)
    result = found.losses(each)
    torch.testing.assert_close(result[0], expected, rtol=1e-6, atol=1e-6)
    per_sequence = torch.eye(5).double()
    chain = found.gradients(per_sequence, each.detach())
    for place in range(2):
        (own,) = torch.autograd.grad(result[place], each, retain_graph=True)
        torch.testing.assert_close(chain[place], own.double(), rtol=1e-6, atol=1e-8)


def test_plain_text_is_the_special_case() -> None:
    plain = Sequences(torch.ones(2, 5, dtype=torch.long), np.array([0, 0]))
    losses = torch.rand(2, 4)
    assert plain.unit == PER_TOKEN
    assert plain.per_nat == 1.0
    assert torch.equal(plain.of_sequences(losses), losses.mean(1))
    assert torch.equal(plain.losses(losses[:, 0]), losses[:, 0])
    torch.testing.assert_close(weighted(losses, plain.token_weights), losses.mean(1))
    scored = answered_sequences(scored_text(ROWS), 5, np.array([0, 1, 2]))
    assert together([plain])[1] is None
    tokens, weights = together([plain, scored])
    assert tokens.shape == (5, 5)
    assert weights is not None
    torch.testing.assert_close(weights[:2], torch.full((2, 4), 0.25))


def test_some_documents_of_a_text_keep_their_answers() -> None:
    whole = scored_text(ROWS, [0, 1, 2])
    left = whole.only(np.array([True, False, True]))
    one = answered_sequences(left, 8, np.array([0, 1]))
    other = answered_sequences(whole, 8, np.array([0, 2]))
    assert torch.equal(one.tokens, other.tokens)
    assert torch.equal(one.token_weights, other.token_weights)


def test_a_text_without_answers_is_refused() -> None:
    plain = dataclasses.replace(scored_text(ROWS), answers=None)
    with pytest.raises(ValueError, match="Expected a text with answers"):
        answered_sequences(plain, 5, np.array([0]))


def test_equal_hashes_are_of_equal_losses() -> None:
    text = scored_text(ROWS)
    one, again = (answered_sequences(text, 5, np.array([0, 1, 2])) for _ in range(2))
    assert one.sha256 == again.sha256
    assert one.weights is not None
    others = [
        dataclasses.replace(one, tokens=one.tokens + 1),
        dataclasses.replace(one, weights=2 * one.weights),
        dataclasses.replace(one, weights=None),
        dataclasses.replace(one, documents=one.documents + 1),
        one.chosen(np.array([0, 1])),
    ]
    assert len({other.sha256 for other in [one, *others]}) == 6
