"""Gradients of single sequences: those of autograd, and sketches that keep inner products."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from tiny import Bigram
from torch import Tensor, nn
from transformers import AutoConfig

from bydore_pyro.proxy.config import ProxyConfig
from bydore_pyro.proxy.gradients import MAX_VALUES, GradientSketch, random_signs
from bydore_pyro.proxy.language_model import build_language_model
from bydore_pyro.proxy.proxy import Proxy

MODELS = Path(__file__).parents[2] / "models"
VOCABULARY = 24


def llama() -> nn.Module:
    shape = AutoConfig.from_pretrained(MODELS / "proxy-tiny")
    shape.num_hidden_layers = 2
    torch.manual_seed(0)
    return build_language_model(shape, VOCABULARY)


def proxy_of(kind: str = "bigram", **options: object) -> Proxy:
    return Proxy(Bigram(VOCABULARY) if kind == "bigram" else llama(), ProxyConfig(**options))


def batch_of(count: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, VOCABULARY, (count, 12), generator=generator)


def by_hand(proxy: Proxy, row: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of a sequence's mean loss, flat, and the loss, by the model alone."""
    output = proxy.model(input_ids=row[None])
    logits = getattr(output, "logits", output)[0, :-1]
    loss = nn.functional.cross_entropy(logits, row[1:])
    found = torch.autograd.grad(loss, [p for p in proxy.model.parameters() if p.requires_grad])
    return torch.cat([g.flatten() for g in found]), loss.detach()


@pytest.mark.parametrize("kind", ["bigram", "llama"])
@pytest.mark.parametrize("count", [1, 5])
def test_gradients_are_those_of_autograd(kind: str, count: int) -> None:
    proxy, batch = proxy_of(kind), batch_of(count)
    gradients, losses = proxy.sequence_gradients(batch, "gradients")
    assert gradients.shape == (count, sum(p.numel() for p in proxy.parameters.values()))
    for row, gradient, loss in zip(batch, gradients, losses, strict=True):
        expected, value = by_hand(proxy, row)
        torch.testing.assert_close(gradient, expected, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(loss, value)
    assert proxy.cost.tokens["gradients"] == batch.numel()


@pytest.mark.parametrize("kind", ["bigram", "llama"])
@pytest.mark.parametrize("count", [1, 5])
def test_weighted_losses_and_gradients_are_those_of_autograd(kind: str, count: int) -> None:
    proxy, batch = proxy_of(kind), batch_of(count)
    weights = torch.rand(count, 11, generator=torch.Generator().manual_seed(1))
    weights[:, :4] = 0
    sketch = GradientSketch(proxy, 512)
    found, losses = sketch(batch, "x", weights=weights)
    rows = proxy.token_losses(batch, "x") * weights
    torch.testing.assert_close(losses, rows.sum(1).detach())
    torch.testing.assert_close(proxy.losses(batch, "x", weights=weights), rows.sum(1))
    mean, gradient = proxy.gradient(batch, "x", weights=weights)
    assert mean == pytest.approx(float(losses.mean()), rel=1e-5)
    direction = {
        n: torch.randn(g.shape, generator=torch.Generator().manual_seed(2))
        for n, g in gradient.items()
    }
    expected = sum(float((gradient[n] * direction[n]).sum()) for n in gradient)
    for place in range(count):
        own = torch.autograd.grad(
            rows[place].sum(), list(proxy.model.parameters()), retain_graph=True
        )
        signs = random_signs(sketch.count, 0)
        flat = torch.cat([g.flatten() for g in own]) * signs
        padded = nn.functional.pad(flat, (0, -len(flat) % sketch.size))
        by_hand = padded.view(-1, sketch.size).sum(0)
        torch.testing.assert_close(found[place], by_hand, rtol=1e-4, atol=1e-5)
        products = zip(own, direction.values(), strict=True)
        expected -= sum(float((g * d).sum()) for g, d in products) / count
    assert expected == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("kind", ["bigram", "llama"])
def test_nothing_of_the_model_is_changed(kind: str) -> None:
    proxy = proxy_of(kind)
    proxy.step(batch_of(4))
    before = {n: p.clone() for n, p in proxy.model.named_parameters()}
    slopes = {n: p.grad.clone() for n, p in proxy.model.named_parameters()}
    random = torch.get_rng_state()
    GradientSketch(proxy, 64)(batch_of(5), "gradients")
    assert torch.equal(torch.get_rng_state(), random)
    for name, parameter in proxy.model.named_parameters():
        assert torch.equal(parameter, before[name])
        assert parameter.requires_grad
        assert torch.equal(parameter.grad, slopes[name])
    assert not proxy.model.training
    assert proxy.steps == 1


@pytest.mark.parametrize("chunk", [1, 2])
def test_chunks_do_not_matter(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, batch = proxy_of("llama"), batch_of(5)
    expected, losses = GradientSketch(proxy, 128)(batch, "gradients")
    sketch = GradientSketch(proxy, 128)
    monkeypatch.setitem(MAX_VALUES, "cpu", chunk * sketch.count)
    assert sketch.chunk == chunk
    found, again = sketch(batch, "gradients")
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(again, losses)
    monkeypatch.setitem(MAX_VALUES, "cpu", 1)
    assert sketch.chunk == 1, "a model larger than that takes a sequence at a time"


def test_sketches_keep_inner_products() -> None:
    """Unbiased over the signs; the error is about 1 / sqrt(S) of the lengths' product."""
    proxy, batch = proxy_of(), batch_of(2)
    gradients, _ = proxy.sequence_gradients(batch, "gradients")
    exact = float(gradients[0] @ gradients[1])
    found = []
    for seed in range(300):
        one, other = GradientSketch(proxy, 50, seed)(batch, "gradients")[0]  # 576 in rows of 50
        found.append(float(one @ other))
    values = torch.tensor(found)
    assert abs(values.mean() - exact) < 4 * values.std() / math.sqrt(300)
    relative = values.std() / (gradients[0].norm() * gradients[1].norm())
    assert relative < 1.5 / math.sqrt(50)
    assert len(set(found)) > 290, "another seed, other signs"
    again, _ = GradientSketch(proxy, 50, 299)(batch, "gradients")
    assert float(again[0] @ again[1]) == found[-1]


@pytest.mark.parametrize("kind", ["bigram", "llama"])
def test_a_sketch_unfolds_to_a_direction_of_the_same_products(kind: str) -> None:
    proxy, batch = proxy_of(kind), batch_of(4)
    gradients, _ = proxy.sequence_gradients(batch, "gradients")
    sketch = GradientSketch(proxy, 100)
    found, _ = sketch(batch, "gradients")
    wanted = torch.randn(100, generator=torch.Generator().manual_seed(1))
    direction = sketch.unfolded(wanted)
    assert {n: d.shape for n, d in direction.items()} == {
        n: p.shape for n, p in proxy.parameters.items()
    }
    flat = torch.cat([d.flatten() for d in direction.values()])
    torch.testing.assert_close(gradients @ flat, found @ wanted, rtol=1e-4, atol=1e-5)


def test_signs_are_balanced_and_follow_from_the_seed() -> None:
    signs = random_signs(10_000, 1)
    assert set(signs.tolist()) == {-1, 1}
    assert abs(float(signs.float().mean())) < 0.04
    assert torch.equal(signs, random_signs(10_000, 1))
    assert not torch.equal(signs, random_signs(10_000, 2))
