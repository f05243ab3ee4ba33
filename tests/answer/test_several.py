"""Several targets, or a given mixture: by hand where gradients are orthogonal."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from gaussian_evidence import matching_of

from bydore_pyro.answer.answer import Answer, answer_of
from bydore_pyro.answer.question import Question
from bydore_pyro.answer.several import compromise, shortfall
from bydore_pyro.core.point import given_away
from bydore_pyro.core.posterior import Posterior

QUESTION = Question(names=("a", "b"), tokenizer="t", data_sha256="d")


def answer_for(*weights: float, spread: float = 0.0) -> Answer:
    """Of orthogonal gradients of length 1; draws at the weights, or about them."""
    eye = torch.eye(2, dtype=torch.float64)
    found = dataclasses.replace(matching_of(torch.tensor(weights)), gram=eye)
    found = dataclasses.replace(found, cross=found.optimum, target=float(found.optimum.norm() ** 2))
    offset = spread * torch.linspace(-1, 1, 400, dtype=torch.float64)[:, None]
    draws = found.optimum + offset * torch.tensor([1.0, -1.0])
    return answer_of(found, Posterior(draws, torch.ones(400).double(), True), QUESTION)


def test_a_compromise_halves_the_angle_between_two_targets() -> None:
    """Not the mean of the weights: targets of long gradients count no more than others."""
    found = compromise([answer_for(1, 0), answer_for(0.5, 0.5)])
    angle = np.arctan2(float(found[1]), float(found[0]))
    assert angle == pytest.approx(np.pi / 8, abs=1e-3)
    torch.testing.assert_close(found.sum(), torch.ones(()).double())


def test_a_shortfall_is_what_is_given_away_with_its_interval() -> None:
    answer = answer_for(0.6, 0.4, spread=0.2)
    best = shortfall(answer_for(0.6, 0.4), torch.tensor([0.6, 0.4]))
    assert best == pytest.approx((0, 0, 0), abs=1e-9)
    weights = torch.tensor([0.1, 0.9])
    median, low, high = shortfall(answer, weights)
    lost = given_away(answer.evidence[0].gram, answer.evidence[1].weights, weights.double())
    assert median == pytest.approx(float(np.median(lost.numpy())))
    assert 0 < low < median < high <= 1
    assert float(((lost >= low) & (lost <= high)).double().mean()) == pytest.approx(0.94, abs=0.01)
