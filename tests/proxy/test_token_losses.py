"""Losses in chunks are the losses of all logits at once, and so are their gradients."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
from tiny import Bigram
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM

from bydore_pyro.proxy.token_losses import TokenLosses

SIZES = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2}
IDS = torch.randint(50, (3, 12), generator=torch.Generator().manual_seed(0))


def model(architecture: str, **options: object) -> nn.Module:
    config = AutoConfig.for_model(architecture, **SIZES, intermediate_size=32, **options)
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


def whole(language_model: nn.Module) -> Tensor:
    logits = language_model(input_ids=IDS).logits[:, :-1]
    losses = nn.functional.cross_entropy(
        logits.flatten(0, 1), IDS[:, 1:].flatten(), reduction="none"
    )
    return losses.view(3, 11).mean(1)


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "gpt_neox"])
@pytest.mark.parametrize("tied", [False, True])
def test_chunks_change_nothing(
    architecture: str, tied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    language_model = model(architecture, tie_word_embeddings=tied)
    expected = whole(language_model)
    expected.sum().backward()
    gradients = {n: p.grad.clone() for n, p in language_model.named_parameters()}
    language_model.zero_grad()
    calls = []
    head = language_model.get_output_embeddings()
    head.register_forward_hook(lambda *_: calls.append(1))
    monkeypatch.setattr("bydore_pyro.proxy.token_losses.MOST_LOGITS", 5 * 50)
    losses = TokenLosses(language_model)(IDS).mean(1)
    assert len(calls) >= 8, "36 tokens, five at a time"
    torch.testing.assert_close(losses, expected)
    losses.sum().backward()
    for name, parameter in language_model.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name])
    with torch.no_grad():
        torch.testing.assert_close(TokenLosses(language_model)(IDS).mean(1), expected)


def test_logits_that_are_more_than_an_unembedding_are_not_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Gemma 2 caps its logits; splitting them off would give other losses."""
    language_model = model(
        "gemma2", num_key_value_heads=2, head_dim=8, final_logit_softcapping=0.01
    )
    monkeypatch.setattr("bydore_pyro.proxy.token_losses.MOST_LOGITS", 5 * 50)
    torch.testing.assert_close(TokenLosses(language_model)(IDS).mean(1), whole(language_model))


def test_any_module_that_gives_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bydore_pyro.proxy.token_losses.MOST_LOGITS", 1)
    bigram = Bigram(50)
    expected = nn.functional.cross_entropy(
        bigram(IDS)[:, :-1].flatten(0, 1), IDS[:, 1:].flatten(), reduction="none"
    )
    torch.testing.assert_close(TokenLosses(bigram)(IDS), expected.view(3, 11))


# What a GPU would compute, by Triton's interpreter on a CPU.
INTERPRETED = """
import torch
import bydore_pyro.proxy.token_losses as token_losses
from bydore_pyro.proxy.language_model import build_language_model
from bydore_pyro.proxy.proxy import Proxy, ProxyConfig
from liger_kernel.transformers import LigerCrossEntropyLoss

calls = []
plain = LigerCrossEntropyLoss.forward
LigerCrossEntropyLoss.forward = lambda *given: (calls.append(1), plain(*given))[1]
token_losses._on_gpu = lambda logits: True
batch = torch.randint(300, (4, 32), generator=torch.Generator().manual_seed(0))
factors = torch.tensor([0.5, 1.0, 1.5, 1.0])
found = {}
for liger in (False, True):
    torch.manual_seed(0)
    proxy = Proxy(build_language_model("models/proxy-tiny", 300), ProxyConfig(liger=liger))
    for most in (2**26, 300 * 10):  # all logits at once; ten tokens at a time
        token_losses.MOST_LOGITS = most
        loss, gradient = proxy.gradient(batch, "validation")
        found.setdefault(liger, []).extend([torch.tensor(loss), *gradient.values()])
        found[liger].append(proxy.step(batch, factors))
    used = len(calls)
    proxy.evaluate(batch, "evaluate")
    assert len(calls) == used, "losses without a gradient are torch's own"
    assert bool(used) is liger
for plain, fused in zip(found[False], found[True], strict=True):
    torch.testing.assert_close(fused, plain, rtol=1e-4, atol=1e-5)
"""


class Fused:
    """What is used of liger-kernel, in torch; counts its calls."""

    calls = 0

    def __init__(self, ignore_index: int, reduction: str) -> None:
        self.options = {"ignore_index": ignore_index, "reduction": reduction}

    def __call__(self, logits: Tensor, targets: Tensor) -> Tensor:
        assert logits.requires_grad
        assert logits.dtype == torch.float32
        type(self).calls += 1
        return nn.functional.cross_entropy(logits, targets, **self.options)


@pytest.mark.parametrize(
    ("liger", "dtype", "used"),
    [(True, torch.float32, True), (False, torch.float32, False), (True, torch.float64, False)],
)
def test_the_fused_kernel_is_used_where_gradients_are_taken(
    liger: bool, dtype: torch.dtype, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = types.ModuleType("liger_kernel")
    transformers = types.ModuleType("liger_kernel.transformers")
    transformers.LigerCrossEntropyLoss = type("Counted", (Fused,), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "liger_kernel", package)
    monkeypatch.setitem(sys.modules, "liger_kernel.transformers", transformers)
    monkeypatch.setattr("bydore_pyro.proxy.token_losses.find_spec", lambda name: name)
    monkeypatch.setattr("bydore_pyro.proxy.token_losses._on_gpu", lambda logits: True)
    language_model = model("llama").to(dtype)
    expected = whole(language_model)
    losses = TokenLosses(language_model, liger=liger)
    torch.testing.assert_close(losses(IDS).mean(1), expected)
    assert transformers.LigerCrossEntropyLoss.calls == used
    with torch.no_grad():
        torch.testing.assert_close(losses(IDS).mean(1), expected)
    assert transformers.LigerCrossEntropyLoss.calls == used


@pytest.mark.slow
def test_the_fused_kernel_gives_the_same_losses_and_gradients() -> None:
    pytest.importorskip("liger_kernel", reason="needs liger-kernel: pip install liger-kernel")
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_on_a_cpu_the_fused_kernel_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bydore_pyro.proxy.token_losses.find_spec", lambda name: name)
    language_model = model("llama")
    torch.testing.assert_close(TokenLosses(language_model)(IDS).mean(1), whole(language_model))
