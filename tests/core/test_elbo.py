"""The custom ELBO: its value and gradient against stock Pyro on the same model and guide."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pyro
import pytest
import torch
from gaussian_evidence import gaussian_evidence
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO, TraceMeanField_ELBO
from torch import Tensor

from bydore_pyro.core.elbo import HypergradientELBO
from bydore_pyro.core.guide import MixtureGuide
from bydore_pyro.core.model import mixture_model, quadratic_factor
from bydore_pyro.core.network import FreeConcentrations, PriorNetwork

G = torch.tensor([0.03, -0.01, 0.0, 0.02])
SIGNALS = torch.tensor([2.0, 3.0, 2.5, 2.2])
LAM = 0.01


pytestmark = pytest.mark.usefixtures("_own_store")


def dirichlet_guide(signals: Tensor, g: Tensor, kl_weight: float) -> Tensor:
    beta = pyro.param(
        "beta",
        torch.tensor([1.5, 0.8, 1.0, 2.0]),
        constraint=pyro.distributions.constraints.positive,
    )
    return pyro.sample("weights", pyro.distributions.Dirichlet(beta))


def stock_elbo(particles: int) -> TraceMeanField_ELBO:
    """Pyro's own, all of whose particles are drawn at once."""
    return TraceMeanField_ELBO(
        num_particles=particles, vectorize_particles=True, max_plate_nesting=0
    )


def _losses_and_gradients(
    elbo: pyro.infer.ELBO, guide: object, arguments: tuple, repeats: int = 1
) -> tuple[Tensor, Tensor]:
    """The loss and its gradients for every parameter, one row a repetition."""
    losses, rows = [], []
    for _ in range(repeats):
        with poutine.trace(param_only=True) as captured:
            losses.append(elbo.loss_and_grads(mixture_model, guide, *arguments))
        parameters = [s["value"].unconstrained() for s in captured.trace.nodes.values()]
        rows.append(torch.cat([p.grad.flatten().clone() for p in parameters]))
        pyro.infer.util.zero_grads(parameters)
    return torch.tensor(losses), torch.stack(rows)


def test_gradient_equals_stock_pyro_with_a_factor() -> None:
    """The model's factor states the same linear term; stock Pyro samples it, we do not."""
    given = (dirichlet_guide, (SIGNALS, G, LAM))
    ours = _losses_and_gradients(HypergradientELBO(), *given)[1][0]
    stock = _losses_and_gradients(stock_elbo(50), *given, repeats=60)[1]
    error = stock.std(0) / math.sqrt(len(stock))
    assert ((stock.mean(0) - ours).abs() < 5 * error).all()
    assert ours.abs().max() > 20 * error.max(), "the test could not tell a wrong gradient"


def test_loss_equals_stock_pyro_in_expectation() -> None:
    ours = HypergradientELBO().loss(mixture_model, dirichlet_guide, SIGNALS, G, LAM)
    stock = stock_elbo(4000).loss(mixture_model, dirichlet_guide, SIGNALS, G, LAM)
    assert abs(stock - ours) < 1e-3 / LAM
    q = torch.distributions.Dirichlet(torch.tensor([1.5, 0.8, 1.0, 2.0]))
    kl = torch.distributions.kl_divergence(q, torch.distributions.Dirichlet(torch.ones(4)))
    assert ours == pytest.approx(float(-(G * q.mean).sum() / LAM + kl), rel=1e-5)


def test_the_learned_mean_is_that_of_the_exact_posterior() -> None:
    """p(w) is proportional to exp(g . w / lam) on the simplex: its mean by weighing prior draws."""
    kl_weight = 0.1
    g = torch.tensor([0.3, -0.1, 0.0, 0.2], dtype=torch.float64)
    draws = torch.distributions.Dirichlet(torch.ones(4, dtype=torch.float64)).sample((200_000,))
    exact = (draws @ g / kl_weight).softmax(0) @ draws
    guide = MixtureGuide(FreeConcentrations(4, initial_shape=3.0).double())
    optimizer = pyro.optim.ClippedAdam({"lr": 0.1, "lrd": 0.02 ** (1 / 150)})
    svi = SVI(mixture_model, guide, optimizer, HypergradientELBO(num_samples=8))
    for _ in range(150):
        svi.step(SIGNALS.double(), g, kl_weight)
    torch.testing.assert_close(guide.posterior(SIGNALS).mean, exact, atol=0.03, rtol=0)


def test_what_it_cannot_do_is_refused() -> None:
    def transformed(*_: object) -> None:
        normal = pyro.distributions.Normal(torch.zeros(3), 1.0).to_event(1)
        stick_breaking = pyro.distributions.transforms.StickBreakingTransform()
        pyro.sample("weights", pyro.distributions.TransformedDistribution(normal, stick_breaking))

    def changed(signals: Tensor, linear: Tensor) -> None:
        weights = pyro.sample("weights", pyro.distributions.Dirichlet(torch.ones(4)))
        quadratic_factor("mine", weights.flip(-1), linear)

    guide = MixtureGuide(PriorNetwork(4))
    with (
        pytest.raises(ValueError, match="scale=True samples a scale"),
        pytest.warns(UserWarning, match="vars in model but not guide"),
    ):
        HypergradientELBO().loss(mixture_model, guide, SIGNALS, G, LAM, torch.eye(4))
    with pytest.raises(ValueError, match="weights of the factor 'mine' to be the value of one of"):
        HypergradientELBO().loss(changed, guide, SIGNALS, G)
    with pytest.raises(ValueError, match=r"a mean in closed form.*TraceMeanField_ELBO takes any"):
        HypergradientELBO().loss(mixture_model, transformed, SIGNALS, G)
    with pytest.raises(ValueError, match="num_samples >= 1"):
        HypergradientELBO(num_samples=0)


MASK = torch.tensor([True, True, False, False, False, False])


@pytest.mark.parametrize("way", ["mask", "scale", "subsample", "latent", "particles"])
def test_sites_count_as_in_pyros_own_objective(way: str) -> None:
    """Masks, scales, subsampled plates, data and other latent sites: the mean of Pyro's ELBO."""
    linear = torch.randn(6, 4, dtype=torch.float64)
    beta = 1 + torch.rand(6, 4, dtype=torch.float64)

    @contextmanager
    def rows() -> Iterator[Tensor]:
        size = 2 if way == "subsample" else None
        with ExitStack() as stack:
            index = stack.enter_context(pyro.plate("rows", 6, subsample_size=size, dim=-1))
            if way == "mask":
                stack.enter_context(poutine.mask(mask=MASK))
            if way == "scale":
                stack.enter_context(poutine.scale(scale=0.3))
            yield index

    def model() -> None:
        level = 0.0
        if way == "latent":
            level = pyro.sample("level", pyro.distributions.Normal(0.0, 1.0).mask(True))
            pyro.sample("seen", pyro.distributions.Normal(level, 1.0), obs=torch.tensor(0.5))
        with rows() as index:
            weights = pyro.sample("weights", pyro.distributions.Dirichlet(torch.ones(4).double()))
            quadratic_factor("evidence", weights, linear[index])

    def guide() -> None:
        if way == "latent":
            pyro.sample("level", pyro.distributions.Normal(0.2, 0.5))
        with rows() as index:
            pyro.sample("weights", pyro.distributions.Dirichlet(beta[index]))

    given: dict[str, Any] = {}
    if way in ("latent", "particles", "subsample"):
        given = {"num_particles": 400, "vectorize_particles": way == "particles"}
    if way == "particles":
        given["max_plate_nesting"] = 1
    ours = HypergradientELBO(**given).loss(model, guide)
    stock = TraceMeanField_ELBO(num_particles=2000).loss(model, guide)
    assert ours == pytest.approx(stock, abs=0.15)
    if way == "mask":
        q = torch.distributions.Dirichlet(beta)
        flat = torch.distributions.Dirichlet(torch.ones(4).double())
        each = torch.distributions.kl_divergence(q, flat) - (linear * q.mean).sum(-1)
        assert ours == pytest.approx(float(each[:2].sum())), "two of six rows count"


H, PRECISION = gaussian_evidence(4, 0.2, alike=1)
CURVED = (SIGNALS.double(), H, 1.0, PRECISION)


def scaled_dirichlet_guide(signals: Tensor, *_: object) -> None:
    """A guide whose parameters start where the evidence is not at its best."""
    positive = pyro.distributions.constraints.positive
    beta = pyro.param("beta", torch.tensor([1.5, 2.0, 4.0, 2.0]).double(), constraint=positive)
    loc = pyro.param("loc", torch.tensor(0.1).double())
    deviation = pyro.param("deviation", torch.tensor(0.2).double(), constraint=positive)
    pyro.sample("weights", pyro.distributions.Dirichlet(beta))
    pyro.sample("scale", pyro.distributions.LogNormal(loc, deviation))


def test_second_order_value_and_gradient_equal_stock_pyros() -> None:
    given = (scaled_dirichlet_guide, CURVED)
    (loss,), (gradient,) = _losses_and_gradients(HypergradientELBO(), *given)
    losses, sampled = _losses_and_gradients(stock_elbo(500), *given, repeats=40)
    assert abs(losses.mean() - loss) < 5 * losses.std() / math.sqrt(40)
    assert losses.std() / math.sqrt(40) < 0.01 * abs(loss)
    error = sampled.std(0) / math.sqrt(40)
    assert gradient.shape == (6,)
    assert ((sampled.mean(0) - gradient).abs() < 5 * error).all()
    assert (gradient.abs() > 10 * error).sum() >= 3, "the test could not tell a wrong gradient"


def test_second_order_loss_of_the_compound_equals_stock_pyros() -> None:
    guide = MixtureGuide(FreeConcentrations(4, initial_shape=6.0).double(), scale=True)
    torch.nn.init.normal_(guide.network.log_mean, std=0.3)
    ours = HypergradientELBO(num_samples=2000).loss(mixture_model, guide, *CURVED)
    stock = Trace_ELBO(num_particles=2000, vectorize_particles=True, max_plate_nesting=0)
    sampled = torch.tensor([stock.loss(mixture_model, guide, *CURVED) for _ in range(4)])
    error = float(sampled.std() / 2)
    assert ours == pytest.approx(float(sampled.mean()), abs=6 * error)
    assert error < 0.02 * abs(ours)


def test_the_evidence_is_a_constant() -> None:
    h, precision = H.clone().requires_grad_(), PRECISION.clone().requires_grad_()
    guide = MixtureGuide(PriorNetwork(4).double(), scale=True)
    arguments = (SIGNALS.double(), h, 1.0)
    HypergradientELBO().loss_and_grads(mixture_model, guide, *arguments, precision=precision)
    assert h.grad is None
    assert precision.grad is None
    assert guide.scale_loc.grad.abs() > 0
    assert guide.scale_log_deviation.grad.abs() > 0
