"""The model's evidence and prior, its expectation, the sites that it shares with a guide."""

from __future__ import annotations

import math

import pyro
import pytest
import torch
from gaussian_evidence import gaussian_evidence
from pyro import poutine
from pyro.distributions import Dirichlet, LogNormal, Multinomial, Normal
from pyro.infer import MCMC, NUTS
from torch import Tensor

from bydore_pyro.core.distribution import GammaDirichlet
from bydore_pyro.core.guide import MixtureGuide
from bydore_pyro.core.model import (
    expected_evidence,
    mixture_model,
    paired_sites,
    require_precision,
)
from bydore_pyro.core.network import FreeConcentrations

SIGNALS = torch.tensor([2.0, 3.0, 2.5], dtype=torch.float64)
LEVEL, FIRST_ORDER = torch.full((4,), 2.0), torch.tensor([0.03, -0.01, 0.0, 0.02])
SECOND_ORDER = (LEVEL, FIRST_ORDER, 1.0, torch.eye(4))
BETA = torch.tensor([1.5, 0.8, 1.0, 2.0])
H, PRECISION = gaussian_evidence(4, 0.2, alike=1)


@pytest.fixture(autouse=True)
def _fresh_store() -> None:
    pyro.clear_param_store()
    pyro.set_rng_seed(0)


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
    with pytest.raises(ValueError, match="K >= 2"):
        mixture_model(SIGNALS, linear[:1])


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


def shares_model(signals: Tensor, linear: Tensor) -> None:
    pyro.sample("shares", Dirichlet(torch.ones_like(linear)))


def test_the_weights_are_found_whatever_their_name() -> None:
    def plain_guide(*_: object) -> None:
        pyro.sample("shares", Dirichlet(BETA))

    def guide_with_another_site(*_: object) -> None:
        with pyro.plate("data", 3):
            pyro.sample("x", Normal(0.0, 1.0))
        plain_guide()

    for guide in (plain_guide, guide_with_another_site):
        (q, p), scale = paired_sites(shares_model, guide, LEVEL, FIRST_ORDER)
        assert torch.equal(q.concentration, BETA)
        assert torch.equal(p.concentration, torch.ones(4))
        assert scale is None
    named = MixtureGuide(FreeConcentrations(4), name="shares")
    (q, _), _ = paired_sites(shares_model, named, LEVEL, FIRST_ORDER)
    assert torch.equal(q.mean, named.posterior(LEVEL).mean)


def test_a_guide_that_does_not_match_is_refused() -> None:
    def no_simplex(*_: object) -> None:
        pyro.sample("x", Normal(0.0, 1.0))

    def two_simplexes(*_: object) -> None:
        pyro.sample("one", Dirichlet(BETA))
        pyro.sample("two", Dirichlet(BETA))

    network = FreeConcentrations(4)
    for guide, actual in ((no_simplex, r"\[\]"), (two_simplexes, r"\['one', 'two'\]")):
        with pytest.raises(ValueError, match=f"one sample site on the simplex, actual {actual}"):
            paired_sites(guide, guide, LEVEL, FIRST_ORDER)
    weights, both, mix = r"\['weights'\]", r"\['weights', 'scale'\]", r"\['mix'\]"
    for guide, given, expected, actual in (
        (MixtureGuide(network), SECOND_ORDER, weights, both),
        (MixtureGuide(network, scale=True), SECOND_ORDER[:3], both, weights),
        (MixtureGuide(network, name="mix"), SECOND_ORDER[:3], mix, weights),
    ):
        with pytest.raises(ValueError, match=f"latent sites {expected}, actual {actual}"):
            paired_sites(mixture_model, guide, *given)


def test_a_model_of_more_than_priors_is_refused() -> None:
    def counts_model(signals: Tensor, linear: Tensor) -> None:
        shares = pyro.sample("shares", Dirichlet(torch.ones_like(linear)))
        pyro.sample("counts", Multinomial(20, shares), obs=torch.tensor([20.0, 0, 0, 0]))

    def factor_model(signals: Tensor, linear: Tensor) -> None:
        shares_model(signals, linear)
        pyro.factor("mine", linear.sum())

    def latent_model(signals: Tensor, linear: Tensor) -> None:
        shares_model(signals, linear)
        pyro.sample("x", Normal(0.0, 1.0))

    guide = MixtureGuide(FreeConcentrations(4), name="shares")
    for model, message in (
        (counts_model, r"pyro\.factor 'validation', actual site 'counts'"),
        (factor_model, r"pyro\.factor 'validation', actual site 'mine'"),
        (latent_model, r"latent sites \['shares'\], actual \['shares', 'x'\]"),
    ):
        with pytest.raises(ValueError, match=message):
            paired_sites(model, guide, LEVEL, FIRST_ORDER)
