"""Guides are as wide as the posteriors of models that a user may write, by one recipe for all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pyro
import pytest
import torch
from pyro.distributions import Dirichlet, Multinomial, Normal
from pyro.infer import SVI, Trace_ELBO
from pyro.optim import ClippedAdam
from simplex_grid import by_grid
from torch import Tensor

from bydore_pyro.core.distribution import GammaDirichlet
from bydore_pyro.core.guide import MixtureGuide
from bydore_pyro.core.importance import corrected_draws
from bydore_pyro.core.network import FeatureNetwork, FreeConcentrations

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("_own_store")]

# Measured over three seeds: docs/lab-notebook.md, "What made guides too wide".
WITHIN = 0.05


def fit(
    model: Callable[..., Any],
    guide: Callable[..., Any],
    *,
    rate: float = 0.1,
    steps: int = 500,
    particles: int = 4,
) -> list[float]:
    """Returns the losses of the page's recipe, whose step size falls to a twentieth."""
    plates = {"vectorize_particles": True, "max_plate_nesting": 1} if particles > 1 else {}
    rates = {"lr": rate, "lrd": 0.05 ** (1 / steps)}
    svi = SVI(model, guide, ClippedAdam(rates), Trace_ELBO(num_particles=particles, **plates))
    return [svi.step() for _ in range(steps)]


def width(q: GammaDirichlet, exact: Tensor) -> float:
    """Returns the geometric mean of the ratios of the standard deviations."""
    return float((q.stddev.detach().double() / exact).log().mean().exp())


def places(size: int, seed: int) -> tuple[Tensor, Callable[[], None]]:
    """Returns counts ``(size, 3)`` and a model of the shares of every place, subsampled."""
    torch.manual_seed(seed)
    counts = Multinomial(30, Dirichlet(torch.ones(3)).sample((size,))).sample()

    def model() -> None:
        with pyro.plate("places", size, subsample_size=size // 5) as index:
            shares = pyro.sample("shares", Dirichlet(torch.ones(3)))
            pyro.sample("counts", Multinomial(30, shares), obs=counts[index])

    return counts, model


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [50, 100])
def test_a_subsampled_plate(size: int, seed: int) -> None:
    """In float32, beside the exact Dirichlets."""
    counts, model = places(size, seed)
    guide = MixtureGuide(FreeConcentrations(3, batch_shape=(size,)), name="shares")

    def every() -> None:
        with pyro.plate("places", size, subsample_size=size // 5):
            guide()

    assert all(map(math.isfinite, fit(model, every)))
    q, exact = guide.posterior(), Dirichlet(1 + counts)
    assert width(q, exact.stddev) == pytest.approx(1, abs=WITHIN)
    assert float(((q.mean.detach() - exact.mean) / exact.stddev).square().mean().sqrt()) < 0.2


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [50, 100])
def test_a_subsampled_plate_stays_finite_from_a_start_without_variance(
    size: int, seed: int
) -> None:
    """Draws of float32 near 1e-38, whose gradient the plate multiplies; one draw a step."""
    _, model = places(size, seed)
    guide = MixtureGuide(FreeConcentrations(3, 1.0, batch_shape=(size,)), name="shares")

    def every() -> None:
        with pyro.plate("places", size, subsample_size=size // 5):
            guide()

    assert all(map(math.isfinite, fit(model, every, rate=0.05, steps=300, particles=1)))
    assert all(value.isfinite().all() for value in guide.parameters())


@pytest.mark.parametrize("amortised", [False, True])
def test_mixed_memberships(amortised: bool) -> None:
    """Shares of known topics in 40 documents, whose posteriors are no Dirichlets; by a grid."""
    torch.manual_seed(0)
    topics = Dirichlet(torch.full((30,), 0.2)).sample((3,)) * 0.98 + 0.02 / 30
    counts = Multinomial(50, Dirichlet(torch.ones(3)).sample((40,)) @ topics).sample()

    def model() -> None:
        with pyro.plate("documents", len(counts)):
            shares = pyro.sample("shares", Dirichlet(torch.ones(3)))
            pyro.sample("counts", Multinomial(50, shares @ topics), obs=counts)

    network = FeatureNetwork(30, 3) if amortised else FreeConcentrations(3, batch_shape=(40,))
    guide = MixtureGuide(network, name="shares")

    def every() -> None:
        with pyro.plate("documents", len(counts)):
            guide(counts.log1p())

    fit(model, every, **({"rate": 0.01, "steps": 1000} if amortised else {}))
    mean, deviation = by_grid(lambda w: counts.double() @ (w @ topics.double()).log().T)
    q = guide.posterior(counts.log1p())
    assert width(q, deviation) == pytest.approx(1, abs=WITHIN)
    assert float(((q.mean.detach() - mean) / deviation).square().mean().sqrt()) < (
        0.4 if amortised else 0.2
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_compositional_regression(seed: int) -> None:
    """As a whole; and each weight, once the draws are corrected by their importance."""
    torch.manual_seed(seed)
    x = torch.randn(50, 3)
    y = x @ torch.tensor([0.6, 0.35, 0.05]) + 0.5 * torch.randn(50)

    def model() -> None:
        shares = pyro.sample("shares", Dirichlet(torch.ones(3)))
        pyro.sample("y", Normal(shares @ x.T, 0.5).to_event(1), obs=y)

    guide = MixtureGuide(FreeConcentrations(3), name="shares")
    fit(model, guide, particles=8)
    _, exact = by_grid(lambda w: -2 * (y.double() - w @ x.double().T).square().sum(-1))
    assert width(guide.posterior(), exact) == pytest.approx(1, abs=WITHIN)
    drawn = corrected_draws(model, guide, num_draws=20000)
    assert drawn.corrected
    assert not drawn.fit.warning
    found = drawn.sites["shares"].std(0).double()
    torch.testing.assert_close(found, exact, atol=0, rtol=WITHIN)
