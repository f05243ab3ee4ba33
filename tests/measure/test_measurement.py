"""Rounds: what is measured comes back, to whom it belongs; the posterior is the model's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from bydore_pyro.search.rounds import (
    MatchingPosterior,
    Measurement,
    evidence_of,
    exact_posterior,
    keep_measurement,
    measure,
    read_measurements,
    sample_of,
    sampled,
)
from gaussian_evidence import exact_moments
from searches import MATCHING, state_of
from tiny import Bigram
from torch import Tensor

from bydore_pyro.core.matching import Matching, Sample
from bydore_pyro.data.store import TokenStore
from bydore_pyro.proxy.gradients import GradientSketch
from bydore_pyro.proxy.proxy import Proxy, ProxyConfig
from bydore_pyro.utils.errors import DataError, NonFiniteError

SHARES = torch.tensor([0.55, 0.3, 0.15], dtype=torch.float64)


def measurement(scale: float) -> Measurement:
    generator = torch.Generator().manual_seed(0)
    sketches = scale * torch.randn(2, 6, 8, generator=generator)
    return Measurement(
        step=7,
        parameters={"a.b": torch.randn(3, 2, generator=generator)},
        samples=tuple(Sample(one, torch.arange(6) // 2) for one in sketches),
        losses=torch.tensor([1.0, 2.0]),
    )


def test_a_sample_is_the_sketches_and_what_is_not_finite_is_named(corpus: TokenStore) -> None:
    proxy = Proxy(Bigram(corpus.vocabulary), ProxyConfig())
    sketch = GradientSketch(proxy, 64)
    batch = torch.arange(40).reshape(4, 10) % corpus.vocabulary
    sample, loss = sample_of(sketch, batch, np.array([0, 0, 1, 1]), 7, "birds")
    expected, losses = sketch(batch, "gradients")
    assert torch.equal(sample.gradients, expected)
    assert sample.documents.tolist() == [0, 0, 1, 1]
    assert loss == pytest.approx(float(losses.mean()))
    cost = proxy.cost.tokens["gradients"]
    (again, same), _ = sampled(sketch, 2 * [("birds", batch, np.array([0, 0, 1, 1]))], 7)
    assert torch.equal(again.gradients, expected)
    assert same == loss
    assert proxy.cost.tokens["gradients"] == 2 * cost
    with torch.no_grad():
        proxy.model.table[3] = float("nan")
    with pytest.raises(NonFiniteError, match="Step 7: the signal of domain 'birds' is nan"):
        sample_of(sketch, batch, np.zeros(4, int), 7, "birds")


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_it_comes_back_within_float16_at_any_scale(tmp_path: Path, scale: float) -> None:
    before = measurement(scale)
    run = {"seed": 1, "domains": {"b": "2", "a": "1"}}
    keep_measurement(tmp_path, 1, before, run)
    keep_measurement(tmp_path, 1, measurement(5.0), run)  # what is there stays
    (after,) = read_measurements(tmp_path, run)
    assert after.step == 7
    assert list(after.hashes.items()) == [("b", "2"), ("a", "1")], "in the order of the samples"
    assert torch.equal(after.parameters["a.b"], before.parameters["a.b"])
    assert torch.equal(after.losses, before.losses)
    for left, right in zip(after.samples, before.samples, strict=True):
        assert torch.equal(left.documents, right.documents)
        assert float((left.gradients - right.gradients).abs().max()) < 5e-4 * 4 * scale
    with pytest.raises(DataError, match="Expected seed 2 in"):
        read_measurements(tmp_path, {"seed": 2, "domains": {}})
    with pytest.raises(DataError, match="found none in"):
        read_measurements(tmp_path / "elsewhere", run)


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


def test_the_posterior_is_the_models() -> None:
    """Means against a grid: of a guide, and of exact draws from anywhere; tests/core judges the
    spread."""
    found, signals = evidence(SHARES), torch.tensor([3.0, 2.0, 2.5])
    learner = MatchingPosterior(3, 0, 1500)
    mean, _ = exact_moments(found.linear, found.precision)
    assert learner.learn(signals, found).settled
    guided = learner.guide.posterior(signals.double()).mean
    torch.testing.assert_close(guided, mean[:3], rtol=0, atol=0.04)
    start = torch.full((40, 3), 0.3).double()
    for data in (
        learner.posterior(signals, found, "abc"),
        exact_posterior(found, "abc", start, draws=400),
    ):
        drawn = data["posterior"]["w"]
        assert list(drawn["domain"].values) == list("abc")
        np.testing.assert_allclose(drawn.mean(("chain", "draw")), mean[:3], atol=0.04)


def test_a_known_sample_is_not_measured_again(corpus: TokenStore) -> None:
    state = state_of(corpus, MATCHING)
    sketch, domains = state.sketch, state.domains
    first = measure(sketch, domains, 16, 0)
    known = dict(zip(domains.names[1:], first.samples[1:], strict=True))
    cost = state.proxy.cost.tokens["gradients"]
    again = measure(sketch, domains, 16, 0, known)
    assert state.proxy.cost.tokens["gradients"] == cost * 5 // 4
    assert again.losses.isnan().tolist() == [False, True, True, True]
    assert all(map(lambda one, other: one is other, again.samples[1:], first.samples[1:]))
    target, _ = sample_of(sketch, domains.validation, domains.validation_documents, 0, "birds")
    assert evidence_of(first.samples, target).cross.argmax() == 0, "its own kind"
