"""A search by gradient matching: it finds what was planted, on sequences it never trained on."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
import pytest
import torch
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.matching import MatchingSearch, ResidualCheck, Round, check_residual
from bydore_pyro.search.search import init_search, run_search
from searches import MATCHING, means
from tiny import Bigram, random_store
from torch import Tensor

from bydore_pyro.data.domains import Domains
from bydore_pyro.data.store import TokenStore
from bydore_pyro.proxy.gradients import GradientSketch
from bydore_pyro.proxy.proxy import Proxy, ProxyConfig

PLANTED = {"a": 0.6, "b": 0.4}
TRUTH = np.array([0.6, 0.4, 0.0, 0.0])
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
        record = state.step()
        assert (record.weights == 0.25).all()
        assert (record.mean == 0.25).all() == (number < 3)
        rounds.append(len(state.rounds))
        assert np.isnan(record.validation_loss) == (number < 3)
    assert rounds == [0, 0, 1, 1, 1, 1, 2, 2, 2, 3]
    assert state.is_done
    assert state.average_start == 9
    assert [one.step for one in state.rounds] == [3, 7, 10]
    np.testing.assert_allclose(means(state)[-1], state.matching.weights, atol=1e-6)
    assert all(type(one) is Round for one in state.rounds)


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


def test_domains_that_keep_nothing_are_refused(corpus: TokenStore) -> None:
    plain = Domains(corpus, {"birds": 1.0}, sequence_length=32, validation_sequences=64)
    proxy = Proxy(Bigram(corpus.vocabulary), ProxyConfig())
    with pytest.raises(ValueError, match="measured > 0 for gradient matching, actual 0"):
        init_search(plain, proxy, SearchConfig(steps=20))


def fresh_domains() -> Domains:
    return Domains(
        random_store(tokens=12800, documents=50),
        PLANTED,
        sequence_length=32,
        validation_sequences=400,
        measured=120,
    )


def proxy_of() -> Proxy:
    proxy = Proxy(Bigram(24), ProxyConfig(learning_rate=0.01, warmup_steps=0))
    domains = fresh_domains()
    for _ in range(5):
        proxy.step(domains.train_batch(dict.fromkeys("abcd", 2)))
    return proxy


def mean_gradients(sketch: GradientSketch, domains: Domains) -> tuple[Tensor, Tensor]:
    """The domains' ``(K, S)``, of sequences of their own, and the validation set's ``(S,)``."""
    batches = [domains.measure_batch(name, 80)[0] for name in domains.names]
    means = torch.stack([sketch(batch, "x")[0].mean(0) for batch in batches])
    return means, sketch(domains.validation, "x")[0].mean(0)


def test_slopes_are_products_with_the_residual() -> None:
    """Finite differences of losses against gradients of the same sequences, in a sketch."""
    proxy = proxy_of()
    sketch = GradientSketch(proxy, 64)
    residual = torch.randn(64, generator=torch.Generator().manual_seed(0))
    nothing = torch.zeros(4, 4, dtype=torch.float64)
    found = check_residual(
        fresh_domains(), sketch, residual, torch.from_numpy(TRUTH), nothing, 2.0, 16
    )
    twin = fresh_domains()
    for k, name in enumerate(twin.names):
        batch, documents = twin.measure_batch(name, 16)
        products = sketch(batch, "x")[0].double() @ residual.double()
        assert float(found.slopes[k]) == pytest.approx(2 * float(products.mean()), rel=0.02)
        sums = torch.zeros(51, dtype=torch.float64)
        sums.index_add_(0, torch.from_numpy(documents), products - products.mean())
        error = 2 * math.sqrt(float(sums.square().sum())) / 16
        assert float(found.errors[k]) == pytest.approx(error, rel=0.05)
    known = torch.diag(torch.tensor([4.0, 1.0, 0.0, 0.0], dtype=torch.float64))
    wider = check_residual(
        fresh_domains(), sketch, residual, torch.from_numpy(TRUTH), known, 2.0, 16
    )
    torch.testing.assert_close(wider.errors.square() - found.errors.square(), known.diagonal())
    assert proxy.cost.tokens["check"] == 2 * 2 * 4 * 16 * 32, "two passes each"


@pytest.mark.parametrize(
    ("weights", "failing"),
    [
        ([0.6, 0.4, 0.0, 0.0], []),
        ([0.25, 0.25, 0.25, 0.25], ["a", "c", "d"]),
        ([0.0, 0.4, 0.6, 0.0], ["a", "c"]),
    ],
)
def test_a_planted_mixture_passes_and_a_wrong_one_does_not(
    weights: list[float], failing: list[str]
) -> None:
    sketch, domains = GradientSketch(proxy_of(), 576), fresh_domains()
    means, target = mean_gradients(sketch, domains)
    wanted = torch.tensor(weights)
    residual = target - wanted @ means
    covariance = torch.eye(4, dtype=torch.float64) * 1e-8
    check = check_residual(domains, sketch, residual, wanted.double(), covariance, 1.0, 40)
    assert isinstance(check, ResidualCheck)
    named = {n for n, bad in zip(domains.names, check.failing, strict=True) if bad}
    assert set(failing) <= named if failing else not named, (check.slopes, check.errors)
    if not weights[0]:
        assert float(check.slopes[0]) > 0, "more of it would match the target better"


def test_a_slope_is_judged_by_its_weight() -> None:
    """With a weight both signs contradict; without one a negative slope is as it should be."""
    slopes = torch.tensor([4.0, -4.0, 2.9, 4.0, -4.0, 0.0])
    errors = torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    weights = torch.tensor([0.5, 0.01, 0.4, 0.0, 0.009, 0.1])
    assert ResidualCheck(slopes, errors, weights).failing.tolist() == [
        True,
        True,
        False,
        True,
        False,
        False,
    ]
