"""Posterior, mixture and trajectory of a search, and their agreement."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from test_search import state_of

from bydore_pyro.arviz_import import import_arviz
from bydore_pyro.diagnostics import jitter, mixture_of, posterior_of, trajectory_of
from bydore_pyro.distribution import GammaDirichlet
from bydore_pyro.errors import DataError
from bydore_pyro.search import SearchState, StepRecord, run_search
from bydore_pyro.tokens import TokenCorpus

az = import_arviz()
A = np.array([[2.0, 1.0, 0.5, 4.0], [1.0, 1.0, 5.0, 1.0]], dtype=np.float32)
B = np.array([[1.0, 2.0, 1.0, 0.5], [1.0, 1.0, 0.2, 1.0]], dtype=np.float32)


@pytest.fixture
def state(corpus: TokenCorpus) -> SearchState:
    """A search whose averaged window holds the two posteriors above."""
    state = state_of(corpus)
    blank = np.zeros(4, dtype=np.float32)
    for a, b in [(A[0], B[0]), (A[1], B[1]), (A[0], B[0]), (A[1], B[1])]:
        q = GammaDirichlet(torch.from_numpy(a), torch.from_numpy(b))
        arrays = dict.fromkeys(("weights", "signals", "g", "standard_deviation"), blank)
        scalars = dict.fromkeys(("train_loss", "validation_loss", "kl_weight", "loss"), 1.0)
        state.records.append(
            StepRecord(mean=q.mean.numpy(), concentration=a, rate=b, **arrays, **scalars)
        )
    return state


def test_draws_come_from_the_average_of_the_posteriors(state: SearchState) -> None:
    posterior = posterior_of(state, chains=2, draws=40_000)["posterior"]
    assert posterior["w"].dims == ("chain", "draw", "domain")
    assert posterior["domain"].values.tolist() == ["birds", "digits", "greek", "upper"]
    qs = [
        GammaDirichlet(torch.from_numpy(a).double(), torch.from_numpy(b).double())
        for a, b in zip(A, B, strict=True)
    ]
    mean = np.mean([q.mean.numpy() for q in qs], axis=0)
    second = np.mean([(q.variance + q.mean.square()).numpy() for q in qs], axis=0)
    draws = posterior["w"].values.reshape(-1, 4)
    error = draws.std(0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(0) - mean) < 5 * error).all()
    np.testing.assert_allclose(draws.var(0), second - mean**2, atol=0.003)
    beta = posterior["beta"].values.reshape(-1, 4).mean(0)
    np.testing.assert_allclose(beta, np.mean(A / B, axis=0), rtol=0.05)


def test_mixture_states_mean_spread_and_interval(state: SearchState) -> None:
    posterior = posterior_of(state)
    mixture = mixture_of(state, posterior, tokenizer="t", data_sha256="d")
    mean = np.mean([r.mean for r in state.records[2:]], axis=0)
    np.testing.assert_allclose(mixture.weights, mean, atol=1e-6)
    draws = posterior["posterior"]["w"].values.reshape(-1, 4)
    np.testing.assert_allclose(mixture.standard_deviation, draws.std(0), rtol=1e-6)
    assert mixture.hdi is not None
    for column, (low, high) in zip(draws.T, mixture.hdi, strict=True):
        inside = ((column >= low) & (column <= high)).mean()
        assert inside == pytest.approx(0.94, abs=0.005)
    assert (mixture.tokenizer, mixture.data_sha256) == ("t", "d")


def test_posterior_is_the_same_for_the_same_seed(state: SearchState) -> None:
    left, right, other = (posterior_of(state, draws=10, seed=s)["posterior"] for s in (0, 0, 1))
    assert left.equals(right)
    assert not left.equals(other)


def test_a_search_without_steps_has_no_posterior(corpus: TokenCorpus) -> None:
    with pytest.raises(DataError, match="at least one step"):
        posterior_of(state_of(corpus))
    assert dict(trajectory_of(state_of(corpus)).sizes) == {"step": 0, "domain": 4}


def test_trajectory_holds_every_field_of_every_step(corpus: TokenCorpus) -> None:
    state = state_of(corpus)
    list(run_search(state))
    trajectory = trajectory_of(state)
    assert set(trajectory.data_vars) == {f.name for f in dataclasses.fields(StepRecord)}
    for step, record in enumerate(state.records):
        for field in dataclasses.fields(record):
            np.testing.assert_array_equal(
                trajectory[field.name].values[step], getattr(record, field.name)
            )
    assert trajectory["g"].attrs["units"] == "nats per token"


def test_jitter() -> None:
    assert jitter(np.array([[0.5, 0.5], [0.6, 0.4], [0.6, 0.4]])) == pytest.approx(0.1)
    assert jitter(np.array([[0.5, 0.5]])) == 0.0
