"""The weights for a run in which text runs out, from the gradients of a search."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from searches import MATCHING, state_of
from tiny import Bigram, random_store

from bydore_pyro.data.domains import Domains
from bydore_pyro.data.store import TokenStore
from bydore_pyro.mixture.repetition import effective_shares
from bydore_pyro.proxy.proxy import Proxy, ProxyConfig
from bydore_pyro.search.matching import MatchingSearch
from bydore_pyro.search.run_weights import RunWeights, weights_for_run
from bydore_pyro.search.search import init_search, run_search, search_step

CONFIG = dataclasses.replace(MATCHING, round_sequences=40, sketch_size=4096, inference_steps=20)


SIZE = 12800  # tokens of a domain


def store_with_a_stand_in() -> TokenStore:
    """Four domains of 400 sequences; a half of the last one's text is of the first two's kinds."""
    whole = random_store(tokens=2 * SIZE, documents=200)
    train = {name: tokens[:SIZE] for name, tokens in whole.train.items()}
    rest = {name: tokens[SIZE:] for name, tokens in whole.train.items()}
    parts = (rest["a"][: SIZE // 4], rest["b"][: SIZE // 4], rest["c"][: SIZE // 2])
    train["d"] = np.concatenate(parts)
    ends = {name: found[:100] for name, found in whole.train_documents.items()}
    return dataclasses.replace(whole, train=train, train_documents=ends)


@pytest.fixture(scope="module")
def found() -> MatchingSearch:
    """A search whose target is a mixture of two domains."""
    domains = Domains(
        store_with_a_stand_in(),
        {"a": 0.6, "b": 0.4},
        sequence_length=32,
        validation_sequences=200,
        measured=CONFIG.measured_sequences(4),
    )
    proxy = Proxy(Bigram(24), ProxyConfig(learning_rate=0.01, warmup_steps=0))
    state = init_search(domains, proxy, CONFIG)
    list(run_search(state))
    assert isinstance(state, MatchingSearch)
    return state


def test_where_no_text_is_read_twice_the_answer_is_that_for_fresh_text(
    found: MatchingSearch,
) -> None:
    largest = float(found.matching.weights.max())
    run = weights_for_run(found, 0.99 * SIZE / largest)
    assert isinstance(run, RunWeights)
    assert not run.repeats
    assert torch.equal(run.weights, found.matching.weights)
    assert torch.equal(run.shares, run.weights)
    assert run.guide is found.learner.guide
    assert run.unexplained == found.matching.unexplained
    # A little beyond, the answer is another, but hardly.
    beyond = weights_for_run(found, 1.02 * SIZE / largest)
    assert beyond.repeats
    assert 0 < float((beyond.weights - run.weights).abs().sum()) < 0.005


def test_the_longer_the_run_the_more_other_text_joins(found: MatchingSearch) -> None:
    """The weights are the best of all mixtures, and R says when other text is worth more."""
    tokens = [SIZE * times for times in (2, 8, 32)]
    runs = [weights_for_run(found, length, 1.0) for length in tokens]
    others = [float(run.weights[2:].sum()) for run in runs]
    assert others[0] < others[1] < others[2]
    assert [run.unexplained for run in runs] == sorted(run.unexplained for run in runs)
    last, rates = runs[-1], torch.full((4,), 32.0, dtype=torch.float64)
    torch.testing.assert_close(last.epochs, last.weights * rates)
    torch.testing.assert_close(last.shares, effective_shares(last.weights, rates, 1.0))
    evidence, scale = found.matching, found.matching.scale

    def height(weights: torch.Tensor) -> torch.Tensor:
        u = scale * effective_shares(weights, rates, 1.0)  # (..., K)
        return u @ evidence.linear - ((u @ evidence.precision) * u).sum(-1) / 2

    ones = torch.ones(4, dtype=torch.float64)
    anywhere = torch.distributions.Dirichlet(ones).sample((20_000,))
    near = torch.distributions.Dirichlet(2000 * last.weights + 0.01).sample((20_000,))
    best = height(last.weights)
    assert height(anywhere).max() < best
    assert height(near).max() < best + 1e-6
    slower = weights_for_run(found, tokens[-1], 15.0)
    assert float(slower.weights[2:].sum()) < others[2] / 2, "of a model that learns by repetition"


def test_the_posterior_is_inferred_anew_and_the_search_stays_as_it_is(
    found: MatchingSearch,
) -> None:
    before = {name: value.clone() for name, value in found.learner.guide.state_dict().items()}
    first, again = (weights_for_run(found, 8 * SIZE) for _ in range(2))
    assert first.guide is not None
    assert again.guide is not None
    for name, value in first.guide.state_dict().items():
        assert torch.equal(value, again.guide.state_dict()[name])
    for name, value in found.learner.guide.state_dict().items():
        assert torch.equal(value, before[name])
    mean = first.guide.posterior(found.signals.double()).mean.detach()
    assert 0.5 * float((mean - first.weights).abs().sum()) < 0.15
    assert not first.guide.has_scale


def test_impossible_runs_are_named(found: MatchingSearch, corpus: TokenStore) -> None:
    with pytest.raises(ValueError, match="tokens > 0"):
        weights_for_run(found, 0)
    state = state_of(corpus, MATCHING)
    search_step(state)
    with pytest.raises(ValueError, match="at least one measured round"):
        weights_for_run(state, 1e6)


def test_a_learner_without_a_posterior_has_weights_alone(corpus: TokenStore) -> None:
    state = state_of(corpus, dataclasses.replace(MATCHING, learner="exponentiated"))
    list(run_search(state))
    run = weights_for_run(state, 1e6)
    assert run.repeats
    assert run.guide is None
    assert np.isclose(float(run.weights.sum()), 1)
