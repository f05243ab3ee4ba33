"""A mixture is checked on text that no measurement has read."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from tiny import Bigram, random_store
from torch import Tensor

from bydore_pyro.data.domains import Domains
from bydore_pyro.data.scored import together
from bydore_pyro.measure.check import ResidualCheck, check_residual, contradicts
from bydore_pyro.proxy.config import ProxyConfig
from bydore_pyro.proxy.gradients import GradientSketch
from bydore_pyro.proxy.proxy import Proxy

PLANTED = {"a": 0.6, "b": 0.4}
TRUTH = np.array([0.6, 0.4, 0.0, 0.0])


def fresh_domains(checked: int = 16, tokens: int = 12800) -> Domains:
    return Domains(
        random_store(tokens=tokens, documents=50),
        PLANTED,
        sequence_length=32,
        validation_sequences=400,
        measured=120,
        checked=checked,
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
    return means, sketch(together(domains.targets.values())[0], "x")[0].mean(0)


def test_slopes_are_products_with_the_residual() -> None:
    """Finite differences of losses against gradients of the same sequences, in a sketch."""
    proxy = proxy_of()
    sketch = GradientSketch(proxy, 64)
    residual = torch.randn(64, generator=torch.Generator().manual_seed(0))
    nothing = torch.zeros(4, 4, dtype=torch.float64)
    found = check_residual(fresh_domains(), sketch, residual, torch.from_numpy(TRUTH), nothing, 2.0)
    assert found.sequences == dict.fromkeys("abcd", 16)
    twin = fresh_domains()
    for name in twin.names:
        batch, documents = twin.check_batch(name)
        products = sketch(batch, "x")[0].double() @ residual.double()
        assert found.slopes[name] == pytest.approx(2 * float(products.mean()), rel=0.02)
        sums = torch.zeros(51, dtype=torch.float64)
        sums.index_add_(0, torch.from_numpy(documents), products - products.mean())
        error = 2 * math.sqrt(float(sums.square().sum())) / 16
        assert found.errors[name] == pytest.approx(error, rel=0.05)
    known = torch.diag(torch.tensor([4.0, 1.0, 0.0, 0.0], dtype=torch.float64))
    wider = check_residual(fresh_domains(), sketch, residual, torch.from_numpy(TRUTH), known, 2.0)
    for name, more in zip(twin.names, known.diagonal().tolist(), strict=True):
        assert wider.errors[name] ** 2 - found.errors[name] ** 2 == pytest.approx(more)
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
    sketch, domains = GradientSketch(proxy_of(), 576), fresh_domains(checked=30)
    means, target = mean_gradients(sketch, domains)
    wanted = torch.tensor(weights)
    residual = target - wanted @ means
    covariance = torch.eye(4, dtype=torch.float64) * 1e-8
    check = check_residual(domains, sketch, residual, wanted.double(), covariance, 1.0)
    assert isinstance(check, ResidualCheck)
    assert {*failing} <= {*check.failing} if failing else not check.failing, check
    if not weights[0]:
        assert check.slopes["a"] > 0, "more of it would match the target better"


def test_a_domain_without_new_sequences_has_no_slope() -> None:
    """A short domain keeps too little for rounds to leave any; where all are short, nothing is
    judged."""
    domains, proxy = fresh_domains(), proxy_of()
    short = {**domains.corpus.train, "b": domains.corpus.train["b"].only(np.arange(50) < 2)}
    given = {"sequence_length": 32, "measured": 120, "checked": 16, "minimal_validation": 1}
    few = Domains(dataclasses.replace(domains.corpus, train=short), PLANTED, **given)
    wanted, known = torch.tensor([0.1, 0.2, 0.3, 0.4]).double(), torch.eye(4).double()
    residual = torch.ones(64)
    found = check_residual(few, GradientSketch(proxy, 64), residual, wanted, known, 1.0)
    assert found.sequences == {"a": 16, "b": 0, "c": 16, "d": 16}
    assert [*found.slopes] == [*found.errors] == ["a", "c", "d"]
    whole = check_residual(domains, GradientSketch(proxy, 64), residual, wanted, known, 1.0)
    assert found.slopes == {name: whole.slopes[name] for name in "acd"}
    assert found.errors == {name: whole.errors[name] for name in "acd"}
    all_short = Domains(random_store(tokens=640, documents=5), PLANTED, **given)
    none = check_residual(all_short, GradientSketch(proxy, 64), residual, wanted, known, 1.0)
    assert none == ResidualCheck(sequences=dict.fromkeys("abcd", 0))


def test_a_slope_is_judged_by_its_weight() -> None:
    """With a weight both signs contradict; without one a negative slope is as it should be."""
    slopes = torch.tensor([4.0, -4.0, 2.9, 4.0, -4.0, 0.0])
    errors = torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    weights = torch.tensor([0.5, 0.01, 0.4, 0.0, 0.009, 0.1])
    assert contradicts(slopes, errors, weights).tolist() == [True, True, False, True, False, False]
