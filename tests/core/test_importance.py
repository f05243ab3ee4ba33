"""Draws of a guide put right by the model: against integration, and that doubt is told."""

from __future__ import annotations

import math
from importlib.metadata import version

import pyro
import pytest
import torch
from pyro.distributions import Dirichlet
from pyro.infer.importance import psis_diagnostic
from tiny import counts_model
from torch import Tensor

from bydore_pyro import corrected_draws
from bydore_pyro.core import importance
from bydore_pyro.core.guide import MixtureGuide
from bydore_pyro.core.importance import CorrectedDraws, GuideFit, guide_fit
from bydore_pyro.core.network import FreeConcentrations

COUNTS = torch.tensor([12.0, 5.0, 3.0], dtype=torch.float64)
EXACT = Dirichlet(1 + COUNTS)


pytestmark = pytest.mark.usefixtures("_own_store")


@pytest.fixture(autouse=True)
def _quick_searches() -> None:
    """As many draws as a search takes: they are judged here."""


def guide_of(concentration: Tensor) -> MixtureGuide:
    """A Dirichlet."""
    network = FreeConcentrations(len(concentration), initial_shape=1e6).double()
    with torch.no_grad():
        network.log_mean.copy_(concentration.log())
    return MixtureGuide(network, name="shares")


def test_resampling_alone_corrects_a_wide_guide() -> None:
    wide = guide_of(0.4 * (1 + COUNTS))
    assert (wide.posterior(COUNTS).stddev / EXACT.stddev > 1.4).all()
    drawn = corrected_draws(counts_model, wide, COUNTS)
    assert drawn.corrected
    assert isinstance(drawn, CorrectedDraws)
    torch.testing.assert_close(drawn.sites["shares"].mean(0), EXACT.mean, atol=0.01, rtol=0)
    torch.testing.assert_close(drawn.sites["shares"].std(0), EXACT.stddev, atol=0, rtol=0.06)
    # In random order: neighbours have nothing in common, though many draws are repeated.
    first = drawn.sites["shares"][:, 0]
    assert abs(torch.corrcoef(torch.stack([first[1:], first[:-1]]))[0, 1]) < 0.06
    assert len(first.unique()) < 3900


def test_a_guide_that_misses_the_posterior_is_not_corrected_by_weights() -> None:
    narrow = guide_of(12 * (1 + COUNTS))
    drawn = corrected_draws(counts_model, narrow, COUNTS, num_samples=2000)
    assert not drawn.corrected
    assert drawn.fit.khat > 0.7
    assert drawn.fit.draws == 2000
    guides_own = narrow.posterior(COUNTS).stddev
    torch.testing.assert_close(drawn.sites["shares"].std(0), guides_own, atol=0, rtol=0.05)
    assert len(drawn.sites["shares"][:, 0].unique()) == 4000


@pytest.mark.parametrize(
    ("domains", "of_the_fit", "corrected"), [(3, 1000, 8000), (2000, 200, 200)]
)
def test_many_domains_are_weighed_by_fewer_draws(
    domains: int, of_the_fit: int, corrected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The density of one draw of 2,000 domains takes 0.07 s; here it costs nothing."""
    weighed = []

    def density(log_w: Tensor, *_: object, **__: object) -> Tensor:
        weighed.append(len(log_w))
        return log_w.sum(-1)

    monkeypatch.setattr("bydore_pyro.core.distribution.log_density", density)
    counts = torch.linspace(0, 5, domains, dtype=torch.float64)
    guide = guide_of(1 + counts)
    assert guide_fit(counts_model, guide, counts).draws == of_the_fit
    drawn = corrected_draws(counts_model, guide, counts)
    assert drawn.fit.draws == corrected
    assert weighed == [of_the_fit, corrected]
    assert drawn.sites["shares"].shape == (4000, domains)


def test_the_same_seed_gives_the_same_draws_and_nothing_else_moves() -> None:
    guide, before = guide_of(1 + COUNTS), torch.get_rng_state()
    left, right, other = (
        corrected_draws(counts_model, guide, COUNTS, num_samples=200, num_draws=50, seed=s).sites[
            "shares"
        ]
        for s in (0, 0, 1)
    )
    assert torch.equal(left, right)
    assert not torch.equal(left, other)
    assert torch.equal(torch.get_rng_state(), before)
    assert isinstance(guide_fit(counts_model, guide, COUNTS, num_samples=100), GuideFit)


def test_a_plate_is_refused() -> None:
    def in_a_plate(counts: Tensor) -> None:
        with pyro.plate("documents", 2):
            counts_model(counts)

    for few, expected in (({"num_samples": 99}, ">= 100"), ({"num_draws": 0}, ">= 1")):
        with pytest.raises(ValueError, match=expected):
            corrected_draws(counts_model, guide_of(1 + COUNTS), COUNTS, **few)
    for weigh in (corrected_draws, guide_fit):
        with pytest.raises(ValueError, match=r"without plates, actual plates \['documents'\]"):
            weigh(in_a_plate, guide_of(1 + COUNTS), COUNTS)


@pytest.mark.parametrize(
    ("log_weights", "khat"),
    [
        (torch.zeros(200), 0.0),  # the guide is the posterior
        (torch.cat([torch.zeros(150), 600 * torch.linspace(0, 1, 50) ** 2]), None),  # hundreds
        (torch.cat([torch.zeros(3), torch.full((197,), -800.0)]), math.inf),  # no tail
        (-0.4 * torch.linspace(0, 1, 4002)[1:-1].log(), 0.4),  # Pareto, by its quantiles
    ],
)
def test_the_tail_tells_whether_draws_are_to_be_believed(
    log_weights: Tensor, khat: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    weigh = importance.vectorized_importance_weights
    monkeypatch.setattr(
        importance,
        "vectorized_importance_weights",
        lambda *a, **k: (log_weights, *weigh(*a, **k)[1:]),
    )
    fit = guide_fit(counts_model, guide_of(1 + COUNTS), COUNTS, num_samples=len(log_weights))
    if khat is None:
        assert 100 < fit.khat < math.inf
    else:
        assert fit.khat == pytest.approx(khat, abs=0.05)
    assert 1 <= fit.effective_draws <= len(log_weights) * (1 + 1e-9)


@pytest.mark.parametrize("times", [0.5, 0.9, 1.5, 3.0])
def test_the_k_hat_is_that_of_pyro(times: float) -> None:
    """`psis_diagnostic` of the same draws, which smooths no weights. ArviZ 1 fits the tail of other
    weights, so that its k-hat is another estimate."""
    guide = guide_of(times * (1 + COUNTS))
    found = guide_fit(counts_model, guide, COUNTS, num_samples=1000, seed=3)
    torch.manual_seed(3)
    expected = psis_diagnostic(counts_model, guide, COUNTS, num_particles=1000, max_plate_nesting=0)
    within = {"rel": 1e-9} if version("arviz").startswith("0.") else {"abs": 0.05}
    assert found.khat == pytest.approx(float(expected), **within)


def test_a_guide_that_is_too_wide_or_too_narrow_says_so() -> None:
    """Against the exact Dirichlet(1 + counts), in closed form; k-hat sees the narrow one alone."""
    counts = torch.tensor([12.0, 5.0, 3.0], dtype=torch.float64)
    exact = Dirichlet(1 + counts)

    def model() -> None:
        shares = pyro.sample("shares", Dirichlet(torch.ones(3).double()))
        pyro.factor("counts", (counts * shares.log()).sum(-1))

    for scale, warning in ((1.0, ""), (0.5, "too wide"), (8.0, "misses a part")):
        q = Dirichlet((1 + counts) * scale)

        def guide(q: Dirichlet = q) -> None:
            pyro.sample("shares", q)

        found = guide_fit(model, guide, num_samples=4000)
        assert warning in found.warning
        assert bool(warning) == bool(found.warning)
        if scale < 8:
            expected = (q.stddev / exact.stddev).log().mean().exp()
            assert found.width == pytest.approx(float(expected), rel=0.05)
    assert GuideFit(0.1, 10.0, 10).warning == "", "a record without a width"
