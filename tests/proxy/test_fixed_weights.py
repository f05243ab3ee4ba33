"""Fresh models on fixed weights."""

from __future__ import annotations

import pytest
import torch
from tiny import Bigram

from bydore_pyro.data.domains import Domains
from bydore_pyro.data.store import TokenStore
from bydore_pyro.proxy.fixed_weights import train_on_mixture
from bydore_pyro.proxy.proxy import Proxy, ProxyConfig
from bydore_pyro.utils.errors import NonFiniteError

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
