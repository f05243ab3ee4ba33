"""A run in which text runs out: when it is read again, and what it then amounts to."""

from __future__ import annotations

from typing import Any

import torch

from bydore_pyro.answer.question import Question, TargetRun
from bydore_pyro.law.goal import Goal
from bydore_pyro.mixture.repetition import effective_shares


def run_of(**given: Any) -> TargetRun:
    usual = {"tokens": 2000.0, "repetition_constant": 4.0, "rates": torch.tensor([3.0, 1.0])}
    return TargetRun(**{**usual, "before": torch.zeros(2), **given})


def test_a_run_knows_when_text_is_read_again() -> None:
    run, alone = run_of(), torch.eye(2)
    assert run.repeats(alone[0])
    assert not run.repeats(alone[1])
    assert run.repeats(alone), "of several mixtures one does"
    assert not run.repeats(torch.tensor([0.3, 0.7]))
    expected = effective_shares(alone, run.rates, 4.0)
    torch.testing.assert_close(run.effective(alone), expected)
    assert run.effective(alone)[0, 0] < run.effective(alone)[1, 1] == 1


def test_bounds_have_the_names_of_the_domains() -> None:
    given: dict[str, Any] = {"names": ("a", "b"), "tokenizer": "", "data_sha256": ""}
    free = Question(**given)
    assert (free.least, free.most) == ({}, None)
    assert [bound.tolist() for bound in free.bounds] == [[0, 0], [1, 1]]
    bounded = Question(goal=Goal(at_least=torch.tensor([0.25, 0])), **given)
    assert (bounded.least, bounded.most) == ({"a": 0.25, "b": 0.0}, None)


def test_text_that_was_read_before_teaches_as_much_less() -> None:
    """A run of two halves: what the second one gains is what the whole gains beyond the first."""
    fresh = run_of()
    first, second = torch.tensor([0.6, 0.4]), torch.tensor([0.5, 0.5])
    later = run_of(before=first)
    whole = fresh.effective(first + second) - fresh.effective(first)
    torch.testing.assert_close(later.effective(second), whole)
    assert later.effective(second)[0] < fresh.effective(second)[0]
    assert later.repeats(torch.tensor([0.1, 0.9]))
    assert not later.repeats(torch.tensor([0.0, 0.5]))
