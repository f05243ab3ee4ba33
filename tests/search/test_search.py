"""A search of either kind: begun by its options, it repeats itself bit by bit and stops in time."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyro
import pytest
import torch
from searches import KINDS, LINEAR, MATCHING, means, state_of

from bydore_pyro.data.store import TokenStore
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.linear import LinearSearch
from bydore_pyro.search.matching import MatchingSearch
from bydore_pyro.search.search import run_search, search_step


def test_the_options_decide_which_search_it_is(corpus: TokenStore) -> None:
    assert type(state_of(corpus, LINEAR)) is LinearSearch
    assert type(state_of(corpus, MATCHING)) is MatchingSearch
    assert SearchConfig().evidence == "matching"


@KINDS
def test_same_seed_same_weights_bit_for_bit(corpus: TokenStore, config: SearchConfig) -> None:
    """Also in turns with another search of the process, with which it shares nothing."""
    alone = state_of(corpus, config)
    list(run_search(alone))
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


@KINDS
def test_it_ends_after_its_steps(corpus: TokenStore, config: SearchConfig) -> None:
    state = state_of(corpus, config)
    assert [record.train_loss for record in run_search(state)] == [
        record.train_loss for record in state.records
    ]
    assert state.is_done
    assert len(state.records) == config.trained_steps == state.proxy.steps
    assert list(run_search(state)) == []


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
