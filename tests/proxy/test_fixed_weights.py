"""Fresh models on fixed weights; one that a signal broke off ends with the same bits."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch
from tiny import Bigram

from bydore_pyro.baselines.problem import Problem
from bydore_pyro.baselines.proxy_runs import PlannedRun, load_model, train_runs
from bydore_pyro.data.domains import Domains
from bydore_pyro.data.store import TokenStore
from bydore_pyro.proxy.fixed_weights import (
    kept_on_signal,
    proxy_content,
    restore_proxy,
    train_on_mixture,
)
from bydore_pyro.proxy.proxy import Proxy, ProxyConfig
from bydore_pyro.utils.errors import NonFiniteError
from bydore_pyro.utils.terminal import Interrupted

pytestmark = pytest.mark.usefixtures("_heard")
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
    with kept_on_signal(place, {"steps": STEPS, **more}, proxy, domains) as check:
        for _ in train_on_mixture(domains, proxy, weights, STEPS, 6, seed=5):
            taken += 1
            if taken == stop:
                os.kill(os.getpid(), signal.SIGTERM)
                os.kill(os.getpid(), signal.SIGTERM)
            check()
    return proxy, taken


@pytest.mark.parametrize("stop", [1, 5, STEPS])
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


def test_anothers_and_damaged_ones_are_begun_anew(corpus: TokenStore, tmp_path: Path) -> None:
    place = tmp_path / "kept"
    for damage in (False, True):
        with pytest.raises(Interrupted):
            train(corpus, place, 3)
        if damage:
            (place / "tree.json").write_text("{")
        assert train(corpus, place, **({} if damage else {"seed": 9}))[1] == STEPS


def test_a_proxy_comes_back(corpus: TokenStore) -> None:
    proxy, domains = begun(corpus)
    list(train_on_mixture(domains, proxy, {"birds": 1.0}, 3, 4))
    other, others = begun(corpus)
    restore_proxy(other, others, proxy_content(proxy, domains))
    assert other.steps == 3
    assert others.state() == domains.state()
    assert torch.equal(other.model.table, proxy.model.table)  # type: ignore[arg-type]


def test_a_sweep_goes_on_within_a_proxy(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [PlannedRun(weights={"birds": 1.0}, steps=10, seed=3, keep_model=True)]
    (whole,) = train_runs(problem, runs, "x")
    expected = load_model(problem, whole, 3).model
    place = whole.folder.rename(tmp_path / "aside")
    step, taken = Proxy.step, []

    def take(self: Proxy, *given: object) -> object:
        taken.append(self.steps)
        if len(taken) == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Proxy, "step", take)
    with pytest.raises(Interrupted):
        train_runs(problem, runs, "x")
    (again,) = train_runs(problem, runs, "x")
    assert taken == list(range(10)), "no step twice"
    assert torch.equal(load_model(problem, again, 3).model.table, expected.table)  # type: ignore[arg-type]
    assert {path.name for path in problem.runs.iterdir()} == {again.folder.name}
    assert place.is_dir()


CONFIG = ProxyConfig(learning_rate=0.03, warmup_steps=2)


def trained(corpus: TokenStore, weights: dict[str, float], names: list[str] | None = None) -> float:
    domains = Domains(corpus, {"birds": 1.0}, names=names, sequence_length=32)
    proxy = Proxy(Bigram(corpus.vocabulary), CONFIG)
    losses = list(train_on_mixture(domains, proxy, weights, 40, 8))
    assert len(losses) == 40
    return proxy.evaluate(domains.validation, "evaluate")


def test_the_validations_own_domain_helps_most(corpus: TokenStore) -> None:
    uniform = trained(corpus, dict.fromkeys(corpus.names, 0.25))
    assert trained(corpus, {"birds": 1.0}) < uniform - 0.3
    assert trained(corpus, {"digits": 1.0}) > uniform + 0.3


def test_the_validations_domain_can_be_trained_on_without_being_searched(
    corpus: TokenStore,
) -> None:
    names = ["digits", "greek"]
    own = trained(corpus, {"birds": 1.0}, names)
    assert own < trained(corpus, {"digits": 0.5, "greek": 0.5}, names) - 0.3


def test_a_loss_that_is_not_finite_stops(corpus: TokenStore, domains: Domains) -> None:
    model = Bigram(corpus.vocabulary)
    with torch.no_grad():
        model.table.fill_(float("nan"))
    with pytest.raises(NonFiniteError, match="Step 0 on fixed weights"):
        list(train_on_mixture(domains, Proxy(model, CONFIG), {"birds": 1.0}, 3, 4))
