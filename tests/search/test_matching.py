"""A search by gradient matching: it finds what was planted, on sequences it never trained on."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
import torch
from gaussian_evidence import exact_moments
from searches import MATCHING, means
from tiny import Bigram, random_store
from torch import Tensor

from bydore_pyro.core.matching import Matching
from bydore_pyro.data.domains import Domains
from bydore_pyro.data.store import TokenStore
from bydore_pyro.proxy.proxy import Proxy, ProxyConfig
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.kinds import init_search
from bydore_pyro.search.matching import MatchingPosterior, MatchingSearch, RoundRecord
from bydore_pyro.search.search import run_search, search_step
from bydore_pyro.utils.errors import NonFiniteError

PLANTED = {"a": 0.6, "b": 0.4}
TRUTH = np.array([0.6, 0.4, 0.0, 0.0])
SIGNALS = torch.tensor([3.0, 2.0, 2.5])
SHARES = torch.tensor([0.55, 0.3, 0.15], dtype=torch.float64)
CONFIG = dataclasses.replace(MATCHING, round_sequences=40, sketch_size=4096, inference_steps=20)


def search_of(
    config: SearchConfig = CONFIG,
    corpus: TokenStore | None = None,
    seed: int = 0,
    **proxy: float,
) -> MatchingSearch:
    domains = Domains(
        corpus or random_store(tokens=12800, documents=100),
        PLANTED,
        sequence_length=32,
        validation_sequences=200,
        measured=config.measured_sequences(4),
        seed=seed,
    )
    given = ProxyConfig(**{"learning_rate": 0.01, "warmup_steps": 0, **proxy})
    state = init_search(domains, Proxy(Bigram(24, seed), given), config, seed=seed)
    assert isinstance(state, MatchingSearch)
    return state


def finished(config: SearchConfig = CONFIG, *more: object, **options: object) -> MatchingSearch:
    state = search_of(config, *more, **options)
    list(run_search(state))
    return state


@functools.cache
def usual() -> MatchingSearch:
    """One for all tests that only look at it."""
    return finished()


def distance(weights: torch.Tensor | np.ndarray) -> float:
    return 0.5 * float(np.abs(np.asarray(weights) - TRUTH).sum())


def test_the_planted_mixture_is_found() -> None:
    """Two of four kinds of tokens make up the validation text."""
    state = usual()
    assert distance(state.matching.weights) < 0.08, state.matching.weights
    assert state.matching.scale == pytest.approx(1, abs=0.15)
    assert state.matching.unexplained < 0.1
    assert state.check is not None
    assert not state.check.failing.any()


def test_rounds_are_measured_where_they_are_due() -> None:
    config = dataclasses.replace(CONFIG, steps=20, train_share=0.5, rounds=3)
    assert config.measured_steps == (3, 7, 10)
    state, rounds = search_of(config), []
    for number in range(1, 11):
        record = search_step(state)
        assert (record.weights == 0.25).all()
        assert (record.mean == 0.25).all() == (number < 3)
        rounds.append(len(state.rounds))
        assert np.isnan(record.validation_loss) == (number < 3)
    assert rounds == [0, 0, 1, 1, 1, 1, 2, 2, 2, 3]
    assert state.is_done
    assert state.average_start == 9
    assert [one.step for one in state.rounds] == [3, 7, 10]
    np.testing.assert_allclose(means(state)[-1], state.matching.weights, atol=1e-6)
    assert all(type(one) is RoundRecord for one in state.rounds)


def test_a_measurement_knows_no_target() -> None:
    """The evidence of the domains is the same, to the last bit, whatever the target."""
    found = [search_of(), search_of()]
    found[1].domains.validation = found[1].domains.validation.flip(0)[:50]
    found[1].domains.validation_documents = found[1].domains.validation_documents[::-1][:50].copy()
    for state in found:
        list(run_search(state))
    for one, other in zip(found[0].measured, found[1].measured, strict=True):
        assert not torch.equal(one.cross, other.cross)
    for name, value in found[0].proxy.parameters.items():
        assert torch.equal(value, found[1].proxy.parameters[name])
    np.testing.assert_array_equal(found[0].rounds[-1].losses, found[1].rounds[-1].losses)


def test_no_domain_gives_more_than_it_has() -> None:
    corpus = random_store(tokens=12800, documents=100)
    ends = {**corpus.train_documents, "c": corpus.train_documents["c"][:5]}
    short = dataclasses.replace(
        corpus, train={**corpus.train, "c": corpus.train["c"][:640]}, train_documents=ends
    )
    state = finished(corpus=short)
    assert state.domains.measurable()[2] == 6, "a third of twenty"
    assert all(one.sequences[2] <= 6 for one in state.rounds)
    assert distance(state.matching.weights) < 0.15


@pytest.mark.parametrize("sequences", [1, 2, 3, 5])
def test_a_domain_of_hardly_any_text_ends_no_search(sequences: int) -> None:
    corpus = random_store(tokens=6400)
    train = {**corpus.train, "c": corpus.train["c"][: 32 * sequences]}
    ends = {**corpus.train_documents, "c": np.array([32 * sequences])}
    state = finished(corpus=dataclasses.replace(corpus, train=train, train_documents=ends))
    assert state.matching.weights.isfinite().all()
    assert state.rounds[0].sequences[2] == (sequences if sequences < 3 else 1)


def test_what_is_measured_is_never_trained_on() -> None:
    """Over many epochs: the rows of training and those of measuring have none in common."""
    config = dataclasses.replace(CONFIG, steps=120, batch_sequences=32)
    state = search_of(config, corpus=random_store(tokens=3200))
    trained, measured = {}, {}
    for (kind, name), stream in state.domains._streams.items():
        seen = trained if kind == "train" else measured
        if kind == "signal":
            continue
        plain = stream.rows

        def rows(position: int, count: int, plain=plain, seen=seen, name=name) -> np.ndarray:
            found = plain(position, count)
            seen.setdefault(name, set()).update(found.tolist())
            return found

        stream.rows = rows
    list(run_search(state))
    assert max(state.domains.epochs().values()) > 2
    for name in state.domains.names:
        assert measured[name]
        assert not trained[name] & measured[name]


def test_a_domain_that_was_learned_by_heart_gains_no_weight() -> None:
    """Few sequences, read dozens of times: measured on these, their gradients are so small that
    noise alone gives the domain weight. On those that were kept aside it has none."""
    corpus = random_store(tokens=12800, documents=100)
    ends = {**corpus.train_documents, "c": corpus.train_documents["c"][:3]}
    short = dataclasses.replace(
        corpus, train={**corpus.train, "c": corpus.train["c"][:384]}, train_documents=ends
    )
    config = dataclasses.replace(CONFIG, steps=200, batch_sequences=16, rounds=1)
    found = {}
    for kind in ("measure", "train"):
        state = search_of(config, corpus=short, learning_rate=0.1)
        streams = state.domains._streams
        streams["measure", "c"] = streams[kind, "c"]
        list(run_search(state))
        assert state.domains.epochs()["c"] > 40
        batch, _ = state.domains.measure_batch("c", 4)
        found[kind] = state.proxy.evaluate(batch, "x"), state.matching.weights
    assert found["train"][0] < found["measure"][0] - 0.2, "it was learned by heart"
    weights = found["measure"][1]
    assert float(weights[2]) < 0.02
    assert distance(weights) < 0.1, weights
    assert float(found["train"][1][2]) > 0.05, "the trap is one"


def test_what_was_measured_is_charged() -> None:
    state = usual()
    counted = sum(int(one.sequences.sum()) for one in state.rounds) + 2 * 200
    assert state.proxy.cost.tokens["gradients"] == 32 * counted
    assert state.proxy.cost.tokens["train"] == 32 * 8 * 6
    for part in ("gradients", "matching", "guide", "check"):
        assert state.proxy.cost.seconds[part] > 0, part


def test_a_broken_domain_is_the_one_that_is_named() -> None:
    """Where its own sequences alone have what breaks the proxy."""
    corpus = random_store(vocabulary=25)
    for name in "abcd":
        corpus.train[name][corpus.train[name] == 24] = 0
        corpus.validation[name][corpus.validation[name] == 24] = 0
    corpus.train["c"][::3] = 24
    state = search_of(corpus=corpus)
    state.proxy = Proxy(Bigram(25), ProxyConfig())
    state.sketch.proxy = state.proxy
    state.sketch.__init__(state.proxy, 64)
    with torch.no_grad():
        state.proxy.model.table[24] = float("nan")
    state.train = lambda counts, factors: 1.0
    with pytest.raises(NonFiniteError, match=r"Step 3: the signal of domain 'c' is nan"):
        list(run_search(state))
    assert len(state.records) == 2


def test_domains_that_keep_nothing_are_refused(corpus: TokenStore) -> None:
    plain = Domains(corpus, {"birds": 1.0}, sequence_length=32, validation_sequences=64)
    proxy = Proxy(Bigram(corpus.vocabulary), ProxyConfig())
    with pytest.raises(ValueError, match="measured > 0 for gradient matching, actual 0"):
        init_search(plain, proxy, SearchConfig(steps=20))


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
    found, learner = evidence(SHARES), learner_of(steps=1500)
    mean, _ = exact_moments(found.linear, found.precision)
    assert learner.learn(SIGNALS, found).settled
    guided = learner.guide.posterior(SIGNALS.double()).mean
    torch.testing.assert_close(guided, mean[:3], rtol=0, atol=0.04)


def test_the_steps_of_inference_are_limited() -> None:
    done = learner_of(steps=7).learn(SIGNALS, evidence(SHARES))
    assert (done.steps, done.settled) == (7, False)


def test_the_networks_first_weights_are_the_seeds() -> None:
    before = torch.get_rng_state()
    same, again, other = (learner_of(seed).guide.state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    (name,) = (key for key in same if key.endswith("embedding"))
    assert torch.equal(same[name], again[name])
    assert not torch.equal(same[name], other[name])
