"""Trial runs of the length of a step: what their losses say of it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.stats import norm
from trial_runs import trials_of

from bydore_pyro.answer.steps import FIRST, NOISE, next_length


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


def test_further_lengths_close_in_on_the_best() -> None:
    assert next_length([1.0, 0.5, 0.25], [5.0, 4.9, 5.2]) == pytest.approx(0.5**0.5)
    assert next_length([1.0, 0.5, 0.25], [5.3, 4.9, 5.2]) == pytest.approx(0.125**0.5)
    assert next_length([1.0, 0.5, 0.25], [5.3, 5.2, 5.1]) == 0.125, "half of the smallest"
    assert next_length([1.0, 0.5, 0.25], [4.9, 5.2, 5.1]) == pytest.approx(0.5**0.5)
    lengths, best = list(FIRST), 0.4
    for _ in range(8):
        lengths.append(next_length(lengths, [abs(np.log(x / best)) for x in lengths]))
    assert min(abs(x - best) for x in lengths) < 0.02
