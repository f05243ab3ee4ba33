"""Systematic sampling is exact and unbiased; a fresh model on fixed weights that a signal broke off
ends with the same bits."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch
from tiny import Bigram

from bydore_pyro.data.domains import Domains
from bydore_pyro.data.scored import together
from bydore_pyro.data.store import TokenStore
from bydore_pyro.proxy.config import STRATEGIES, ProxyConfig
from bydore_pyro.proxy.proxy import Proxy
from bydore_pyro.proxy.scheduling import (
    Strategy,
    kept_when_stopped,
    proxy_content,
    restore_proxy,
    schedule,
    systematic_counts,
    train_on_mixture,
)
from bydore_pyro.terminal import Interrupted

WEIGHTS = [
    torch.tensor([0.5, 0.3, 0.2]),
    torch.full((13,), 1 / 13),
    torch.tensor([1.0, 0.0]),
    torch.tensor([1e-30, 0.999, 0.001]),
    torch.cat([torch.full((500,), 1e-4), torch.tensor([0.95])]),
]


@pytest.mark.parametrize("weights", WEIGHTS, ids=len)
def test_counts_add_up_and_are_floor_or_ceiling(weights: torch.Tensor) -> None:
    generator = torch.Generator().manual_seed(0)
    for batch_size in (1, 7, 32) * 30:
        share = weights.double() / weights.double().sum() * batch_size
        counts = systematic_counts(weights, batch_size, generator)
        assert counts.sum() == batch_size
        assert (counts >= (share - 1e-9).floor()).all()
        assert (counts <= (share + 1e-9).ceil()).all()


def test_counts_are_unbiased() -> None:
    generator = torch.Generator().manual_seed(0)
    weights = torch.tensor([0.41, 0.33, 0.17, 0.09])
    draws = torch.stack([systematic_counts(weights, 10, generator) for _ in range(5_000)]).double()
    error = draws.std(0) / len(draws) ** 0.5
    assert ((draws.mean(0) - 10 * weights.double()).abs() < 5 * error + 1e-9).all()
    # the paper's floor(w B) would give 4, 3, 1, 0: eight of ten sequences
    assert draws.sum(1).eq(10).all()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_has_the_weighted_loss_as_its_expectation(strategy: Strategy) -> None:
    generator = torch.Generator().manual_seed(0)
    weights, losses = torch.tensor([0.5, 0.3, 0.15, 0.05]), torch.tensor([1.0, 2.0, 4.0, 8.0])
    found, domains = [], []
    for _ in range(1000):
        counts, factors = schedule(strategy, weights, 6, generator)
        assert counts.sum() == 6
        found.append(float((counts * factors * losses).sum() / 6))
        domains.append(int((counts > 0).sum()))
    expected = float((weights * losses).sum())
    error = torch.tensor(found).std() / 1000**0.5
    assert abs(sum(found) / 1000 - expected) < 4 * error + 1e-6
    if strategy.startswith("inter"):
        assert set(domains) == {1}, "a batch of one domain"
    else:
        assert min(domains) > 1


def test_factors_are_one_where_the_weights_are_sampled() -> None:
    weights = torch.tensor([0.7, 0.3])
    for strategy in ("intra_sampling", "inter_sampling"):
        assert schedule(strategy, weights, 4)[1].tolist() == [1, 1]
    for strategy in ("intra_weighting", "inter_weighting"):
        assert schedule(strategy, weights, 4)[1].tolist() == pytest.approx([1.4, 0.6])


STEPS = 8


def begun(corpus: TokenStore) -> tuple[Proxy, Domains]:
    domains = Domains(corpus, {"birds": 1.0}, sequence_length=32)
    return Proxy(Bigram(corpus.vocabulary), ProxyConfig(), decay_steps=STEPS), domains


def train(
    corpus: TokenStore, place: Path, stop: int | None = None, **more: object
) -> tuple[Proxy, int]:
    """Trains, with a signal in a step; returns the proxy and how many steps it took here."""
    proxy, domains = begun(corpus)
    weights, taken = dict.fromkeys(corpus.names, 0.25), 0
    with kept_when_stopped(place, {"steps": STEPS, **more}, proxy, domains) as check:
        for _ in train_on_mixture(domains, proxy, weights, STEPS, 6, seed=5):
            taken += 1
            if taken == stop:
                os.kill(os.getpid(), signal.SIGTERM)
                os.kill(os.getpid(), signal.SIGTERM)
            check()
    return proxy, taken


@pytest.mark.usefixtures("_heard")
@pytest.mark.parametrize("stop", [1, STEPS])
def test_it_ends_with_the_same_bits(corpus: TokenStore, tmp_path: Path, stop: int) -> None:
    whole, taken = train(corpus, tmp_path / "whole")
    assert taken == STEPS
    place = tmp_path / "kept"
    with pytest.raises(Interrupted):
        train(corpus, place, stop)
    assert place.is_dir()
    resumed, taken = train(corpus, place)
    assert taken == STEPS - stop
    assert torch.equal(resumed.model.table, whole.model.table)  # type: ignore[arg-type]
    assert resumed.cost.tokens == whole.cost.tokens
    assert not place.exists(), "it is finished"


@pytest.mark.usefixtures("_heard")
def test_anothers_and_damaged_ones_are_begun_anew(corpus: TokenStore, tmp_path: Path) -> None:
    place = tmp_path / "kept"
    for damage in (False, True):
        with pytest.raises(Interrupted):
            train(corpus, place, 3)
        if damage:
            (place / "tree.json").write_text("{")
        assert train(corpus, place, **({} if damage else {"seed": 9}))[1] == STEPS


CONFIG = ProxyConfig(learning_rate=0.03, warmup_steps=2)


def trained(corpus: TokenStore, weights: dict[str, float], names: list[str] | None = None) -> float:
    domains = Domains(corpus, {"birds": 1.0}, names=names, sequence_length=32)
    proxy = Proxy(Bigram(corpus.vocabulary), CONFIG)
    losses = list(train_on_mixture(domains, proxy, weights, 40, 8))
    assert len(losses) == 40
    return proxy.evaluate(together(domains.targets.values())[0], "evaluate")


def test_the_validations_own_domain_helps_most(corpus: TokenStore) -> None:
    uniform = trained(corpus, dict.fromkeys(corpus.names, 0.25))
    assert trained(corpus, {"birds": 1.0}) < uniform - 0.3
    assert trained(corpus, {"digits": 1.0}) > uniform + 0.3


def test_a_proxy_comes_back(corpus: TokenStore) -> None:
    proxy, domains = begun(corpus)
    list(train_on_mixture(domains, proxy, {"birds": 1.0}, 3, 4))
    other, others = begun(corpus)
    restore_proxy(other, others, proxy_content(proxy, domains))
    assert (other.steps, others.state()) == (3, domains.state())
    assert torch.equal(other.model.table, proxy.model.table)  # type: ignore[arg-type]
