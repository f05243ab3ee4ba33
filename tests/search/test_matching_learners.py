"""What learns from the match of gradients: the posterior, and its most likely point, twice."""

from __future__ import annotations

import pytest
import torch
from gaussian_evidence import exact_moments
from torch import Tensor

from bydore_pyro.core.matching import Matching
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.matching_learners import (
    MatchingExponentiated,
    MatchingLearner,
    MatchingPoint,
    MatchingPosterior,
    Settled,
    matching_learner,
)

SIGNALS = torch.tensor([3.0, 2.0, 2.5])
TRUTH = torch.tensor([0.55, 0.3, 0.15], dtype=torch.float64)


def evidence(optimum: Tensor, certainty: float = 400.0) -> Matching:
    """Gaussian evidence with its maximum at `optimum`, domains that are somewhat alike."""
    count = len(optimum)
    gram = (torch.eye(count) + 0.5).double() / count
    covariance = gram / certainty
    precision = gram @ torch.linalg.inv(covariance) @ gram
    return Matching(
        gram=gram,
        cross=gram @ optimum,
        covariance=covariance,
        covariance_by_sequence=covariance,
        linear=precision @ optimum,
        precision=precision,
        optimum=optimum.clamp(min=0),
        target=float(optimum @ gram @ optimum),
    )


def learner_of(kind: str, seed: int = 0, steps: int = 400) -> MatchingLearner:
    config = SearchConfig(learner=kind, inference_steps=steps)
    return matching_learner(config, 3, None, seed)


def test_the_options_name_the_learner() -> None:
    assert type(learner_of("bayesian")) is MatchingPosterior
    assert type(learner_of("point")) is MatchingPoint
    assert type(learner_of("exponentiated")) is MatchingExponentiated


def test_the_posterior_is_the_models() -> None:
    """Means against a grid, between rounds and at last; tests/core judges the spread."""
    found = evidence(TRUTH)
    mean, _ = exact_moments(found.linear, found.precision)
    for last in (False, True):
        settled = learner_of("bayesian", steps=1500).learn(SIGNALS, found, last=last)
        assert isinstance(settled, Settled)
        assert settled.settled
        assert float(settled.weights.weights.sum()) == pytest.approx(1, abs=1e-12)
        torch.testing.assert_close(settled.weights.mean, mean[:3], rtol=0, atol=0.04)


def test_the_steps_of_inference_are_limited() -> None:
    settled = learner_of("bayesian", steps=7).learn(SIGNALS, evidence(TRUTH), last=True)
    assert (settled.steps, settled.settled) == (7, False)


@pytest.mark.parametrize("kind", ["point", "exponentiated"])
def test_points_are_the_most_likely_weights(kind: str) -> None:
    """Whatever the scale; without a spread."""
    for scale in (1.0, 0.5):
        settled = learner_of(kind).learn(SIGNALS, evidence(scale * TRUTH), last=True)
        torch.testing.assert_close(settled.weights.mean, TRUTH, rtol=0, atol=0.02)
        assert torch.equal(settled.weights.weights, settled.weights.mean)
        assert not settled.weights.standard_deviation.any()
    corner = torch.tensor([0.7, 0.5, -0.2], dtype=torch.float64)
    weights = learner_of(kind).learn(SIGNALS, evidence(corner), last=True).weights.mean
    assert float(weights[2]) < 0.01
    assert weights.isfinite().all()


@pytest.mark.parametrize("kind", ["bayesian", "point", "exponentiated"])
def test_a_learner_goes_on_with_the_same_bits(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bydore_pyro.search.matching_learners.POINT_STEPS", 20)
    first, second = evidence(TRUTH), evidence(TRUTH.flip(0), 1000.0)
    whole = learner_of(kind, steps=20)
    whole.learn(SIGNALS, first, last=False)
    state = whole.state()
    held = {part: {n: v.clone() for n, v in values.items()} for part, values in state.items()}
    expected = whole.learn(SIGNALS, second, last=True)
    other = learner_of(kind, steps=20)
    torch.rand(5)
    other.restore(held)
    found = other.learn(SIGNALS, second, last=True)
    assert torch.equal(found.weights.mean, expected.weights.mean)
    assert found.loss == expected.loss


def test_the_networks_first_weights_are_the_seeds() -> None:
    before = torch.get_rng_state()
    same, again, other = (learner_of("point", seed).state()["network"] for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(same["embedding"], again["embedding"])
    assert not torch.equal(same["embedding"], other["embedding"])
