"""What Algorithm 1 found: posterior, mixture and trajectory of a search."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from searches import all_steps, linear_search

from bydore_pyro.algorithm1 import averaged
from bydore_pyro.algorithm1.averaged import averaged_answer, search_guide_fit, trajectory_of
from bydore_pyro.algorithm1.search import LinearSearch, StepRecord
from bydore_pyro.answer.question import Question
from bydore_pyro.core.distribution import GammaDirichlet
from bydore_pyro.data.store import TokenStore
from bydore_pyro.law.goal import Goal

A = np.array([[2.0, 1.0, 0.5, 4.0], [1.0, 1.0, 5.0, 1.0]], dtype=np.float32)
B = np.array([[1.0, 2.0, 1.0, 0.5], [1.0, 1.0, 0.2, 1.0]], dtype=np.float32)
NAMES = ("birds", "digits", "greek", "upper")
QUESTION = Question(names=NAMES, tokenizer="t", data_sha256="d")


@pytest.fixture
def state(corpus: TokenStore) -> LinearSearch:
    """A search whose averaged window holds the two posteriors above."""
    state = linear_search(corpus)
    blank = np.zeros(4, dtype=np.float32)
    for a, b in [(A[0], B[0]), (A[1], B[1]), (A[0], B[0]), (A[1], B[1])]:
        q = GammaDirichlet(torch.from_numpy(a), torch.from_numpy(b))
        arrays = dict.fromkeys(("weights", "losses", "g", "standard_deviation"), blank)
        scalars = dict.fromkeys(("train_loss", "validation_loss", "kl_weight", "loss"), 1.0)
        state.records.append(
            StepRecord(mean=q.mean.numpy(), concentration=a, rate=b, **arrays, **scalars)
        )
    return state


def test_draws_come_from_the_average_of_the_posteriors(
    state: LinearSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(averaged, "DRAWS", 20_000)
    before = torch.get_rng_state()
    answer = averaged_answer(state, QUESTION)
    assert torch.equal(torch.get_rng_state(), before)
    posterior = answer.to_inference_data()["posterior"]
    assert posterior["w"].dims == ("chain", "draw", "domain")
    assert tuple(posterior["domain"].values) == NAMES
    qs = [
        GammaDirichlet(torch.from_numpy(a).double(), torch.from_numpy(b).double())
        for a, b in zip(A, B, strict=True)
    ]
    mean = np.mean([q.mean.numpy() for q in qs], axis=0)
    second = np.mean([(q.variance + q.mean.square()).numpy() for q in qs], axis=0)
    draws = answer.draws.numpy()
    error = draws.std(0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(0) - mean) < 5 * error).all()
    np.testing.assert_allclose(draws.var(0), second - mean**2, atol=0.003)
    beta = posterior["beta"].values.reshape(-1, 4).mean(0)
    np.testing.assert_allclose(beta, np.mean(A / B, axis=0), rtol=0.05)


def test_the_mixture_states_mean_spread_and_interval(state: LinearSearch) -> None:
    answer = averaged_answer(state, QUESTION)
    mixture = answer.mixture
    mean = np.mean([r.mean for r in state.records[2:]], axis=0)
    np.testing.assert_allclose(mixture.weights, mean, atol=1e-6)
    draws = answer.draws.numpy()
    np.testing.assert_allclose(mixture.standard_deviation, draws.std(0), rtol=1e-6)
    assert mixture.hdi is not None
    for column, (low, high) in zip(draws.T, mixture.hdi, strict=True):
        inside = ((column >= low) & (column <= high)).mean()
        assert inside == pytest.approx(0.94, abs=0.005)
    assert (mixture.tokenizer, mixture.data_sha256) == ("t", "d")
    cap = Goal(at_most=torch.tensor([1, 1, 1, 0.1], dtype=torch.double))
    capped = averaged_answer(state, dataclasses.replace(QUESTION, goal=cap))
    assert capped.mixture.weights[3] == pytest.approx(0.1)
    assert capped.mixture.free_weights == mixture.weights
    with pytest.raises(ValueError, match="actual one without evidence"):
        _ = answer.evidence


def test_a_finished_search_has_a_trajectory_and_a_fit(corpus: TokenStore) -> None:
    """Every field of every step; the fit repeats itself."""
    state = linear_search(corpus)
    all_steps(state)
    trajectory = trajectory_of(state)
    assert set(trajectory.data_vars) == {f.name for f in dataclasses.fields(StepRecord)}
    for step, record in enumerate(state.records):
        for field in dataclasses.fields(record):
            np.testing.assert_array_equal(
                trajectory[field.name].values[step], getattr(record, field.name)
            )
    assert trajectory["g"].attrs["units"] == "nats per token"
    fit = search_guide_fit(state, state.learner)
    assert 1 <= fit.effective_draws <= fit.draws
    assert np.isfinite(fit.khat)
    assert search_guide_fit(state, state.learner) == fit
