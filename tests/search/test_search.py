"""A search of either kind: begun by its options, it repeats itself bit by bit and stops in time."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyro
import pytest
import torch
from searches import KINDS, LINEAR, means, state_of

from bydore_pyro.data.store import TokenStore
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.search import SearchState, StepRecord, check_finite, run_search, search_step
from bydore_pyro.utils.errors import NonFiniteError


@KINDS
def test_same_seed_same_weights_bit_for_bit(corpus: TokenStore, config: SearchConfig) -> None:
    """Also in turns with another search of the process, with which it shares nothing."""
    alone = state_of(corpus, config)
    assert isinstance(alone, SearchState)
    records: list[StepRecord] = list(run_search(alone))
    assert len(records) == len(alone.records) == config.trained_steps == alone.proxy.steps
    assert list(run_search(alone)) == []
    torch.rand(3)  # what others do to the global generator does not matter
    again, other = state_of(corpus, config), state_of(corpus, config, seed=1)
    keys = list(pyro.get_param_store().keys())
    before = torch.get_rng_state()
    for _ in range(config.trained_steps):
        search_step(again)
        search_step(other)
    assert torch.equal(torch.get_rng_state(), before), "the global generator is left alone"
    assert list(pyro.get_param_store().keys()) == keys
    for left, right in zip(alone.records, again.records, strict=True):
        for field in dataclasses.fields(left):
            np.testing.assert_array_equal(getattr(left, field.name), getattr(right, field.name))
    assert not np.array_equal(means(other), means(alone))


@KINDS
@pytest.mark.parametrize("proxy_dtype", [torch.float32, torch.float64])
def test_a_search_runs_where_float64_is_torchs_default(
    corpus: TokenStore, config: SearchConfig, proxy_dtype: torch.dtype
) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        state = state_of(corpus, config)
        state.proxy.model.to(proxy_dtype)
        for _ in range(config.trained_steps):
            search_step(state)
    finally:
        torch.set_default_dtype(torch.float32)
    assert np.isfinite(means(state)).all()


def test_freed_memory_goes_back_while_it_runs(
    corpus: TokenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_back = []
    monkeypatch.setattr(
        "bydore_pyro.search.search.return_freed_memory", lambda: given_back.append(1)
    )
    monkeypatch.setattr("bydore_pyro.search.search.TRIM_EVERY", 5)
    list(run_search(state_of(corpus, LINEAR)))
    assert len(given_back) == 2, "twelve steps"


@KINDS
def test_training_takes_counts_and_factors(
    corpus: TokenStore, config: SearchConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, given = state_of(corpus, config), []
    step = state.proxy.step

    def trained(batch: torch.Tensor, factors: torch.Tensor | None) -> torch.Tensor:
        given.append((len(batch), factors))
        return step(batch, factors)

    monkeypatch.setattr(state.proxy, "step", trained)
    counts = torch.tensor([3, 0, 1, 0])
    loss = state.train(counts, torch.ones(4))
    assert 0 < loss < 20
    state.train(counts, torch.tensor([0.5, 1.0, 2.0, 1.0]))
    assert given[0] == (4, None)
    assert given[1][1].tolist() == [0.5, 0.5, 0.5, 2.0]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_named(bad: float) -> None:
    check_finite("loss", torch.tensor([1.0, 2.0]), 3, ["a", "b"])
    message = rf"Step 3: the loss of domain 'b' is {bad}; a smaller --learning_rate"
    with pytest.raises(NonFiniteError, match=message):
        check_finite("loss", torch.tensor([1.0, bad]), 3, ["a", "b"])
    with pytest.raises(NonFiniteError, match="--guide_learning_rate may help"):
        check_finite("posterior's rate", torch.tensor([bad]), 3, ["a"])
