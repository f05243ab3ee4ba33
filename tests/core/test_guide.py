"""The guide under Pyro's own objectives; the start and the reach of its networks."""

from __future__ import annotations

import math
from pathlib import Path

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
from scipy.stats import beta
from tiny import counts_model
from torch import Tensor

from bydore_pyro.core.guide import MixtureGuide
from bydore_pyro.core.model import mixture_model
from bydore_pyro.core.network import FeatureNetwork, FreeConcentrations, PriorNetwork

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


pytestmark = pytest.mark.usefixtures("_own_store")


@pytest.mark.parametrize(("objective", "error"), [(Trace_ELBO, 1e-2), (TraceMeanField_ELBO, 0.4)])
def test_stock_objectives_give_the_evidence_of_an_exact_guide(
    objective: type[ELBO], error: float
) -> None:
    """The second estimates the divergence from draws of its own."""
    elbo = objective(num_particles=64, vectorize_particles=True, max_plate_nesting=0)
    found = -elbo.loss(counts_model, exact_guide(), COUNTS)
    assert found == pytest.approx(LOG_EVIDENCE, abs=error)


def test_importance_weights_of_an_exact_guide_are_equal() -> None:
    guide = exact_guide()
    importance = Importance(counts_model, guide, num_samples=50).run(COUNTS)
    assert importance.get_log_normalizer().item() == pytest.approx(LOG_EVIDENCE, abs=1e-2)
    assert importance.get_ESS().item() == pytest.approx(50, rel=0.01)
    weighed = WeighedPredictive(counts_model, guide=guide, num_samples=50, parallel=True)(COUNTS)
    assert weighed.log_weights.std().item() < 0.05


def test_models_without_arguments_and_with_keywords() -> None:
    """Also beside another guide, in Pyro's list of them."""
    elbo = Trace_ELBO(num_particles=64, vectorize_particles=True, max_plate_nesting=0)
    found = -elbo.loss(counts_model, exact_guide(), counts=COUNTS)
    assert found == pytest.approx(LOG_EVIDENCE, abs=1e-2)
    autoguide, guide = listed()
    assert elbo(two_sites, autoguide)().isfinite()
    assert set(autoguide()) == {"x", "shares"}
    before = guide.network.log_mean.detach().clone()
    SVI(two_sites, autoguide, ClippedAdam({"lr": 0.1}), elbo).step()
    assert not torch.equal(before, guide.network.log_mean)


def test_reading_writes_nothing_and_a_call_takes_what_is_stored() -> None:
    """As Pyro's own modules do: two guides of one name share what the store has."""
    store = pyro.get_param_store()
    guides = [MixtureGuide(FreeConcentrations(3).double(), name="shares") for _ in range(3)]
    flat = guides[1].posterior(COUNTS).mean.detach()
    guides[0].quantiles([0.5], COUNTS)
    guides[0].median(COUNTS)
    assert list(store) == []
    objective = Trace_ELBO(num_particles=8, vectorize_particles=True, max_plate_nesting=0)
    svi = SVI(counts_model, guides[0], ClippedAdam({"lr": 0.1}), objective)
    for _ in range(60):
        svi.step(COUNTS)
    first = guides[0].posterior(COUNTS).mean.detach()
    torch.testing.assert_close(first, Dirichlet(1 + COUNTS).mean, atol=0.08, rtol=0)
    torch.testing.assert_close(guides[1].posterior(COUNTS).mean.detach(), flat)
    guides[1](COUNTS)
    torch.testing.assert_close(guides[1].posterior(COUNTS).mean.detach(), first)
    before = store["shares.network.log_mean"].detach().clone()
    start = torch.full((3,), 50.0).double()
    guides[2].network.start_at(start, start / torch.tensor([1.0, 2.0, 3.0]))
    guides[2](COUNTS)
    assert not torch.equal(store["shares.network.log_mean"], before)
    expected = torch.tensor([1.0, 2.0, 3.0]).double() / 6
    torch.testing.assert_close(guides[2].posterior().mean, expected, atol=0.01, rtol=0)
    other = MixtureGuide(FreeConcentrations(4), name="shares")
    with pytest.raises(ValueError, match=r"of shape \(4,\), actual \(3,\).*clear_param_store"):
        other()


def test_frozen_parameters_stay_frozen() -> None:
    network = FeatureNetwork(3, 3).double()
    first = next(m for m in network.modules() if isinstance(m, torch.nn.Linear))
    first.requires_grad_(False)
    frozen = first.weight.clone()
    guide = MixtureGuide(network, name="shares")
    moving = [value.clone() for value in network.parameters()]
    SVI(counts_model, guide, ClippedAdam({"lr": 0.1}), Trace_ELBO()).step(COUNTS)
    assert torch.equal(first.weight, frozen)
    assert any(not torch.equal(x, y) for x, y in zip(moving, network.parameters(), strict=True))


def test_a_fit_that_diverges_says_what_to_do() -> None:
    guide = MixtureGuide(FreeConcentrations(3), name="shares")
    for away in (50.0, math.nan):
        torch.nn.init.constant_(guide.network.log_mean, away)
        with pytest.raises(ValueError, match="lower its learning rate"):
            guide.posterior()


def two_sites(counts: Tensor = COUNTS) -> None:
    pyro.sample("x", Normal(0.0, 1.0))
    counts_model(counts)


def listed() -> tuple[AutoGuideList, MixtureGuide]:
    """Pyro's guide of one site and ours of the other."""
    guide, autoguide = (
        MixtureGuide(FreeConcentrations(3).double(), name="shares"),
        AutoGuideList(two_sites),
    )
    autoguide.append(AutoNormal(poutine.block(two_sites, hide=["shares"])))
    autoguide.append(guide)
    return autoguide, guide


@pytest.mark.parametrize("inside", [False, True])
def test_pyros_ways_of_saving_bring_a_guide_back(inside: bool, tmp_path: Path) -> None:
    """Alone and in a list: store and `state_dict`, before the first call and after it."""

    def new() -> tuple[torch.nn.Module, MixtureGuide]:
        made = listed() if inside else (exact_guide(),) * 2
        return made[0], made[1]

    whole, guide = new()
    whole()
    with torch.no_grad():
        guide.network.log_mean.copy_(torch.tensor([2.0, 1.0, 0.0]))
    expected, store = guide.posterior().mean.detach(), pyro.get_param_store()
    prefix = "AutoGuideList.1" if inside else "shares"
    assert {f"{prefix}.network.{name}" for name in ("log_mean", "log_rate")} <= set(store)
    store.save(tmp_path / "store")
    state = {name: value.clone() for name, value in whole.state_dict().items()}

    for called in (False, True):
        store.clear()
        whole, guide = new()
        if called:
            whole()
        store.load(tmp_path / "store")
        whole()
        torch.testing.assert_close(guide.posterior().mean, expected)
    with torch.no_grad():
        guide.network.log_mean.zero_()
    whole.load_state_dict(state)
    torch.testing.assert_close(guide.posterior().mean, expected)
    other = new()[1]  # the state stands, whatever the store holds
    other.load_state_dict(exact_guide().state_dict())
    torch.testing.assert_close(
        other.posterior().mean, Dirichlet(1 + COUNTS).mean, atol=1e-4, rtol=0
    )


def many(counts: Tensor) -> None:
    """Shares for every row; a third of the rows at a time."""
    pyro.sample("x", Normal(0.0, 1.0))
    with pyro.plate("documents", len(counts), subsample_size=len(counts) // 3, dim=-1) as index:
        counts_model(counts[index])


@pytest.mark.parametrize(
    "network", [PriorNetwork(3), FeatureNetwork(3, 3), FreeConcentrations(3, batch_shape=(6,))]
)
def test_all_ways_into_a_plate(network: torch.nn.Module) -> None:
    """Its own plate, a list's, and that of a list in which it stands itself; all subsample."""
    counts = COUNTS.repeat(6, 1)
    guide = MixtureGuide(network.double(), name="shares")
    inside, through = AutoGuideList(many), AutoGuideList(many)

    def alone(counts: Tensor) -> None:
        pyro.sample("x", Normal(0.0, 1.0))
        with pyro.plate("documents", 6, subsample_size=2, dim=-1) as index:
            guide(counts[index])

    def by_the_list(counts: Tensor) -> dict[str, Tensor]:
        with through.plates["documents"] as index:
            return guide(counts[index])

    for each in (inside, through):
        each.append(AutoNormal(poutine.block(many, hide=["shares"])))
    through.append(by_the_list)
    inside.append(MixtureGuide(network, name="shares"))
    elbo = Trace_ELBO(num_particles=2, vectorize_particles=True, max_plate_nesting=1)
    for way in (alone, inside, through):
        before = [value.clone() for value in network.parameters()]
        assert math.isfinite(SVI(many, way, ClippedAdam({"lr": 0.1}), elbo).step(counts))
        assert any(not torch.equal(x, y) for x, y in zip(before, network.parameters(), strict=True))
    assert inside.median(counts)["shares"].shape == (6, 3)


def test_one_posterior_for_a_whole_plate_is_refused() -> None:
    guide = MixtureGuide(FreeConcentrations(4), name="shares")
    with pyro.plate("groups", 5):
        with pytest.raises(ValueError, match=r"each of the 5 in the plate 'groups'.*batch_shape"):
            guide()
        shared = MixtureGuide(FreeConcentrations(4, batch_shape=(1,)), name="other")
        assert shared()["other"].shape == (5, 4)
    with pyro.plate("_of_draws", 7):
        assert guide()["shares"].shape == (7, 4)


def test_medians_and_quantiles() -> None:
    """Of the exact posterior's marginals, Beta distributions, by SciPy; of the scale."""
    guide = exact_guide()
    found = guide.quantiles([0.1, 0.5, 0.9], COUNTS)["shares"]
    a = (1 + COUNTS).numpy()
    for row, at in zip(found, (0.1, 0.5, 0.9), strict=True):
        expected = torch.from_numpy(beta.ppf(at, a, a.sum() - a))
        torch.testing.assert_close(row, expected, atol=0.008, rtol=0)
    assert torch.equal(guide.median(COUNTS)["shares"], found[1])
    scaled = MixtureGuide(FreeConcentrations(3), scale=True)
    assert scaled.median()["scale"].item() == pytest.approx(1)
    autoguide, _ = listed()
    with pyro.get_param_store().scope():
        autoguide()
        assert set(autoguide.quantiles([0.5])) == {"x", "shares"}


SIGNALS = torch.tensor([2.0, 3.0, 2.5], dtype=torch.float64)
CURVED = gaussian_evidence(3, 0.2)


def test_the_scale_of_a_guide() -> None:
    guide = MixtureGuide(PriorNetwork(3).double(), scale=True)
    q = guide.scale_posterior()
    assert (q.mean.item(), q.stddev.item()) == pytest.approx((1, 0.1), abs=0.01)
    trace = poutine.trace(guide).get_trace(SIGNALS)
    assert set(trace.stochastic_nodes) == {"weights", "scale"}
    free = MixtureGuide(FreeConcentrations(3))
    assert free.posterior(SIGNALS).mean.dtype == torch.float64, "the wider of network and signals"
    without = poutine.trace(free).get_trace(SIGNALS)
    assert without.stochastic_nodes == ["weights"]


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
