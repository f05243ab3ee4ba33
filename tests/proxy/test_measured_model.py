"""A measured model: losses against transformers' own, functional parameters, counted FLOPs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny import Bigram

from bydore_pyro.core.hypergradient import forward_mode
from bydore_pyro.errors import NonFiniteError
from bydore_pyro.proxy.config import ProxyConfig
from bydore_pyro.proxy.language_model import build_language_model
from bydore_pyro.proxy.measured_model import Cost, MeasuredModel, check_finite
from bydore_pyro.proxy.proxy import Proxy

MODELS = Path(__file__).parents[2] / "models"


@pytest.fixture
def batch() -> torch.Tensor:
    return torch.randint(50, (3, 12), generator=torch.Generator().manual_seed(0))


@pytest.fixture
def tiny() -> torch.nn.Module:
    torch.manual_seed(0)
    return build_language_model(MODELS / "proxy-tiny", 50)


def test_losses_equal_those_of_transformers(tiny: torch.nn.Module, batch: torch.Tensor) -> None:
    measured = MeasuredModel(tiny)
    losses = measured.losses(batch, "test")
    for row, loss in zip(batch, losses, strict=True):
        expected = tiny(input_ids=row[None], labels=row[None]).loss
        torch.testing.assert_close(loss, expected, atol=1e-5, rtol=1e-5)
    assert measured.evaluate(batch, "test", chunk=2) == pytest.approx(
        losses.mean().item(), abs=1e-5
    )


def test_gradient_is_the_derivative_of_the_mean_loss(batch: torch.Tensor) -> None:
    model = Bigram(50).double()
    measured = MeasuredModel(model)
    loss, gradient = measured.gradient(batch, "test")
    assert model.table.grad is None, "gradients of the optimiser are not touched"
    direction = torch.randn(50, 50, generator=torch.Generator().manual_seed(1)).double()
    h = 1e-5
    up, down = (
        measured.losses(batch, "test", {"table": model.table.detach() + s * h * direction}).mean()
        for s in (1, -1)
    )
    assert (gradient["table"] * direction).sum().item() == pytest.approx(
        (up - down).item() / (2 * h), rel=1e-6
    )
    assert loss == pytest.approx((up + down).item() / 2, rel=1e-6)


def test_flops_agree_with_torchs_counter(tiny: torch.nn.Module, batch: torch.Tensor) -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    proxy = Proxy(tiny, ProxyConfig())
    batch = batch.repeat(1, 20)  # long enough for attention to be a fifth of the whole
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        proxy.losses(batch, "forward")
    assert proxy.cost.flops["forward"] == pytest.approx(counter.get_total_flops(), rel=1e-3)
    assert proxy.cost.tokens["forward"] == batch.numel()
    proxy.step(batch)
    assert proxy.cost.flops["train"] == 3 * proxy.cost.flops["forward"]
    theta = proxy.parameters

    def losses(perturbed: dict[str, torch.Tensor]) -> torch.Tensor:
        return proxy.losses(batch, "tangent", perturbed, passes=3)

    with FlopCounterMode(display=False) as counter:
        forward_mode(losses, theta, theta, 0.1)
    assert proxy.cost.flops["tangent"] == pytest.approx(counter.get_total_flops(), rel=0.1)
    assert proxy.cost.seconds["train"] > 0


def test_dropout_is_off_and_weights_are_float32(batch: torch.Tensor) -> None:
    from transformers import GPT2Config

    config = GPT2Config(n_embd=32, n_layer=1, n_head=2, n_positions=64, dtype="bfloat16")
    model = build_language_model(config, 50)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    measured = MeasuredModel(model)
    assert torch.equal(measured.losses(batch, "test"), measured.losses(batch, "test"))
    assert measured.cost.flops["test"] > 2 * 2 * batch.numel() * 12 * 32 * 32, "Conv1D is counted"


def test_costs_add_up_by_part() -> None:
    """Also another counter's, under a prefix, and the seconds of a part that fails."""
    other, cost = Cost(), Cost()
    other.count("train", 3, 30.0)
    other.seconds["train"] = 0.5
    cost.count("signals", 2, 4.0)
    for _ in range(2):
        cost.add(other.report()["parts"], prefix="verify_")
    parts = {
        "verify_train": {"tokens": 6, "flops": 60.0, "seconds": 1.0},
        "signals": {"tokens": 2, "flops": 4.0, "seconds": 0.0},
    }
    assert cost.report() == {"tokens": 8, "flops": 64.0, "seconds": 1.0, "parts": parts}
    with pytest.raises(RuntimeError), cost.part("train"):
        raise RuntimeError
    assert cost.seconds["train"] > 0


@pytest.mark.parametrize("bad", [float("nan"), -float("inf")])
def test_what_is_not_finite_is_named(bad: float) -> None:
    check_finite("loss", torch.tensor([1.0, 2.0]), 3, ["a", "b"])
    message = rf"Step 3: the loss of domain 'b' is {bad}; a smaller --learning_rate"
    with pytest.raises(NonFiniteError, match=message):
        check_finite("loss", torch.tensor([1.0, bad]), 3, ["a", "b"])
