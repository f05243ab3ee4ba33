"""Draws of a guide put right by the model: against integration, and that doubt is told."""

from __future__ import annotations

from collections.abc import Iterator

import arviz
import numpy as np
import pyro
import pytest
import torch
from pyro.distributions import Dirichlet, Normal
from tiny import counts_model
from torch import Tensor

from bydore_pyro import corrected_draws
from bydore_pyro.core.guide import MixtureGuide
from bydore_pyro.core.importance import CorrectedDraws, GuideFit, guide_fit, smooth_log_weights
from bydore_pyro.core.network import FreeConcentrations

COUNTS = torch.tensor([12.0, 5.0, 3.0], dtype=torch.float64)
EXACT = Dirichlet(1 + COUNTS)
SIGNALS = torch.tensor([2.0, 3.0, 2.5], dtype=torch.float64)


@pytest.fixture(autouse=True)
def _quick_searches() -> Iterator[None]:
    """As many draws as a search takes: they are judged here; a parameter store for each test."""
    with pyro.get_param_store().scope():
        yield


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
    ("domains", "of_the_fit", "corrected"), [(3, 1000, 8000), (33, 1000, 8000), (2000, 200, 200)]
)
def test_many_domains_are_weighed_by_fewer_draws(
    domains: int, of_the_fit: int, corrected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The density of one draw of 2,000 domains takes 0.07 s; here it costs nothing."""
    weighed = []

    def density(log_w: Tensor, *_: object) -> Tensor:
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


def test_bad_options_are_refused() -> None:
    for options, message in (
        ({"num_samples": 99}, "num_samples >= 100"),
        ({"num_draws": 0}, "num_draws >= 1"),
    ):
        with pytest.raises(ValueError, match=message):
            corrected_draws(counts_model, guide_of(1 + COUNTS), COUNTS, **options)


def test_a_plate_is_refused() -> None:
    def in_a_plate(counts: Tensor) -> None:
        with pyro.plate("documents", 2):
            counts_model(counts)

    def with_another_site(counts: Tensor) -> None:
        pyro.sample("x", Normal(0.0, 1.0))
        counts_model(counts)

    with pytest.raises(ValueError, match=r"sites \['shares'\], actual \['x', 'shares'\]"):
        guide_fit(with_another_site, guide_of(1 + COUNTS), COUNTS)
    for weigh in (corrected_draws, guide_fit):
        with pytest.raises(ValueError, match=r"without plates, actual plates \['documents'\]"):
            weigh(in_a_plate, guide_of(1 + COUNTS), COUNTS)


@pytest.mark.parametrize("shape", [0.0, 0.4, 0.9, 3.0])
def test_smoothed_weights_and_the_shape_of_their_tail_are_arviz_s(shape: float) -> None:
    random = np.random.default_rng(0)
    log_weights = -shape * np.log(random.uniform(size=4000)) + 7.0
    log_weights = log_weights if shape else random.normal(size=60)
    smoothed, khat = smooth_log_weights(log_weights)
    expected, their_khat = arviz.psislw(log_weights)
    np.testing.assert_allclose(smoothed, expected, rtol=1e-9, atol=1e-9)
    assert khat == pytest.approx(float(their_khat), rel=1e-9)
    assert np.exp(smoothed).sum() == pytest.approx(1)
    assert not shape or khat == pytest.approx(shape, abs=0.15)


def test_so_few_weights_that_there_is_no_tail() -> None:
    smoothed, khat = smooth_log_weights(np.r_[np.zeros(3), np.full(997, -800.0)])
    assert khat == np.inf
    np.testing.assert_allclose(np.exp(smoothed[:3]), 1 / 3)
