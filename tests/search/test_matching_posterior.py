"""The posterior of a search by matching is its model's."""

from __future__ import annotations

import torch
from gaussian_evidence import exact_moments
from torch import Tensor

from bydore_pyro.core.matching import Matching
from bydore_pyro.search.matching_posterior import MatchingPosterior

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


def learner_of(seed: int = 0, steps: int = 400) -> MatchingPosterior:
    return MatchingPosterior(3, None, seed, steps)


def test_the_posterior_is_the_models() -> None:
    """Means against a grid; tests/core judges the spread."""
    found, learner = evidence(TRUTH), learner_of(steps=1500)
    mean, _ = exact_moments(found.linear, found.precision)
    assert learner.learn(SIGNALS, found).settled
    guided = learner.guide.posterior(SIGNALS.double()).mean
    torch.testing.assert_close(guided, mean[:3], rtol=0, atol=0.04)


def test_the_steps_of_inference_are_limited() -> None:
    done = learner_of(steps=7).learn(SIGNALS, evidence(TRUTH))
    assert (done.steps, done.settled) == (7, False)


def test_a_restored_guide_has_the_same_bits() -> None:
    whole, other = learner_of(steps=20), learner_of(steps=20)
    whole.learn(SIGNALS, evidence(TRUTH))
    other.restore(whole.state())
    means = [one.guide.posterior(SIGNALS.double()).mean for one in (whole, other)]
    assert torch.equal(*means)


def test_the_networks_first_weights_are_the_seeds() -> None:
    before = torch.get_rng_state()
    same, again, other = (learner_of(seed).state()["guide"] for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    (name,) = (key for key in same if key.endswith("embedding"))
    assert torch.equal(same[name], again[name])
    assert not torch.equal(same[name], other[name])
