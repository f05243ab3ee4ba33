"""Algorithm 1: it finds a planted mixture, learns in the units of g, and stops where it must."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.linear import LinearSearch, _measure
from bydore_pyro.search.search import init_search, run_search
from searches import LINEAR, means, state_of
from tiny import ALPHABETS, Bigram
from torch import Tensor

from bydore_pyro.core import forward_mode
from bydore_pyro.data.domains import Domains
from bydore_pyro.data.store import TokenStore
from bydore_pyro.proxy.language_model import build_language_model
from bydore_pyro.proxy.proxy import Proxy, ProxyConfig
from bydore_pyro.proxy.scheduling import STRATEGIES, Strategy
from bydore_pyro.utils.errors import NonFiniteError

MODELS = Path(__file__).parents[2] / "models"


def test_the_planted_mixture_is_found(corpus: TokenStore) -> None:
    """Two of four disjoint languages make up the validation text; the others cannot help."""
    planted = {"birds": 0.6, "greek": 0.4}
    config = SearchConfig(evidence="linear", steps=150, batch_sequences=16, guide_warmup=10)
    state = state_of(corpus, config, proxy=ProxyConfig(learning_rate=0.03), validation=planted)
    for _ in run_search(state):
        pass
    mean = means(state)[state.average_start :].mean(0)
    weights = dict(zip(ALPHABETS, mean, strict=True))
    truth = np.array([planted.get(name, 0.0) for name in ALPHABETS])
    assert 0.5 * np.abs(mean - truth).sum() < 0.25, weights
    assert min(weights["birds"], weights["greek"]) > 2 * max(weights["digits"], weights["upper"])


def test_the_learner_works_in_units_of_gs_spread(corpus: TokenStore) -> None:
    """It sees g and the KL's weight without a unit; the record holds nats per token."""
    state, seen = state_of(corpus), []
    plain = state.learner.update

    def update(signals: Tensor, g: Tensor, kl_weight: float, *, learn: bool) -> float:
        loss = plain(signals, g, kl_weight, learn=learn)
        seen.append((g.clone(), kl_weight, loss))
        return loss

    state.learner.update = update  # type: ignore[method-assign]
    for record in run_search(state):
        g, kl_weight, loss = seen[-1]
        spread = state.g_spread
        assert spread is not None
        np.testing.assert_allclose(g * spread, record.g, rtol=1e-5)
        assert record.kl_weight == pytest.approx(kl_weight * spread)
        assert kl_weight == pytest.approx(state.config.kl_weight)
        assert record.loss == pytest.approx(loss * spread)


def test_the_guide_waits_for_the_warmup(corpus: TokenStore) -> None:
    state = state_of(corpus, dataclasses.replace(LINEAR, guide_warmup=5))
    list(run_search(state))
    moved = np.abs(means(state) - 0.25).max(1) > 1e-5
    assert moved.tolist() == [False] * 6 + [True] * 6


@pytest.mark.parametrize("eta", [1e12, 1e30])
def test_a_loss_that_explodes_names_step_and_domain(corpus: TokenStore, eta: float) -> None:
    config = ProxyConfig(learning_rate=eta, warmup_steps=0)
    model = build_language_model(MODELS / "proxy-tiny", corpus.vocabulary)
    domains = Domains(corpus, {"birds": 1.0}, sequence_length=32, validation_sequences=64)
    state = init_search(domains, Proxy(model, config), LINEAR)
    with pytest.raises(NonFiniteError, match=r"Step \d+: the .+ of domain '\w+' is (nan|inf|-inf)"):
        list(run_search(state))
    assert len(state.records) < LINEAR.steps
    assert all(np.isfinite(record.g).all() for record in state.records)


def test_a_broken_posterior_is_named(corpus: TokenStore) -> None:
    state = state_of(corpus)
    with torch.no_grad():
        state.learner.guide.network.domain_bias[2, 1] = float("nan")
    with pytest.raises(NonFiniteError, match="Step 0: the posterior's rate of domain 'greek'"):
        state.step()


def test_a_subset_of_domains_gives_an_unbiased_g(corpus: TokenStore) -> None:
    """The estimate's mean over many subsets is what measuring every domain gives."""
    config = dataclasses.replace(LINEAR, signal_domains=2)
    state = state_of(corpus, config)
    exact = torch.tensor([0.3, -0.1, 0.2, 0.05])
    memory = torch.tensor([0.1, 0.1, 0.0, -0.2])
    asked = []

    def measure(names: list[str], theta: object, eta: float) -> tuple[Tensor, Tensor, float]:
        asked.append(tuple(names))
        chosen = [state.domains.names.index(name) for name in names]
        return torch.ones(len(names)), exact[chosen], 1.0

    state.evidence = measure  # type: ignore[method-assign]
    estimates = []
    for _ in range(3000):
        state.g = memory.clone()
        estimates.append(_measure(state, torch.zeros(4), {}, 0.1)[0])
        chosen = [state.domains.names.index(name) for name in asked[-1]]
        assert torch.equal(state.g[chosen], exact[chosen])
    mean = torch.stack(estimates).mean(0)
    torch.testing.assert_close(mean, exact, rtol=0, atol=0.02)
    assert len(set(asked)) == 6, "all pairs of four"


def test_g_is_that_of_forward_mode_and_a_subset_costs_its_share(corpus: TokenStore) -> None:
    config = dataclasses.replace(LINEAR, signal_sequences=2)
    state, twin = state_of(corpus, config), state_of(corpus, config)
    names, theta = state.domains.names, state.proxy.parameters
    losses, g, _ = state.evidence(names, theta, 0.1)
    whole = state.proxy.cost.tokens["hypergradient"]
    _, direction = twin.proxy.gradient(twin.domains.validation_batch(8), "x")
    batch = twin.domains.signal_batch(2, names)
    found, exact = forward_mode(
        lambda perturbed: twin.proxy.losses(batch, "x", perturbed).view(-1, 2).mean(1),
        *(theta, direction, 0.1),
    )
    torch.testing.assert_close(losses, found, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(g, exact, rtol=0.02, atol=1e-5)
    assert g.argmax() == 0, "the validation's own domain helps most"
    assert [len(x) for x in state.evidence(["digits"], theta, 0.1)[:2]] == [1, 1]
    assert state.proxy.cost.tokens["hypergradient"] == whole * 5 // 4
    nothing = {name: torch.zeros_like(p) for name, p in theta.items()}
    state.proxy.gradient = lambda *_: (3.0, nothing)  # type: ignore[method-assign]
    assert state.evidence(names, theta, 0.1)[1].abs().max() == 0, "without a direction"


def test_g_is_computed_in_full_precision(corpus: TokenStore) -> None:
    seen = []

    class Watched(Bigram):
        def forward(self, input_ids: Tensor) -> Tensor:
            seen.append(torch.is_autocast_enabled("cpu"))
            return super().forward(input_ids)

    domains = Domains(corpus, {"birds": 1.0}, sequence_length=32, validation_sequences=64)
    proxy = Proxy(Watched(corpus.vocabulary), ProxyConfig(precision="bfloat16"))
    state = init_search(domains, proxy, LINEAR)
    assert isinstance(state, LinearSearch)
    state.evidence(domains.names, proxy.parameters, 0.1)
    assert seen == [True, False, False]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_strategies_reach_the_proxy(corpus: TokenStore, strategy: Strategy) -> None:
    """Batches of one domain or of all, and factors where the weights weigh losses."""
    state, seen = state_of(corpus, dataclasses.replace(LINEAR, strategy=strategy, steps=4)), []
    train = state.train
    state.train = lambda *given: seen.append(given) or train(*given)  # type: ignore[method-assign]
    list(run_search(state))
    for counts, factors in seen:
        assert bool((factors == 1).all()) == strategy.endswith("sampling")
        assert (int((counts > 0).sum()) == 1) == strategy.startswith("inter")
