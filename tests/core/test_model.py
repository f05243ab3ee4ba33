"""The model's evidence and prior, its expectation, the sites that it shares with a guide."""

from __future__ import annotations

import math

import pyro
import pytest
import torch
from gaussian_evidence import gaussian_evidence
from pyro import poutine
from pyro.distributions import Dirichlet, LogNormal
from pyro.infer import MCMC, NUTS

from bydore_pyro.core.distribution import GammaDirichlet
from bydore_pyro.core.model import (
    QuadraticFactor,
    expected_evidence,
    mixture_model,
    quadratic_factor,
    require_precision,
)

SIGNALS = torch.tensor([2.0, 3.0, 2.5], dtype=torch.float64)
FIRST_ORDER = torch.tensor([0.03, -0.01, 0.0, 0.02])
H, PRECISION = gaussian_evidence(4, 0.2, alike=1)


pytestmark = pytest.mark.usefixtures("_own_store")


def test_model_states_prior_and_linear_evidence() -> None:
    g = torch.tensor([0.2, -0.1, 0.3])
    w = torch.tensor([0.5, 0.3, 0.2])
    trace = poutine.trace(poutine.condition(mixture_model, {"weights": w})).get_trace(g, g, 0.5)
    trace.compute_log_prob()
    # log Dirichlet(1_3) is log 2 everywhere; the factor is g . w / lam.
    assert float(trace.nodes["weights"]["log_prob"]) == pytest.approx(0.6931472, abs=1e-6)
    assert float(trace.nodes["validation"]["log_prob"]) == pytest.approx((0.1 - 0.03 + 0.06) / 0.5)


def test_model_states_evidence_of_the_second_order() -> None:
    linear, precision = gaussian_evidence(3, 0.2)
    w, s = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64), torch.tensor(0.8).double()
    conditioned = poutine.condition(mixture_model, {"weights": w, "scale": s})
    trace = poutine.trace(conditioned).get_trace(SIGNALS, linear, 2.0, precision)
    trace.compute_log_prob()
    u = s * w
    expected = sum(linear[j] * u[j] for j in range(3))
    expected -= sum(u[j] * precision[j, k] * u[k] for j in range(3) for k in range(3)) / 2
    assert float(trace.nodes["validation"]["log_prob"]) == pytest.approx(float(expected) / 2)
    # LogNormal(0, 1): the prior of the scale
    normal = -(s.log() ** 2) / 2 - s.log() - math.log(2 * math.pi) / 2
    assert float(trace.nodes["scale"]["log_prob"]) == pytest.approx(float(normal))
    kernel = NUTS(mixture_model)
    mcmc = MCMC(kernel, num_samples=3, warmup_steps=3, disable_progbar=True)
    mcmc.run(SIGNALS, linear, 1.0, precision)  # it knows the support of the prior
    assert mcmc.get_samples()["weights"].shape == (3, 3)
    with pytest.raises(ValueError, match=r"precision \(3, 3\), actual \(2, 3\)"):
        mixture_model(SIGNALS, linear, 1.0, precision[:2])


def test_a_precision_that_is_changed_in_place_is_looked_at_again() -> None:
    linear, precision = gaussian_evidence(3, 0.2)
    require_precision(precision, linear)
    precision[0, 0] = -1e6
    with pytest.raises(ValueError, match="positive semi-definite"):
        require_precision(precision, linear)


def test_expected_evidence_equals_its_mean_over_samples() -> None:
    scale = LogNormal(torch.tensor(0.1).double(), 0.2)
    a, b = torch.tensor([2.0, 0.7, 3.0, 1.0]).double(), torch.tensor([0.3, 1.0, 2.0, 0.1]).double()
    for q in (GammaDirichlet(a, b), Dirichlet(a)):
        u = scale.sample((400_000,)).unsqueeze(-1) * q.sample((400_000,))
        first, second = u @ H, ((u @ PRECISION) * u).sum(-1) / 2
        for precision, values in ((PRECISION, first - second), (None, first)):
            error = float(values.std() / math.sqrt(len(values)))
            expected = expected_evidence(q, H, precision, scale)
            assert expected.item() == pytest.approx(values.mean().item(), abs=5 * error)
        with_curvature = expected_evidence(q, H, PRECISION) - expected_evidence(q, H)
        assert with_curvature < 0
    with pytest.raises(ValueError, match="covariance_matrix"):
        expected_evidence(torch.distributions.Exponential(a), H, PRECISION)


def test_a_factor_is_what_pyros_factor_is() -> None:
    """Its density, in a plate, under a mask and a scale, with a batch and expanded."""
    w = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]], dtype=torch.float64)
    s = torch.tensor([0.7, 1.2], dtype=torch.float64)
    u = s[:, None] * w
    expected = u @ H - ((u @ PRECISION) * u).sum(-1) / 2

    mask = torch.tensor([True, False])

    def ours() -> None:
        with pyro.plate("rows", 2), poutine.scale(scale=3.0), poutine.mask(mask=mask):
            quadratic_factor("evidence", w, H, PRECISION, s)

    def stock() -> None:
        with pyro.plate("rows", 2), poutine.scale(scale=3.0), poutine.mask(mask=mask):
            pyro.factor("evidence", expected)

    found, known = (poutine.trace(model).get_trace() for model in (ours, stock))
    assert float(found.log_prob_sum()) == pytest.approx(float(known.log_prob_sum()))
    assert float(found.log_prob_sum()) == pytest.approx(3 * float(expected[0]))
    factor = QuadraticFactor(w, H, PRECISION, s)
    assert (factor.batch_shape, factor.event_shape) == ((2,), (0,))
    wide = factor.expand(torch.Size((5, 2)))
    assert wide.batch_shape == (5, 2)
    torch.testing.assert_close(wide.log_prob(wide.sample()), expected.expand(5, 2))


def test_what_is_no_evidence_is_refused() -> None:
    with pytest.raises(ValueError, match=r"linear \(4,\), actual \(3,\)"):
        QuadraticFactor(torch.full((4,), 0.25), FIRST_ORDER[:3])
    for arguments, message in (
        ((None, FIRST_ORDER[:1]), "K >= 2"),
        ((None, FIRST_ORDER, -1.0), "kl_weight > 0"),
        ((None, FIRST_ORDER, 1.0, torch.diag(-FIRST_ORDER)), "positive semi-definite"),
    ):
        with pytest.raises(ValueError, match=message):
            mixture_model(*arguments)
