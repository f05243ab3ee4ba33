"""Trial runs of the length of a step: what their losses say of it."""

from __future__ import annotations

import pytest
from scipy.stats import norm
from trial_runs import trials_of

from bydore_pyro.answer.steps import LAW, NOISE, Trial, TriedSteps, tried_steps


def chances(found: TriedSteps) -> list[float]:
    return [one.probability for one in found.tried]


@pytest.mark.parametrize("gap", [0.0, 0.01, 0.05])
@pytest.mark.parametrize("noise", [0.01, NOISE])
def test_of_two_lengths_the_better_is_so_by_a_known_probability(gap: float, noise: float) -> None:
    first, second = chances(trials_of(5.0, 5.0 + gap, noise=noise))
    assert first == pytest.approx(norm.cdf(gap / (noise * 2**0.5)), abs=0.01)
    assert first + second == pytest.approx(1)


def test_lengths_that_lead_to_the_same_mixture_are_one_choice() -> None:
    """Beside one other of the same loss they have a half together, not two thirds."""
    found = trials_of(5.0, 5.0, 5.0, first_weights=(0.5, 0.4, 0.4))
    assert chances(found) == pytest.approx((0.5, 0.5, 0.0), abs=0.01)


def test_a_trial_keeps_its_mixture_and_its_loss() -> None:
    (found,) = tried_steps(10, (1.0,), [{"a": 1.0}], (5.0,)).tried
    assert found == Trial(length=1.0, loss=5.0, probability=1.0, weights={"a": 1.0})


def test_the_note_names_each_mixture_its_loss_and_its_probability() -> None:
    note = trials_of(5.0, 5.0, 6.0, lengths=(LAW, 1.0, 0.25)).note()
    assert "the law's mixture 5.000 (50 %), the match 5.000 (50 %)" in note
    assert note.endswith("0.25 of the step to the match 6.000 (0 %).")
