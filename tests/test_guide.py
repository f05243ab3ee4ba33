"""The guide and its model as Pyro programs."""

from __future__ import annotations

import pyro
import pytest
import torch
from pyro import poutine

from bydore_pyro.guide import MixtureGuide, mixture_model
from bydore_pyro.prior_net import PriorNetwork


def test_model_states_prior_and_linear_evidence() -> None:
    g = torch.tensor([0.2, -0.1, 0.3])
    w = torch.tensor([0.5, 0.3, 0.2])
    trace = poutine.trace(poutine.condition(mixture_model, {"weights": w})).get_trace(g, g, 0.5)
    trace.compute_log_prob()
    # log Dirichlet(1_3) is log 2 everywhere; the factor is g . w / lam.
    assert float(trace.nodes["weights"]["log_prob"]) == pytest.approx(0.6931472, abs=1e-6)
    assert float(trace.nodes["validation"]["log_prob"]) == pytest.approx((0.1 - 0.03 + 0.06) / 0.5)


def test_guide_samples_the_site_of_the_model() -> None:
    guide = MixtureGuide.for_domains(3)
    trace = poutine.trace(guide).get_trace(torch.ones(3), torch.ones(3), 1.0)
    assert trace.nodes["weights"]["value"].shape == (3,)
    assert trace.nodes["weights"]["value"].sum().item() == pytest.approx(1, abs=1e-6)


def test_guide_takes_any_network() -> None:
    class Constant(torch.nn.Module):
        def forward(self, signals: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.full_like(signals, 3.0), torch.full_like(signals, 2.0)

    q = MixtureGuide(Constant()).posterior(torch.zeros(4))
    torch.testing.assert_close(q.mean, torch.full((4,), 0.25))


def test_pyro_sees_the_networks_parameters() -> None:
    with pyro.get_param_store().scope():
        guide = MixtureGuide(PriorNetwork(3))
        trace = poutine.trace(guide).get_trace(torch.ones(3))
        names = {n for n, s in trace.nodes.items() if s["type"] == "param"}
    assert len(names) == len(list(guide.parameters()))
