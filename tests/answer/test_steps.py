"""Trial runs of the length of a step: what their losses say of it."""

from __future__ import annotations

import dataclasses

import pytest
from scipy.stats import norm
from trial_runs import trials_of

from bydore_pyro.answer.steps import NOISE


@pytest.mark.parametrize("gap", [0.0, 0.01, 0.05])
@pytest.mark.parametrize("noise", [0.01, NOISE])
def test_of_two_lengths_the_better_is_so_by_a_known_probability(gap: float, noise: float) -> None:
    tried = dataclasses.replace(trials_of(5.0, 5.0 + gap), noise=noise)
    first, second = tried.probabilities
    assert first == pytest.approx(norm.cdf(gap / (noise * 2**0.5)), abs=0.01)
    assert first + second == pytest.approx(1)


def test_lengths_that_lead_to_the_same_mixture_are_one_choice() -> None:
    """Beside one other of the same loss they have a half together, not two thirds."""
    found = trials_of(5.0, 5.0, 5.0, first_weights=(0.5, 0.4, 0.4))
    assert found.probabilities == pytest.approx((0.5, 0.5, 0.0), abs=0.01)
