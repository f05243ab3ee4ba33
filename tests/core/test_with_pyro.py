"""Pyro's own inference takes the distribution and the guide: each part of it, by a known answer.

The lists are complete: a test fails where Pyro has an objective or an automatic guide that does not
stand in one.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import pyro
import pytest
import torch
from pyro import infer, poutine
from pyro.contrib.gp.kernels import RBF
from pyro.distributions import Categorical, Dirichlet, Normal
from pyro.distributions.transforms import affine_autoregressive
from pyro.infer import autoguide, reparam
from pyro.infer.mcmc import StreamingMCMC
from pyro.ops.stats import effective_sample_size
from pyro.optim import Adam, ClippedAdam
from tiny import counts_model
from torch import Tensor

from bydore_pyro import FreeConcentrations, GammaDirichlet, MixtureGuide
from bydore_pyro.core import FeatureNetwork

pytestmark = pytest.mark.usefixtures("_own_store", "_float64")

COUNTS = torch.tensor([12.0, 5.0, 3.0], dtype=torch.float64)
SHAPES = torch.tensor([3.0, 4.0, 5.0], dtype=torch.float64)
RATES = torch.tensor([1.0, 2.0, 1.0], dtype=torch.float64)
# log of int prod_k w_k ** n_k Dirichlet(w | 1) dw, of `counts_model`
LOG_EVIDENCE = float(
    torch.lgamma(1 + COUNTS).sum() - torch.lgamma(3 + COUNTS.sum()) + torch.tensor(2.0).log()
)


@pytest.fixture
def _float64() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def exact_guide() -> MixtureGuide:
    """Points as concentrations: the guide is then the exact posterior Dirichlet(1 + counts)."""
    network = FreeConcentrations(3)
    with torch.no_grad():
        network.log_mean.copy_((1 + COUNTS).log())
        network.log_rate.fill_(12.0)
    return MixtureGuide(network, name="shares")


def new_guide() -> MixtureGuide:
    return MixtureGuide(FreeConcentrations(3), name="shares")


def of_prior(counts: Tensor = COUNTS) -> Tensor:
    """The distribution as a prior."""
    shares = pyro.sample("shares", GammaDirichlet(SHAPES, RATES))
    pyro.factor("counts", (counts * shares.log()).sum(-1))
    return shares


def observed(y: Tensor | None = None) -> Tensor:
    """The same with an observation that can be drawn."""
    shares = pyro.sample("shares", GammaDirichlet(SHAPES, RATES))
    noisy = Normal(shares, 0.1).to_event(1)
    return pyro.sample("y", noisy, obs=torch.tensor([0.5, 0.3, 0.2]) if y is None else y)


@pytest.fixture(scope="module")
def truth() -> tuple[Tensor, Tensor]:
    """Mean and standard deviations of `of_prior`, by weighing 200,000 draws of the prior."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        w = GammaDirichlet(SHAPES, RATES).sample(torch.Size((200_000,)))
    weight = (COUNTS * w.log()).sum(-1).softmax(0)
    mean = weight @ w
    return mean, (weight @ (w - mean).square()).sqrt()


def require_mean(drawn: Tensor, truth: tuple[Tensor, Tensor], effective: float) -> None:
    """Checks a mean of draws within four standard errors, and the spread within a half."""
    mean, sd = truth
    assert bool(((drawn.mean(0) - mean).abs() < 4 * sd / math.sqrt(effective)).all())
    assert bool(((drawn.std(0) / sd).log().abs() < math.log(1.5)).all())


# Pyro's objectives that are ELBOs, with what each needs.
AT_ONCE = {"vectorize_particles": True, "max_plate_nesting": 0}
OBJECTIVES: dict[str, dict[str, Any]] = {
    "Trace_ELBO": {},
    "TraceGraph_ELBO": {},
    "TraceMeanField_ELBO": {},
    "TraceEnum_ELBO": {"strict_enumeration_warning": False},
    "TraceTMC_ELBO": {"strict_enumeration_warning": False},
    "RenyiELBO": {"alpha": 0.5},
    "ReweightedWakeSleep": {},
    "JitTrace_ELBO": {"ignore_jit_warnings": True},
    "JitTraceGraph_ELBO": {"ignore_jit_warnings": True},
    "JitTraceMeanField_ELBO": {"ignore_jit_warnings": True},
    "JitTraceEnum_ELBO": {"ignore_jit_warnings": True, "strict_enumeration_warning": False},
}
NOT_OF_THE_EVIDENCE = {"TraceTailAdaptive_ELBO", "Trace_MMD"}  # tested below


def test_every_objective_of_pyro_is_listed() -> None:
    found = {
        name
        for name in infer.__all__
        if inspect.isclass(kind := getattr(infer, name)) and issubclass(kind, infer.ELBO)
    }
    assert found - {"ELBO"} == {*OBJECTIVES, *NOT_OF_THE_EVIDENCE}


@pytest.mark.filterwarnings("ignore:.torch.jit.trace. is deprecated:DeprecationWarning")
@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_gives_the_evidence_of_an_exact_guide(name: str, at_once: bool) -> None:
    """Every draw of an exact guide gives the evidence; a step then moves the parameters."""
    particles = {"num_particles": 8, **AT_ONCE} if at_once else {"num_particles": 2}
    objective = getattr(infer, name)(**particles, **OBJECTIVES[name])
    guide = exact_guide()
    loss = objective.loss(counts_model, guide, COUNTS)
    loss = loss[0] if isinstance(loss, tuple) else loss  # the model's, of wake-sleep
    assert -float(loss) == pytest.approx(LOG_EVIDENCE, abs=1e-4)
    before = guide.network.log_mean.detach().clone()
    infer.SVI(counts_model, guide, ClippedAdam({"lr": 0.1}), objective).step(COUNTS)
    assert not torch.equal(before, guide.network.log_mean)


def tail_adaptive() -> Any:
    return infer.TraceTailAdaptive_ELBO(num_particles=8, **AT_ONCE)


def maximum_mean_discrepancy() -> Any:
    return infer.Trace_MMD(kernel={"shares": RBF(3)}, num_particles=8, **AT_ONCE)


def energy_distance() -> Any:
    return infer.EnergyDistance(num_particles=8, max_plate_nesting=1)


@pytest.mark.parametrize("objective", [tail_adaptive, maximum_mean_discrepancy, energy_distance])
def test_other_objectives_move_the_guide_towards_the_posterior(
    objective: Callable[[], Any], truth: tuple[Tensor, Tensor]
) -> None:
    """Not the evidence, so the answer is another: the mean comes nearer to what was observed."""
    model = of_prior if objective is tail_adaptive else observed
    target = truth[0] if objective is tail_adaptive else torch.tensor([0.5, 0.3, 0.2])
    guide = new_guide()
    before = float((guide.posterior().mean - target).norm().detach())
    svi = infer.SVI(model, guide, ClippedAdam({"lr": 0.05}), objective())
    for _ in range(40):
        svi.step()
    after = float((guide.posterior().mean - target).norm().detach())
    assert after < 0.8 * before


def test_a_discrete_site_is_summed_out_beside_the_guide() -> None:
    """By hand the sum is a Categorical of ``w @ emission``; without noise each site is known."""
    emission = 0.7 * torch.eye(3) + 0.1
    words = torch.tensor([0, 0, 1, 2, 0])

    def enumerated(emission: Tensor = emission) -> None:
        shares = pyro.sample("shares", GammaDirichlet(SHAPES, RATES))
        with pyro.plate("words", len(words)):
            topic = pyro.sample("topic", Categorical(shares), infer={"enumerate": "parallel"})
            pyro.sample("word", Categorical(emission[topic]), obs=words)

    def summed() -> None:
        shares = pyro.sample("shares", GammaDirichlet(SHAPES, RATES))
        with pyro.plate("words", len(words)):
            pyro.sample("word", Categorical(shares @ emission), obs=words)

    losses = []
    for objective, model in ((infer.TraceEnum_ELBO, enumerated), (infer.Trace_ELBO, summed)):
        pyro.set_rng_seed(1)
        losses.append(objective(max_plate_nesting=1).loss(model, new_guide()))
    assert losses[0] == pytest.approx(losses[1], abs=1e-9)
    drawn = poutine.trace(new_guide()).get_trace()
    known = infer.infer_discrete(poutine.replay(enumerated, drawn), first_available_dim=-2)
    found = poutine.trace(known).get_trace(torch.eye(3)).nodes["topic"]["value"]
    assert torch.equal(found, words)


KERNELS: dict[str, tuple[dict[str, Any], int]] = {  # draws, half as many for the warmup
    "NUTS": ({}, 100),
    "HMC": ({"step_size": 0.3, "num_steps": 5}, 200),
    "RandomWalkKernel": ({}, 1200),
}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_chains_draw_from_the_posterior(kernel: str, truth: tuple[Tensor, Tensor]) -> None:
    arguments, draws = KERNELS[kernel]
    made = getattr(infer, kernel)(of_prior, **arguments)
    mcmc = infer.MCMC(made, num_samples=draws, warmup_steps=draws // 2, disable_progbar=True)
    mcmc.run()
    drawn = mcmc.get_samples()["shares"]
    effective = float(effective_sample_size(drawn[None], 0, 1).min())
    assert effective > 20
    require_mean(drawn, truth, effective)


@pytest.mark.slow
def test_a_streaming_chain_keeps_its_moments_alone(truth: tuple[Tensor, Tensor]) -> None:
    mcmc = StreamingMCMC(
        infer.NUTS(of_prior), num_samples=100, warmup_steps=50, disable_progbar=True
    )
    mcmc.run()
    found = mcmc.get_statistics()[(0, "shares")]
    assert bool(((found["mean"] - truth[0]).abs() < truth[1]).all())


@pytest.mark.parametrize("kernel", ["RBFSteinKernel", "IMQSteinKernel"])
def test_stein_particles_move_to_the_posterior(kernel: str, truth: tuple[Tensor, Tensor]) -> None:
    svgd = infer.SVGD(of_prior, getattr(infer, kernel)(), Adam({"lr": 0.05}), 20, 0)
    for _ in range(100):
        svgd.step()
    mean = svgd.get_named_particles()["shares"].detach().mean(0)
    assert bool(((mean - truth[0]).abs() < truth[1]).all())


AUTOMATIC: dict[str, Callable[[Any], Any]] = {
    name: getattr(autoguide, name)
    for name in (
        *("AutoDelta", "AutoNormal", "AutoDiagonalNormal", "AutoMultivariateNormal"),
        *("AutoLowRankMultivariateNormal", "AutoLaplaceApproximation", "AutoIAFNormal"),
        *("AutoGaussian", "AutoStructured", "AutoNormalMessenger"),
        *("AutoHierarchicalNormalMessenger", "AutoRegressiveMessenger"),
    )
}
AUTOMATIC["AutoNormalizingFlow"] = lambda model: autoguide.AutoNormalizingFlow(
    model, affine_autoregressive
)
ABSTRACT = {"AutoGuide", "AutoContinuous", "AutoMessenger", "AutoCallable", "AutoGuideList"}


def test_every_automatic_guide_of_pyro_is_listed() -> None:
    found = {name for name in autoguide.__all__ if inspect.isclass(getattr(autoguide, name))}
    assert found == {*AUTOMATIC, *ABSTRACT, "AutoDiscreteParallel"}


@pytest.mark.parametrize("name", AUTOMATIC)
def test_automatic_guides_take_the_distribution_as_a_prior(name: str) -> None:
    guide = AUTOMATIC[name](observed)
    svi = infer.SVI(observed, guide, ClippedAdam({"lr": 0.02}), infer.Trace_ELBO())
    assert all(math.isfinite(svi.step()) for _ in range(3))
    drawn = poutine.trace(guide).get_trace().nodes["shares"]["value"].detach()
    assert bool((drawn > 0).all())
    assert float(drawn.sum()) == pytest.approx(1)


def test_an_automatic_guide_of_discrete_sites_refuses_it() -> None:
    with pytest.raises(NotImplementedError, match='"shares" to be discrete'):
        autoguide.AutoDiscreteParallel(observed)()


def test_predictions_importance_and_their_resampling(truth: tuple[Tensor, Tensor]) -> None:
    """Of a guide that is the prior: all have to weigh it."""
    network = FreeConcentrations(3)
    network.start_at(SHAPES, RATES)
    guide = MixtureGuide(network, name="shares")
    prior = GammaDirichlet(SHAPES, RATES)
    parallel = infer.Predictive(of_prior, guide=guide, num_samples=500, parallel=True)()
    torch.testing.assert_close(parallel["shares"].mean(0), prior.mean, atol=0.03, rtol=0)
    run = infer.Importance(of_prior, guide, num_samples=100).run()
    drawn = infer.EmpiricalMarginal(run, "shares").sample(torch.Size((1000,)))
    effective = float(run.get_ESS())
    require_mean(drawn, truth, effective)
    weighed = infer.WeighedPredictive(of_prior, guide=guide, num_samples=300, parallel=True)
    resampler = infer.MHResampler(weighed)
    for _ in range(8):
        resampled = resampler()
    require_mean(resampled.samples["shares"], truth, effective)


def test_compiled_importance_sampling_learns_an_amortised_guide() -> None:
    """It gives the evidence of the observation: here by 200,000 draws of the prior."""
    y = torch.tensor([0.5, 0.3, 0.2])
    drawn = GammaDirichlet(SHAPES, RATES).sample(torch.Size((200_000,)))
    exact = Normal(drawn, 0.1).to_event(1).log_prob(y).exp().mean().log()
    network = MixtureGuide(FeatureNetwork(3, 3), name="shares")

    def model(observations: dict[str, Tensor]) -> None:
        observed(observations["y"])

    def guide(observations: dict[str, Tensor]) -> None:
        network(observations["y"])

    csis = infer.CSIS(model, guide, Adam({"lr": 1e-2}), num_inference_samples=100)
    for _ in range(3):
        csis.step(observations={"y": y})
    csis.run(observations={"y": y})
    assert float(csis.get_log_normalizer().detach()) == pytest.approx(float(exact), abs=0.3)


class Words:
    """Shares, and one word a step."""

    def init(self, state: dict[str, Any]) -> None:
        state["shares"] = pyro.sample("shares", GammaDirichlet(SHAPES, RATES))
        self.time = 0

    def step(self, state: dict[str, Any], word: Tensor) -> None:
        self.time += 1
        pyro.sample(f"word {self.time}", Categorical(state["shares"]), obs=word)


class SharesOnly:
    """The guide of `Words`."""

    def __init__(self, network: FreeConcentrations) -> None:
        self.guide = MixtureGuide(network, name="shares")

    def init(self, state: dict[str, Any]) -> None:
        self.guide()

    def step(self, state: dict[str, Any], word: Tensor) -> None:
        pass


def test_particles_of_a_filter_share_a_posterior_that_says_so(
    truth: tuple[Tensor, Tensor],
) -> None:
    """To a guide, the filter's particles are a plate like any other."""
    network = FreeConcentrations(3, batch_shape=(1,))
    network.start_at(SHAPES[None], RATES[None])
    words = torch.arange(3).repeat_interleave(COUNTS.long())
    smc = infer.SMCFilter(Words(), SharesOnly(network), 4000, max_plate_nesting=0)
    smc.init()
    for word in words:
        smc.step(word)
    found = smc.get_empirical()["shares"]
    assert bool(((found.mean - truth[0]).abs() < 0.2 * truth[1]).all())
    pyro.clear_param_store()
    wrong = infer.SMCFilter(Words(), SharesOnly(FreeConcentrations(3)), 10, max_plate_nesting=0)
    with pytest.raises(ValueError, match=r"each of the 10 in the plate 'particles'.*size 1 shares"):
        wrong.init()


def log_prob_of(program: Callable[[], Any]) -> float:
    return float(poutine.trace(program).get_trace().log_prob_sum().detach())


def in_a_plate() -> Tensor:
    with pyro.plate("rows", 4):
        return pyro.sample("shares", GammaDirichlet(SHAPES, RATES))


def test_handlers_do_to_it_what_they_do_to_any_distribution() -> None:
    q = GammaDirichlet(SHAPES, RATES)
    drawn = in_a_plate()
    fixed = poutine.condition(in_a_plate, {"shares": drawn})
    each = q.log_prob(drawn)
    assert log_prob_of(fixed) == pytest.approx(float(each.sum()))
    assert log_prob_of(poutine.scale(fixed, scale=0.3)) == pytest.approx(0.3 * float(each.sum()))
    rows = torch.tensor([True, False, False, True])
    masked = poutine.mask(fixed, mask=rows)
    assert log_prob_of(masked) == pytest.approx(float(each[rows].sum()))
    assert "shares" not in poutine.trace(poutine.block(fixed, hide=["shares"])).get_trace().nodes
    assert torch.equal(poutine.do(in_a_plate, {"shares": drawn})(), drawn)
    trace = poutine.trace(in_a_plate).get_trace()
    again = poutine.replay(in_a_plate, trace)
    assert torch.equal(again(), trace.nodes["shares"]["value"])
    assert not torch.equal(poutine.uncondition(fixed)(), drawn)
    assert torch.equal(poutine.seed(in_a_plate, 3)(), poutine.seed(in_a_plate, 3)())
    lifted = poutine.lift(lambda: pyro.param("p", drawn[0]), {"p": q})
    assert float(lifted().sum()) == pytest.approx(1)
    assert poutine.broadcast(in_a_plate)().shape == (4, 3)

    def twice() -> Tensor:
        return torch.stack([pyro.sample(name, q) for name in "ab"])

    first, second = poutine.equalize(twice, ["a", "b"])()
    assert torch.equal(first, second)
    chain = [pyro.sample(f"x{i}", q) for i in poutine.markov(range(3))]
    assert torch.stack(chain).shape == (3, 3)


def test_reparametrisations_that_fit_leave_the_joint_density_alone() -> None:
    """`NeuTra` and `Structured` sample by a guide; strategies for other families pass it over."""
    for strategy in (reparam.AutoReparam(), reparam.MinimalReparam()):
        changed = poutine.reparam(of_prior, config=strategy)
        pyro.set_rng_seed(2)
        found = log_prob_of(changed)
        pyro.set_rng_seed(2)
        assert found == pytest.approx(log_prob_of(of_prior))
    for kind, strategy in (
        (autoguide.AutoMultivariateNormal, reparam.NeuTraReparam),
        (autoguide.AutoStructured, reparam.StructuredReparam),
    ):
        guide = kind(observed)
        guide()
        changed = poutine.reparam(observed, config={"shares": strategy(guide)})
        trace = poutine.trace(changed).get_trace()
        assert math.isfinite(float(trace.log_prob_sum().detach()))
        assert float(trace.nodes["shares"]["value"].detach().sum()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("strategy", "error", "message"),
    [
        (
            lambda: reparam.ConjugateReparam(Dirichlet(COUNTS)),
            NotImplementedError,
            "GammaDirichlet does not support .conjugate_update",
        ),
        (lambda: reparam.LocScaleReparam(0.5), AttributeError, "'GammaDirichlet' .* 'loc'"),
        (reparam.TransformReparam, AssertionError, None),
    ],
)
def test_other_reparametrisations_refuse_it_as_they_refuse_a_dirichlet(
    strategy: Callable[[], Any], error: type[Exception], message: str | None
) -> None:
    """But that the first knows a Dirichlet."""
    with pytest.raises(error, match=message):
        poutine.reparam(of_prior, config={"shares": strategy()})()
