"""A search of either kind: begun by its options, it repeats itself bit by bit and stops in time."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyro
import pytest
import torch
from conftest import Bigram

from bydore_pyro.data.store import TokenStore
from bydore_pyro.domains import Domains
from bydore_pyro.linear_search import LinearSearch
from bydore_pyro.matching_search import MatchingSearch
from bydore_pyro.proxy import Proxy, ProxyConfig
from bydore_pyro.search import init_search, run_search, search_step
from bydore_pyro.search_config import SearchConfig
from bydore_pyro.search_state import SearchState

LINEAR = SearchConfig(
    evidence="linear", steps=12, batch_sequences=8, validation_batch=8, guide_warmup=2
)
MATCHING = SearchConfig(
    steps=10,
    rounds=2,
    train_share=0.6,
    round_sequences=16,
    sketch_size=512,
    inference_steps=60,
    check_sequences=4,
    batch_sequences=8,
)
KINDS = pytest.mark.parametrize("config", [LINEAR, MATCHING], ids=["linear", "matching"])


def state_of(
    corpus: TokenStore,
    config: SearchConfig = LINEAR,
    *,
    seed: int = 0,
    proxy: ProxyConfig | None = None,
    validation: dict[str, float] | None = None,
) -> SearchState:
    domains = Domains(
        corpus,
        validation or {"birds": 1.0},
        sequence_length=32,
        validation_sequences=64,
        measured=config.measured_sequences(len(corpus.names)),
        seed=seed,
    )
    model = Bigram(corpus.vocabulary, seed)
    return init_search(domains, Proxy(model, proxy or ProxyConfig()), config, seed=seed)


def means(state: SearchState) -> np.ndarray:
    return np.stack([record.mean for record in state.records])


def test_the_options_decide_which_search_it_is(corpus: TokenStore) -> None:
    assert type(state_of(corpus, LINEAR)) is LinearSearch
    assert type(state_of(corpus, MATCHING)) is MatchingSearch
    assert SearchConfig().evidence == "matching"


@KINDS
def test_same_seed_same_weights_bit_for_bit(corpus: TokenStore, config: SearchConfig) -> None:
    runs = []
    for _ in range(2):
        torch.rand(3)  # what others do to the global generator does not matter
        state = state_of(corpus, config)
        list(run_search(state))
        runs.append(state)
    for left, right in zip(runs[0].records, runs[1].records, strict=True):
        for field in dataclasses.fields(left):
            np.testing.assert_array_equal(getattr(left, field.name), getattr(right, field.name))
    other = state_of(corpus, config, seed=1)
    list(run_search(other))
    assert not np.array_equal(means(other), means(runs[0]))


@KINDS
def test_two_searches_of_one_process_share_nothing(
    corpus: TokenStore, config: SearchConfig
) -> None:
    alone = state_of(corpus, config)
    list(run_search(alone))
    left, right = state_of(corpus, config), state_of(corpus, config, seed=1)
    keys = list(pyro.get_param_store().keys())
    before = torch.get_rng_state()
    for _ in range(config.trained_steps):
        search_step(left)
        search_step(right)
    assert torch.equal(torch.get_rng_state(), before), "the global generator is left alone"
    np.testing.assert_array_equal(means(left), means(alone))
    assert list(pyro.get_param_store().keys()) == keys


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
    monkeypatch.setattr("bydore_pyro.search.return_freed_memory", lambda: given_back.append(1))
    monkeypatch.setattr("bydore_pyro.search.TRIM_EVERY", 5)
    list(run_search(state_of(corpus, LINEAR)))
    assert len(given_back) == 2, "twelve steps"
