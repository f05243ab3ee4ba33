"""The proxy: steps of the optimiser and their size."""

from __future__ import annotations

import pytest
import torch
from tiny import Bigram

from bydore_pyro.proxy.config import ProxyConfig
from bydore_pyro.proxy.proxy import Proxy


@pytest.fixture
def batch() -> torch.Tensor:
    return torch.randint(50, (3, 12), generator=torch.Generator().manual_seed(0))


def test_the_step_size_can_fall_to_zero(batch: torch.Tensor) -> None:
    proxy = Proxy(Bigram(50), ProxyConfig(learning_rate=1.0, warmup_steps=1), decay_steps=4)
    etas = []
    for _ in range(5):
        etas.append(proxy.eta)
        proxy.step(batch)
    assert etas == [0.5, 0.75, 0.5, 0.25, 0.0]


def test_the_first_step_of_adam_is_eta_times_the_gradients_sign(batch: torch.Tensor) -> None:
    """Of clipped gradients, without decay."""
    model = Bigram(50)
    config = ProxyConfig(learning_rate=0.5, warmup_steps=4, weight_decay=0, max_gradient_norm=1e-3)
    proxy = Proxy(model, config)
    before = model.table.detach().clone()
    gradient = proxy.gradient(batch, "test")[1]["table"]
    assert proxy.eta == pytest.approx(0.1), "one fifth of the way through the warm-up"
    assert proxy.step(batch).shape == (3,)
    assert float(model.table.grad.norm()) == pytest.approx(1e-3, rel=1e-2)
    moved = gradient.abs() > 1e-5 * gradient.norm() / 1e-3
    expected = before - 0.1 * gradient.sign()
    torch.testing.assert_close(model.table.detach()[moved], expected[moved], rtol=1e-2, atol=1e-2)
    for _ in range(5):
        proxy.step(batch)
    assert proxy.eta == 0.5
