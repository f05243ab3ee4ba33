"""The guide under Pyro's own objectives; the start and the reach of its networks."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pyro
import pytest
import torch
from gaussian_evidence import gaussian_evidence
from pyro import poutine
from pyro.distributions import Dirichlet, Normal
from pyro.infer import (
    ELBO,
    SVI,
    Importance,
    Predictive,
    Trace_ELBO,
    TraceMeanField_ELBO,
    WeighedPredictive,
)
from pyro.infer.autoguide import AutoGuideList, AutoNormal
from pyro.infer.importance import vectorized_importance_weights
from pyro.optim import ClippedAdam
from tiny import counts_model
from torch import Tensor

from bydore_pyro.core.guide import MixtureGuide
from bydore_pyro.core.model import mixture_model
from bydore_pyro.core.network import FreeConcentrations, PriorNetwork

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

    def amortised(counts: Tensor) -> dict[str, Tensor]:
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
def test_models_without_arguments_and_with_keywords() -> None:
    """Also beside another guide, in Pyro's list of them."""

    def model(counts: Tensor = COUNTS) -> None:
        pyro.sample("x", Normal(0.0, 1.0))
        counts_model(counts)

    guide, autoguide = exact_guide(), AutoGuideList(model)
    autoguide.append(AutoNormal(poutine.block(model, hide=["shares"])))
    autoguide.append(guide)
    elbo = Trace_ELBO(num_particles=64, vectorize_particles=True, max_plate_nesting=0)
    assert -elbo.loss(counts_model, guide, counts=COUNTS) == pytest.approx(LOG_EVIDENCE, abs=1e-2)
    assert elbo(model, autoguide)().isfinite()
    assert set(autoguide()) == {"x", "shares"}
    before = guide.posterior().mean.detach()
    SVI(model, autoguide, ClippedAdam({"lr": 0.1}), elbo).step()
    assert not torch.equal(before, guide.posterior().mean)


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


SIGNALS = torch.tensor([2.0, 3.0, 2.5], dtype=torch.float64)
CURVED = gaussian_evidence(3, 0.2)


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
    with pytest.raises(ValueError, match="scale=True"):
        MixtureGuide(FreeConcentrations(3)).scale_posterior()


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


@pytest.mark.parametrize("link", ["softplus", "exp"])
def test_every_domain_starts_at_the_same_point_whatever_the_signals(link: str) -> None:
    for value in PriorNetwork(5, link=link)(torch.tensor([3.0, 9.0, -1.0, 0.0, 2.0])):
        torch.testing.assert_close(value, torch.ones(5), atol=1e-4, rtol=0)


def test_domains_of_equal_loss_can_get_different_weights() -> None:
    torch.manual_seed(0)
    network = PriorNetwork(4)
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    target = torch.tensor([4.0, 1.0, 1.0, 0.5])
    for _ in range(150):
        a, _ = network(torch.full((4,), 2.0))
        optimizer.zero_grad()
        (a - target).square().sum().backward()
        optimizer.step()
    torch.testing.assert_close(a.detach(), target, atol=0.1, rtol=0)


def test_batches_are_mapped_one_by_one() -> None:
    torch.manual_seed(0)
    network = PriorNetwork(3)
    torch.nn.init.normal_(network.output.weight)
    signals = torch.randn(2, 5, 3)
    a, b = network(signals)
    assert a.shape == b.shape == (2, 5, 3)
    assert (a > 0).all()
    assert (b > 0).all()
    torch.testing.assert_close(network(signals[1, 2])[0], a[1, 2], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(network(7 * signals + 3)[0], a, atol=1e-3, rtol=1e-3)  # of any unit


def test_free_concentrations_ignore_the_signals() -> None:
    network = FreeConcentrations(3, initial_shape=2.5)
    a, b = network(torch.randn(3))
    torch.testing.assert_close(a, torch.full((3,), 2.5))
    torch.testing.assert_close(b, torch.full((3,), 2.5))
    (a[0] / b[0]).backward()
    assert network.log_mean.grad is not None
    assert network.log_mean.grad[0] == pytest.approx(1)  # d log(a / b) at a / b = 1
    with pytest.raises(ValueError, match="num_domains >= 2"):
        FreeConcentrations(1)


def test_bad_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="num_domains >= 2"):
        PriorNetwork(1)
    for signals, actual in ((torch.ones(4), r"\(4,\)"), (None, "None")):
        with pytest.raises(ValueError, match=rf"signals \(\.\.\., 3\), actual {actual}"):
            PriorNetwork(3)(signals)
    with pytest.raises(ValueError, match=r"nn\.Module, actual 'x'"):
        MixtureGuide("x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="actual one tensor"):
        MixtureGuide(torch.nn.Linear(2, 2)).posterior(torch.ones(2, 2))
    with pytest.raises(ValueError, match="'softplus' or 'exp'"):
        PriorNetwork(3, link="log")  # type: ignore[arg-type]
    for shape in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="finite initial_shape > 0"):
            FreeConcentrations(3, initial_shape=shape)


@pytest.mark.parametrize("link", ["softplus", "exp"])
def test_a_network_starts_where_it_is_told_to(link: str) -> None:
    torch.manual_seed(0)
    for network in (PriorNetwork(3, link=link), FreeConcentrations(3)):
        signals = torch.tensor([1.0, 2.0, 4.0])
        if isinstance(network, PriorNetwork):
            torch.nn.init.normal_(network.output.weight, std=0.1)
        a, b = torch.tensor([0.5, 30.0, 400.0]), torch.tensor([0.02, 1.0, 50.0])
        network.start_at(signals, a, b)
        for value, expected in zip(network(signals), (a, b), strict=True):
            torch.testing.assert_close(value.detach(), expected, rtol=1e-3, atol=0)
        moved = network(signals.flip(0))[0]
        assert torch.allclose(moved, a, rtol=1e-3) == isinstance(network, FreeConcentrations)
