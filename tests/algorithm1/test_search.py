"""Algorithm 1: it finds a planted mixture, learns in the units of g, and stops where it must."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyro
import pytest
import torch
from searches import LINEAR, all_steps, linear_search
from tiny import ALPHABETS, Bigram
from torch import Tensor

from bydore_pyro.algorithm1.search import AVERAGE_FROM, LinearSearch, StepRecord, _measure
from bydore_pyro.core import forward_mode
from bydore_pyro.data.store import TokenStore
from bydore_pyro.errors import NonFiniteError
from bydore_pyro.files.trees import read_tree, write_tree
from bydore_pyro.proxy.config import STRATEGIES, ProxyConfig, Strategy
from bydore_pyro.proxy.language_model import build_language_model
from bydore_pyro.proxy.proxy import Proxy

MODELS = Path(__file__).parents[2] / "models"


def means(state: LinearSearch) -> np.ndarray:
    return np.stack([record.mean for record in state.records])


def test_the_planted_mixture_is_found(corpus: TokenStore) -> None:
    """Two of four disjoint languages make up the validation text; the others cannot help."""
    planted = {"birds": 0.6, "greek": 0.4}
    config = dataclasses.replace(LINEAR, guide_warmup=10)
    proxy = Proxy(Bigram(corpus.vocabulary), ProxyConfig(learning_rate=0.03))
    given = {"steps": 150, "batch_sequences": 16, "validation": planted}
    state = linear_search(corpus, config, proxy=proxy, **given)
    all_steps(state)
    assert len(state.window) == 150 * AVERAGE_FROM
    mean = np.stack([one.mean for one in state.window]).mean(0)
    weights = dict(zip(ALPHABETS, mean, strict=True))
    truth = np.array([planted.get(name, 0.0) for name in ALPHABETS])
    assert 0.5 * np.abs(mean - truth).sum() < 0.25, weights
    assert min(weights["birds"], weights["greek"]) > 2 * max(weights["digits"], weights["upper"])


def test_the_learner_works_in_units_of_gs_spread(corpus: TokenStore) -> None:
    """It sees g and the KL's weight without a unit; the record holds nats per token."""
    state, seen = linear_search(corpus), []
    plain = state.learner.update

    def update(signals: Tensor, g: Tensor, kl_weight: float, *, learn: bool) -> float:
        loss = plain(signals, g, kl_weight, learn=learn)
        seen.append((g.clone(), kl_weight, loss))
        return loss

    state.learner.update = update  # type: ignore[method-assign]
    for _ in range(state.steps):
        record = state.step()
        g, kl_weight, loss = seen[-1]
        spread = state.g_spread
        assert spread is not None
        np.testing.assert_allclose(g * spread, record.g, rtol=1e-5)
        assert record.kl_weight == pytest.approx(kl_weight * spread)
        assert kl_weight == pytest.approx(state.config.kl_weight)
        assert record.loss == pytest.approx(loss * spread)


@pytest.mark.parametrize("eta", [1e12, 1e30])
def test_a_loss_that_explodes_names_step_and_domain(corpus: TokenStore, eta: float) -> None:
    config = ProxyConfig(learning_rate=eta, warmup_steps=0)
    model = build_language_model(MODELS / "proxy-tiny", corpus.vocabulary)
    state = linear_search(corpus, proxy=Proxy(model, config))
    with pytest.raises(NonFiniteError, match=r"Step \d+: the .+ of domain '\w+' is (nan|inf|-inf)"):
        all_steps(state)
    assert len(state.records) < state.steps
    assert all(np.isfinite(record.g).all() for record in state.records)


def test_a_subset_of_domains_gives_an_unbiased_g(corpus: TokenStore) -> None:
    """The estimate's mean over many subsets is what measuring every domain gives."""
    config = dataclasses.replace(LINEAR, signal_domains=2)
    state = linear_search(corpus, config)
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
    state, twin = linear_search(corpus, config), linear_search(corpus, config)
    names, theta = state.domains.names, state.proxy.parameters
    losses, g, _ = state.evidence(names, theta, 0.1)
    whole = state.proxy.cost.tokens["hypergradient"]
    _, direction = twin.proxy.gradient(twin.domains.validation_batch(8)[0], "x")
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
    state.proxy.gradient = lambda *_, **__: (3.0, nothing)  # type: ignore[method-assign]
    assert state.evidence(names, theta, 0.1)[1].abs().max() == 0, "without a direction"


def test_g_is_computed_in_full_precision(corpus: TokenStore) -> None:
    seen = []

    class Watched(Bigram):
        def forward(self, input_ids: Tensor) -> Tensor:
            seen.append(torch.is_autocast_enabled("cpu"))
            return super().forward(input_ids)

    proxy = Proxy(Watched(corpus.vocabulary), ProxyConfig(precision="bfloat16"))
    state = linear_search(corpus, proxy=proxy)
    state.evidence(state.domains.names, proxy.parameters, 0.1)
    assert seen == [True, False, False]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_strategies_reach_the_proxy(corpus: TokenStore, strategy: Strategy) -> None:
    """Batches of one domain or of all, and factors where the weights weigh losses."""
    config = dataclasses.replace(LINEAR, strategy=strategy)
    state, seen = linear_search(corpus, config, steps=4), []
    train = state._train
    state._train = lambda *given: seen.append(given) or train(*given)  # type: ignore[method-assign]
    all_steps(state)
    for counts, factors in seen:
        assert bool((factors == 1).all()) == strategy.endswith("sampling")
        assert (int((counts > 0).sum()) == 1) == strategy.startswith("inter")


def assert_same(left: LinearSearch, right: LinearSearch) -> None:
    for one, other in zip(left.records, right.records, strict=True):
        for field in dataclasses.fields(StepRecord):
            x, y = getattr(one, field.name), getattr(other, field.name)
            assert np.array_equal(x, y), field.name
            assert type(x) is type(y)
    for name, parameter in left.proxy.parameters.items():
        assert torch.equal(parameter, right.proxy.parameters[name])
    assert left.domains.state() == right.domains.state()
    assert left.proxy.cost.tokens == right.proxy.cost.tokens


def test_the_same_seed_takes_the_same_steps_bit_for_bit(corpus: TokenStore) -> None:
    """Also in turns with another search of the process, with which it shares nothing."""
    alone = linear_search(corpus)
    assert len(all_steps(alone)) == alone.proxy.steps == 12
    assert all_steps(alone) == []
    torch.rand(3)  # what others do to the global generator does not matter
    again, other = linear_search(corpus), linear_search(corpus, seed=1)
    keys, before = list(pyro.get_param_store().keys()), torch.get_rng_state()
    for _ in range(12):
        again.step()
        other.step()
    assert torch.equal(torch.get_rng_state(), before), "the global generator is left alone"
    assert list(pyro.get_param_store().keys()) == keys
    assert_same(alone, again)
    assert not np.array_equal(means(other), means(alone))


@pytest.mark.parametrize("options", [{}, {"signal_domains": 2}])
def test_one_that_goes_on_ends_the_same(corpus: TokenStore, tmp_path: Path, options: dict) -> None:
    """Saved after any step; and saved again at once, before a step has taken anything up."""
    config = dataclasses.replace(LINEAR, **options)
    whole = linear_search(corpus, config)
    for number in range(1, 13):
        whole.step()
        (tmp_path / str(number)).mkdir()
        write_tree(tmp_path / str(number), whole.content(), {})
    for stop in (1, 4, 12):
        torch.manual_seed(stop)  # what the process drew since does not matter
        between = linear_search(corpus, config)
        between.restore(read_tree(tmp_path / str(stop))[1])
        (tmp_path / f"again-{stop}").mkdir()
        write_tree(tmp_path / f"again-{stop}", between.content(), {})
        resumed = linear_search(corpus, config)
        resumed.restore(read_tree(tmp_path / f"again-{stop}")[1])
        assert len(resumed.records) == stop
        all_steps(resumed)
        assert_same(whole, resumed)
