"""The guide and the sites that it shares with a model."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pyro
import pytest
import torch
from gaussian_evidence import gaussian_evidence
from pyro import poutine
from pyro.distributions import Dirichlet, Multinomial, Normal
from pyro.infer import (
    ELBO,
    SVI,
    Importance,
    Predictive,
    Trace_ELBO,
    TraceMeanField_ELBO,
    WeighedPredictive,
)
from pyro.infer.importance import vectorized_importance_weights
from pyro.optim import ClippedAdam
from tiny import counts_model
from torch import Tensor

from bydore_pyro.core.guide import MixtureGuide, paired_sites
from bydore_pyro.core.model import mixture_model
from bydore_pyro.core.prior_net import FreeConcentrations, PriorNetwork


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


COUNTS = torch.tensor([12.0, 5.0, 3.0], dtype=torch.float64)


def exact_guide() -> MixtureGuide:
    """Points as concentrations: the guide is then the exact posterior Dirichlet(1 + counts)."""
    network = FreeConcentrations(3).double()
    with torch.no_grad():
        network.log_mean.copy_((1 + COUNTS).log())
        network.log_rate.fill_(12.0)
    return MixtureGuide(network, name="shares")


# log of the evidence: int prod_k w_k ** n_k Dirichlet(w | 1) dw
LOG_EVIDENCE = float(
    torch.lgamma(1 + COUNTS).sum() - torch.lgamma(3 + COUNTS.sum()) + torch.tensor(2.0).log()
)


@pytest.fixture
def _store() -> Iterator[None]:
    with pyro.get_param_store().scope():
        pyro.set_rng_seed(0)
        yield


@pytest.mark.usefixtures("_store")
@pytest.mark.parametrize("objective", [Trace_ELBO, TraceMeanField_ELBO])
def test_stock_objectives_give_the_evidence_of_an_exact_guide(objective: type[ELBO]) -> None:
    elbo = objective(num_particles=64, vectorize_particles=True, max_plate_nesting=0)
    assert -elbo.loss(counts_model, exact_guide(), COUNTS) == pytest.approx(LOG_EVIDENCE, abs=1e-2)


@pytest.mark.usefixtures("_store")
def test_stock_objective_learns_the_exact_posterior() -> None:
    guide = MixtureGuide(FreeConcentrations(3, initial_shape=5.0).double(), name="shares")
    optimizer = ClippedAdam({"lr": 0.1, "lrd": 0.02 ** (1 / 250)})
    objective = Trace_ELBO(num_particles=8, vectorize_particles=True, max_plate_nesting=0)
    svi = SVI(counts_model, guide, optimizer, objective)
    for _ in range(250):
        svi.step(COUNTS)
    q, exact = guide.posterior(COUNTS), Dirichlet(1 + COUNTS)
    torch.testing.assert_close(q.mean, exact.mean, atol=0.02, rtol=0)
    torch.testing.assert_close(q.stddev, exact.stddev, atol=0.03, rtol=0)
    assert q.kl_to_dirichlet(1 + COUNTS, 2000).item() < 0.2


@pytest.mark.usefixtures("_store")
def test_predictive_draws_from_the_guide() -> None:
    guide = exact_guide()
    for parallel in (False, True):
        predictive = Predictive(counts_model, guide=guide, num_samples=400, parallel=parallel)
        shares = predictive(COUNTS)["shares"].reshape(400, 3)
        torch.testing.assert_close(shares.mean(0), Dirichlet(1 + COUNTS).mean, atol=0.03, rtol=0)


@pytest.mark.usefixtures("_store")
def test_importance_weights_of_an_exact_guide_are_equal() -> None:
    guide = exact_guide()
    importance = Importance(counts_model, guide, num_samples=50).run(COUNTS)
    assert importance.get_log_normalizer().item() == pytest.approx(LOG_EVIDENCE, abs=1e-2)
    assert importance.get_ESS().item() == pytest.approx(50, rel=0.01)
    weighed = WeighedPredictive(counts_model, guide=guide, num_samples=50, parallel=True)(COUNTS)
    assert weighed.log_weights.std().item() < 0.05


@pytest.mark.usefixtures("_store")
def test_guide_inside_a_plate() -> None:
    network = PriorNetwork(3).double()
    guide = MixtureGuide(network, name="shares")
    counts = torch.stack([COUNTS, COUNTS.flip(0)])

    def model(counts: Tensor) -> None:
        with pyro.plate("documents", len(counts)):
            counts_model(counts)

    def amortised(counts: Tensor) -> Tensor:
        with pyro.plate("documents", len(counts)):
            return guide(counts)

    trace = poutine.trace(amortised).get_trace(counts)
    trace.compute_log_prob()
    assert trace.nodes["shares"]["fn"].batch_shape == (2,)
    assert trace.nodes["shares"]["log_prob"].shape == (2,)
    objective = Trace_ELBO(num_particles=2, vectorize_particles=True, max_plate_nesting=1)
    before = guide.posterior(counts).mean.detach()
    SVI(model, amortised, ClippedAdam({"lr": 0.01}), objective).step(counts)
    assert not torch.equal(before, guide.posterior(counts).mean)


@pytest.mark.usefixtures("_store")
def test_two_sites_have_parameters_of_their_own() -> None:
    first = MixtureGuide(FreeConcentrations(3).double(), name="x")
    second = MixtureGuide(FreeConcentrations(3).double(), name="y")

    def model() -> None:
        for name, counts in (("x", COUNTS), ("y", COUNTS.flip(0))):
            shares = pyro.sample(name, Dirichlet(torch.ones_like(counts)))
            pyro.factor(f"counts_{name}", (counts * shares.log()).sum(-1))

    def guide() -> None:
        first(COUNTS)
        second(COUNTS)

    objective = Trace_ELBO(num_particles=8, vectorize_particles=True, max_plate_nesting=0)
    svi = SVI(model, guide, ClippedAdam({"lr": 0.1}), objective)
    for _ in range(30):
        svi.step()
    assert first.posterior(COUNTS).mean.argmax() == 0
    assert second.posterior(COUNTS).mean.argmax() == 2


@pytest.mark.usefixtures("_store")
def test_a_second_guide_of_one_name_trains() -> None:
    """In one parameter store, as where a notebook's cell is run twice; also in turns."""
    guides = [MixtureGuide(FreeConcentrations(3).double(), name="shares") for _ in range(2)]
    runs = []
    for guide in guides:
        objective = Trace_ELBO(num_particles=8, vectorize_particles=True, max_plate_nesting=0)
        runs.append(SVI(counts_model, guide, ClippedAdam({"lr": 0.1}), objective))
    exact = Dirichlet(1 + COUNTS).mean
    for svi, guide in zip(runs, guides, strict=True):
        for _ in range(60):
            svi.step(COUNTS)
        torch.testing.assert_close(guide.posterior(COUNTS).mean, exact, atol=0.08, rtol=0)
    second = guides[1].posterior(COUNTS).mean.detach()
    first = guides[0].posterior(COUNTS).mean.detach()
    runs[0].step(COUNTS)
    assert not torch.equal(guides[0].posterior(COUNTS).mean, first)
    assert torch.equal(guides[1].posterior(COUNTS).mean, second)


@pytest.mark.usefixtures("_store")
def test_a_second_guide_trains_its_scale_too() -> None:
    for _ in range(2):
        guide = MixtureGuide(PriorNetwork(3).double(), scale=True)
        before = {name: value.clone() for name, value in guide.named_parameters()}
        svi = SVI(mixture_model, guide, ClippedAdam({"lr": 0.01}), Trace_ELBO())
        svi.step(SIGNALS, CURVED[0], 1.0, CURVED[1])
        svi.step(SIGNALS, CURVED[0], 1.0, CURVED[1])
        for name, value in guide.named_parameters():
            assert not torch.equal(value, before[name]), name


@pytest.mark.usefixtures("_store")
@pytest.mark.parametrize("of_signals", [torch.float32, torch.float64])
@pytest.mark.parametrize("of_network", [torch.float32, torch.float64])
def test_signals_of_any_dtype_where_float64_is_torchs_default(
    of_signals: torch.dtype, of_network: torch.dtype
) -> None:
    torch.set_default_dtype(torch.float64)
    try:
        guide = MixtureGuide(PriorNetwork(3).to(of_network))
        arguments = (COUNTS.to(of_signals), torch.tensor([0.3, -0.1, 0.2], dtype=of_network))
        svi = SVI(mixture_model, guide, ClippedAdam({"lr": 0.01}), Trace_ELBO())
        assert math.isfinite(svi.step(*arguments))
    finally:
        torch.set_default_dtype(torch.float32)
    q = guide.posterior(arguments[0])
    assert q.mean.dtype == q.log_prob(q.sample()).dtype == of_network


SIGNALS = torch.tensor([2.0, 3.0, 2.5], dtype=torch.float64)
CURVED = gaussian_evidence(3, 0.2)


def test_model_states_evidence_of_the_second_order() -> None:
    linear, precision = CURVED
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
    with pytest.raises(ValueError, match=r"precision \(3, 3\), actual \(2, 3\)"):
        mixture_model(SIGNALS, linear, 1.0, precision[:2])


def test_the_scale_of_a_guide() -> None:
    guide = MixtureGuide(PriorNetwork(3).double(), scale=True)
    q = guide.scale_posterior()
    assert q.mean.item() == pytest.approx(1, abs=0.01)
    assert q.stddev.item() == pytest.approx(0.1, abs=0.01)
    assert q.mean.dtype == torch.float64
    assert set(dict(guide.named_parameters())) >= {"scale_loc", "scale_log_deviation"}
    trace = poutine.trace(guide).get_trace(SIGNALS)
    assert set(trace.stochastic_nodes) == {"weights", "scale"}
    without = poutine.trace(MixtureGuide(FreeConcentrations(3))).get_trace(SIGNALS)
    assert without.stochastic_nodes == ["weights"]
    assert MixtureGuide.for_domains(3, scale=True).has_scale
    with pytest.raises(ValueError, match="scale=True"):
        MixtureGuide.for_domains(3).scale_posterior()


@pytest.mark.usefixtures("_store")
def test_stock_inference_runs_on_evidence_of_the_second_order() -> None:
    """One evidence of the data, by importance sampling in a loop and at once, and by an ELBO."""
    linear, precision = CURVED
    arguments = (SIGNALS, linear, 1.0, precision)
    guide = MixtureGuide(FreeConcentrations(3, initial_shape=4.0).double(), scale=True)
    with torch.no_grad():
        guide.scale_log_deviation.fill_(-1.0)
    objective = Trace_ELBO(num_particles=16, vectorize_particles=True, max_plate_nesting=0)
    svi = SVI(mixture_model, guide, ClippedAdam({"lr": 0.05}), objective)
    for _ in range(150):
        svi.step(*arguments)
    elbo = -sum(svi.evaluate_loss(*arguments) for _ in range(20)) / 20
    log_weights, model_trace, _ = vectorized_importance_weights(
        mixture_model, guide, *arguments, num_samples=4000, max_plate_nesting=0
    )
    assert model_trace.nodes["weights"]["value"].shape == (4000, 3)
    assert model_trace.nodes["scale"]["value"].shape == (4000,)
    evidence = float(log_weights.detach().logsumexp(0)) - math.log(4000)
    in_a_loop = Importance(mixture_model, guide, num_samples=100).run(*arguments)
    assert in_a_loop.get_log_normalizer().item() == pytest.approx(evidence, abs=0.3)
    assert evidence - 1 < elbo < evidence + 0.05
    for parallel in (False, True):
        predictive = Predictive(mixture_model, guide=guide, num_samples=100, parallel=parallel)
        drawn = predictive(*arguments)
        mean = drawn["weights"].reshape(100, 3).mean(0)
        torch.testing.assert_close(mean, guide.posterior(SIGNALS).mean, atol=0.06, rtol=0)
        assert drawn["scale"].reshape(100).std() > 0


LEVEL, FIRST_ORDER = torch.full((4,), 2.0), torch.tensor([0.03, -0.01, 0.0, 0.02])
SECOND_ORDER = (LEVEL, FIRST_ORDER, 1.0, torch.eye(4))
BETA = torch.tensor([1.5, 0.8, 1.0, 2.0])


@pytest.fixture(autouse=True)
def _fresh_store() -> None:
    pyro.clear_param_store()
    pyro.set_rng_seed(0)


def shares_model(signals: Tensor, linear: Tensor) -> None:
    pyro.sample("shares", Dirichlet(torch.ones_like(linear)))


def test_the_weights_are_found_whatever_their_name() -> None:
    def plain_guide(*_: object) -> None:
        pyro.sample("shares", Dirichlet(BETA))

    def guide_with_another_site(*_: object) -> None:
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


def test_the_scale_is_paired_where_both_have_one() -> None:
    guide = MixtureGuide(FreeConcentrations(4), scale=True)
    _, scale = paired_sites(mixture_model, guide, *SECOND_ORDER)
    assert scale is not None
    q, p = scale
    assert q.scale.item() == pytest.approx(0.1)
    assert p.scale.item() == 1.0


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
    with pytest.raises(ValueError, match="in the model alone"):
        paired_sites(mixture_model, MixtureGuide(network), *SECOND_ORDER)
    with pytest.raises(ValueError, match="in the guide alone"):
        paired_sites(mixture_model, MixtureGuide(network, scale=True), *SECOND_ORDER[:3])


def test_a_model_of_data_is_refused() -> None:
    def counts_model(signals: Tensor, linear: Tensor) -> None:
        shares = pyro.sample("shares", Dirichlet(torch.ones_like(linear)))
        pyro.sample("counts", Multinomial(20, shares), obs=torch.tensor([20.0, 0, 0, 0]))

    guide = MixtureGuide(FreeConcentrations(4), name="shares")
    with pytest.raises(ValueError, match=r"pyro\.factor, actual observed site 'counts'"):
        paired_sites(counts_model, guide, LEVEL, FIRST_ORDER)
