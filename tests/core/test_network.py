"""The networks of a guide: their start, their reach, and what they refuse."""

from __future__ import annotations

import math

import pyro
import pytest
import torch
from pyro.distributions import Dirichlet
from pyro.infer import SVI, Trace_ELBO
from torch import Tensor

from bydore_pyro import FeatureNetwork
from bydore_pyro.core.distribution import GammaDirichlet
from bydore_pyro.core.guide import MixtureGuide
from bydore_pyro.core.network import ABSENT, ABSENT_RATE, FreeConcentrations, PriorNetwork


def test_every_domain_starts_at_the_same_point_whatever_the_signals() -> None:
    for value in PriorNetwork(5)(torch.tensor([3.0, 9.0, -1.0, 0.0, 2.0])):
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


def test_bad_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="num_domains >= 2"):
        PriorNetwork(1)
    with pytest.raises(ValueError, match=r"signals \(\.\.\., 3\), actual \(4,\)"):
        PriorNetwork(3)(torch.ones(4))
    with pytest.raises(ValueError, match="finite initial_shape > 0"):
        FreeConcentrations(3, initial_shape=math.inf)


def test_free_concentrations_start_where_they_are_told_to() -> None:
    network = FreeConcentrations(3)
    a, b = torch.tensor([0.5, 30.0, 400.0]), torch.tensor([0.02, 1.0, 50.0])
    network.start_at(a, b)
    for value, expected in zip(network(), (a, b), strict=True):
        torch.testing.assert_close(value.detach(), expected, rtol=1e-5, atol=0)
    with pytest.raises(ValueError, match="finite shapes > 0"):
        network.start_at(-a, b)


def test_features_of_a_data_point_and_of_components() -> None:
    torch.manual_seed(0)
    topics, own = FeatureNetwork(30, 4), FeatureNetwork(2)
    assert topics(torch.rand(60, 30))[0].shape == (60, 4)
    for layer in (own.output, own.direct):
        torch.nn.init.normal_(layer.weight)
    features = torch.randn(5, 6, 2)
    features[1, 4:] = math.nan
    a, b = own(features)
    # A component's place does not matter, nor what is absent.
    torch.testing.assert_close(own(features[1, :4])[0], a[1, :4], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(own(features.flip(1))[0].flip(1), a, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close((a / b)[1, 4:], torch.full((2,), 1e-3))
    for network, given, message in (
        (topics, torch.rand(3, 29), r"features \(..., 30\) .*, actual \(3, 29\)"),
        (own, torch.rand(2), r"features \(..., K, 2\) .*, actual \(2,\)"),
        (topics, torch.full((30,), math.nan), "finite features"),
    ):
        with pytest.raises(ValueError, match=message):
            network(given)


def test_components_that_vary_in_number_reach_their_exact_posteriors() -> None:
    """Counts of two to four parts, padded: each row's posterior is a Dirichlet of its parts."""
    pyro.set_rng_seed(0)
    counts = torch.tensor([[9.0, 3, 1, 4], [2, 8, 0, 0], [5, 1, 3, 0]], dtype=torch.float64)
    absent = torch.tensor([[0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]]).bool()
    prior = torch.ones_like(counts).masked_fill(absent, 1e-3)
    guide = MixtureGuide(FeatureNetwork(1).double(), name="shares")
    features = counts.log1p().masked_fill(absent, math.nan).unsqueeze(-1)

    def model() -> None:
        with pyro.plate("rows", 3):
            shares = pyro.sample("shares", Dirichlet(prior))
            pyro.factor("counts", (counts * shares.log()).sum(-1))

    def amortised() -> Tensor:
        with pyro.plate("rows", 3):
            return guide(features)["shares"]

    with pyro.get_param_store().scope():
        elbo = Trace_ELBO(num_particles=8, vectorize_particles=True, max_plate_nesting=1)
        svi = SVI(model, amortised, pyro.optim.ClippedAdam({"lr": 0.03, "lrd": 0.98}), elbo)
        for _ in range(150):
            svi.step()
        found = guide.posterior(features).mean
    torch.testing.assert_close(found, Dirichlet(prior + counts).mean, atol=0.04, rtol=0)


@pytest.mark.parametrize("absent", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_absent_components_leave_the_objective_of_the_others_as_it_is(
    absent: int, dtype: torch.dtype
) -> None:
    """In value and in the gradient of the total concentration, which says how wide it is."""

    def objective(number: int) -> tuple[Tensor, Tensor]:
        torch.manual_seed(number)
        log_total = torch.zeros(4000, 1, dtype=dtype, requires_grad=True)  # one of each draw
        a = torch.tensor([20.0, 10.0, 5.0], dtype=dtype) * log_total.exp()
        known = torch.full((4000, number), ABSENT_RATE, dtype=dtype)
        q = GammaDirichlet(torch.cat([a, ABSENT * known], -1), torch.cat([a * 0 + 2, known], -1))
        prior = torch.tensor([1.0] * 3 + [ABSENT] * number, dtype=dtype)
        w = q.rsample()
        values = q.log_prob(w) - Dirichlet(prior).log_prob(w)
        return values.detach(), torch.autograd.grad(values.sum(), log_total)[0][:, 0]

    for found, expected in zip(objective(absent), objective(0), strict=True):
        error = ((found.var() + expected.var()) / len(found)).sqrt()
        assert abs(float(found.mean() - expected.mean())) < 4 * float(error)
        assert float(error) < 0.05
