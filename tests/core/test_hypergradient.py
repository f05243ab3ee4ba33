"""The finite difference: against an analytic quadratic, an exact derivative, and its sign."""

from __future__ import annotations

import pytest
import torch
from tiny import Bigram
from torch import Tensor
from torch.func import functional_call
from transformers import AutoConfig, AutoModelForCausalLM

from bydore_pyro.core.hypergradient import Parameters, finite_difference, forward_mode
from bydore_pyro.proxy.config import ProxyConfig
from bydore_pyro.proxy.proxy import Proxy


def test_exact_for_quadratic_losses() -> None:
    """ell_k = x' A_k x / 2 has <grad ell_k, D> = D' A_k x, and central differences are exact."""
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(3, 5, 5, generator=generator, dtype=torch.float64)
    curvature = root @ root.mT
    x, d = torch.randn(2, 5, generator=generator, dtype=torch.float64)
    eta = 0.1

    def losses(theta: Parameters) -> Tensor:
        return 0.5 * torch.einsum("i,kij,j->k", theta["x"], curvature, theta["x"])

    found, g = finite_difference(losses, {"x": x}, {"x": d}, eta, 0.01)
    torch.testing.assert_close(found, losses({"x": x}), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(g, eta * torch.einsum("i,kij,j->k", d, curvature, x))


def test_agrees_with_the_exact_derivative_of_a_language_model() -> None:
    model = Bigram(20).double()
    generator = torch.Generator().manual_seed(1)
    batches = torch.randint(20, (3, 4, 9), generator=generator)  # (K, n, T)
    validation = torch.randint(20, (6, 9), generator=generator)
    theta = {n: p.detach() for n, p in model.named_parameters()}
    eta = 0.3

    def loss(theta: Parameters, batch: Tensor) -> Tensor:
        logits = functional_call(model, dict(theta), (batch,))[:, :-1]
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())

    def losses(theta: Parameters) -> Tensor:
        return torch.stack([loss(theta, batch) for batch in batches])

    direction = torch.func.grad(loss)(theta, validation)
    jacobian = torch.func.jacrev(losses)(theta)["table"]
    exact = eta * torch.einsum("kij,ij->k", jacobian, direction["table"])
    errors = []
    for epsilon in (0.4, 0.2):
        _, g = finite_difference(losses, theta, direction, eta, epsilon)
        errors.append((g - exact).abs().max())
    assert errors[1] < 1e-4 * exact.abs().max()
    assert 3.9 < errors[0] / errors[1] < 4.1, "the error is of second order in epsilon"

    # The definition: the fall of the validation loss after one virtual step on domain k, small eta.
    tiny = 1e-5
    after = torch.stack(
        [
            loss({"table": theta["table"] - tiny * jacobian[k]}, validation)
            for k in range(len(batches))
        ]
    )
    fall = (loss(theta, validation) - after) / tiny
    torch.testing.assert_close(eta * fall, exact, rtol=1e-3, atol=1e-8)


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_forward_mode_is_exact_for_language_models(architecture: str) -> None:
    """Against gradients of every domain's loss, in float64; the same losses come back."""
    sizes = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2}
    layers = {"num_hidden_layers": 2, "intermediate_size": 32}
    config = AutoConfig.for_model(architecture, **sizes, **layers)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float64)
    proxy = Proxy(model, ProxyConfig())
    generator = torch.Generator().manual_seed(0)
    batch = torch.randint(50, (6, 12), generator=generator)  # K = 3 domains of two sequences
    _, direction = proxy.gradient(torch.randint(50, (4, 12), generator=generator), "validation")

    def losses(theta: Parameters | None) -> Tensor:
        return proxy.losses(batch, "hypergradient", theta).view(3, 2).mean(1)

    found, g = forward_mode(losses, proxy.parameters, direction, 0.1)
    torch.testing.assert_close(found, losses(None).detach())
    named = dict(model.named_parameters())
    for k in range(3):
        gradient = torch.autograd.grad(losses(None)[k], list(named.values()))
        expected = sum(
            (d * g_).sum() for d, g_ in zip((direction[n] for n in named), gradient, strict=True)
        )
        torch.testing.assert_close(g[k], 0.1 * expected)


def test_the_default_step_is_darts_s() -> None:
    theta, direction, seen = {"x": torch.tensor([3.0, 4.0])}, {"x": torch.tensor([0.0, 0.1])}, []

    def losses(at: Parameters) -> Tensor:
        seen.append(at["x"][1].item() - 4)
        return at["x"]

    finite_difference(losses, theta, direction, 1.0)
    assert seen == pytest.approx([0.01, -0.01], rel=1e-4)  # 0.01 / |D| times D
    _, g = finite_difference(losses, theta, {"x": torch.zeros(2)}, 1.0)
    assert torch.equal(g, torch.zeros(2))
    for eta, epsilon, name in ((0.0, 1.0, "eta"), (1.0, -1.0, "epsilon")):
        with pytest.raises(ValueError, match=f"{name} > 0"):
            finite_difference(losses, theta, direction, eta, epsilon)
