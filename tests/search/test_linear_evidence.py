"""Losses and g of domains: both kinds agree, and a subset costs less."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from tiny import Bigram

from bydore_pyro.data.domains import Domains
from bydore_pyro.data.store import TokenStore
from bydore_pyro.proxy.proxy import Proxy, ProxyConfig
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.linear_evidence import Evidence, Measure

CONFIG = SearchConfig(evidence="linear", signal_sequences=2, validation_batch=8)


def measure(corpus: TokenStore, **options: object) -> Measure:
    domains = Domains(corpus, {"birds": 1.0}, sequence_length=32, validation_sequences=64)
    config = dataclasses.replace(CONFIG, **options)
    return Measure(domains, Proxy(Bigram(corpus.vocabulary), ProxyConfig()), config)


def find(corpus: TokenStore, **options: object) -> Evidence:
    one = measure(corpus, **options)
    return one(one.domains.names, one.proxy.parameters, 0.1)


def test_finite_differences_and_forward_mode_agree(corpus: TokenStore) -> None:
    near, exact = find(corpus), find(corpus, hypergradient="forward_mode")
    torch.testing.assert_close(near.losses, exact.losses, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(near.g, exact.g, rtol=0.02, atol=1e-5)
    assert near.validation_loss == exact.validation_loss
    costs = []
    for kind in ("finite_difference", "forward_mode"):
        one = measure(corpus, hypergradient=kind)
        one(one.domains.names, one.proxy.parameters, 0.1)
        costs.append(one.proxy.cost.flops["hypergradient"])
    assert costs[1] == pytest.approx(1.5 * costs[0]), "three passes for two"
    assert near.g.argmax() == 0, "the validation's own domain helps most"
    fresh = measure(corpus).losses(("birds", "digits"))
    torch.testing.assert_close(fresh, exact.losses[:2], rtol=1e-5, atol=1e-6)


def test_the_automatic_step_knows_its_error(corpus: TokenStore) -> None:
    one = measure(corpus, epsilon_rule="auto")
    exact = find(corpus, hypergradient="forward_mode")
    found = one(one.domains.names, one.proxy.parameters, 0.1)
    assert one.error is not None
    error = float((found.g - exact.g).norm() / exact.g.norm())
    assert error <= 3 * one.error + 1e-6
    assert one.error < 0.02
    copy = measure(corpus, epsilon_rule="auto")
    copy.restore(one.state())
    assert copy.state() == one.state() == {"epsilon": one.epsilon, "error": one.error, "count": 1}


def test_a_subset_costs_its_share(corpus: TokenStore) -> None:
    one = measure(corpus)
    one(one.domains.names, one.proxy.parameters, 0.1)
    whole = one.proxy.cost.tokens["hypergradient"]
    evidence = one(["digits"], one.proxy.parameters, 0.1)
    assert evidence.g.shape == evidence.losses.shape == (1,)
    assert one.proxy.cost.tokens["hypergradient"] == whole * 5 // 4


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_g_is_computed_in_full_precision(corpus: TokenStore, precision: str) -> None:
    seen = []

    class Watched(Bigram):
        def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
            seen.append(torch.is_autocast_enabled("cpu"))
            return super().forward(input_ids)

    domains = Domains(corpus, {"birds": 1.0}, sequence_length=32, validation_sequences=64)
    proxy = Proxy(Watched(corpus.vocabulary), ProxyConfig(precision=precision))
    one = Measure(domains, proxy, CONFIG)
    one(domains.names, proxy.parameters, 0.1)
    assert seen == [precision == "bfloat16", False, False]


def test_without_a_direction_g_is_zero(corpus: TokenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    one = measure(corpus)
    nothing = {n: torch.zeros_like(p) for n, p in one.proxy.parameters.items()}
    monkeypatch.setattr(one.proxy, "gradient", lambda *_: (3.0, nothing))
    theta = {n: p.clone() for n, p in one.proxy.parameters.items()}
    found = one(one.domains.names, theta, 0.1)
    assert one.config.epsilon_rule == "darts"
    assert found.g.abs().max() == 0
