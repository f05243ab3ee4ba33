"""Slopes that move with length: the process's moments, and where decisions go with it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from planted_laws import planted

from bydore_pyro.core.carrying import FAR, SETTLING, carried, kept_at, kept_slopes
from bydore_pyro.core.decision import best_mixture
from bydore_pyro.core.goal import Goal
from bydore_pyro.core.laplace import fit_law
from bydore_pyro.core.law import SLOPE_SD, LawDraws


def stationary(targets: int, draws: int) -> LawDraws:
    """Draws of slopes about 0.4 that are spread as the prior's, of runs as long as SETTLING."""
    law = fit_law(*planted(targets, 4), free=False).draws(draws)
    law = replace(law, runs=replace(law.runs, length=SETTLING))
    normal = torch.randn(draws, targets, generator=torch.Generator().manual_seed(1)).double()
    return replace(law, slope=0.4 * (SLOPE_SD * normal).exp())


def test_at_its_own_length_nothing_moves() -> None:
    draws = stationary(3, 5)
    assert carried(draws, draws.runs.length) is draws
    assert carried(draws, 0.91 * draws.runs.length) is draws
    assert carried(draws, 0.89 * draws.runs.length) is not draws
    slopes = carried(draws, 2 * draws.runs.length).slope
    torch.testing.assert_close(slopes, carried(draws, 2 * draws.runs.length).slope)
    assert not torch.equal(slopes, carried(draws, 2 * draws.runs.length, seed=1).slope)


@pytest.mark.parametrize("ratio", [1.5, 0.99 * FAR, 0.25])
def test_the_spread_stays_and_the_correlation_falls(ratio: float) -> None:
    draws = stationary(60, 400)
    moved = carried(draws, ratio * draws.runs.length)
    was, now = draws.slope.log(), moved.slope.log()
    assert float(now.std(1).mean()) == pytest.approx(SLOPE_SD, rel=0.02)
    torch.testing.assert_close(now.mean(), was.mean(), atol=0.01, rtol=0)
    off = [(log - log.mean(1, keepdim=True)).flatten() for log in (was, now)]
    kept = float(torch.corrcoef(torch.stack(off))[0, 1])
    assert kept == pytest.approx(math.exp(-abs(1 - 1 / ratio)), abs=0.02)
    torch.testing.assert_close(moved.level, draws.level)


def test_kept_slopes_is_what_the_laws_share() -> None:
    """Means over draws, at a length and at three times that, of one world each."""
    short = stationary(2000, 1)
    long = carried(short, 3 * SETTLING)
    assert kept_slopes(short, long) == pytest.approx(kept_at(SETTLING, 3 * SETTLING), abs=0.04)
    assert kept_slopes(short, short) == pytest.approx(1)
    with pytest.raises(ValueError, match="three or more, actual 2000 and 3"):
        kept_slopes(short, stationary(3, 1))
    with pytest.raises(ValueError, match="three or more, actual 2 and 2"):
        kept_slopes(stationary(2, 1), stationary(2, 1))


def test_slopes_settle() -> None:
    """Measured late, they hold; and to move twice is to move once."""
    assert kept_at(100 * SETTLING, 1e6 * SETTLING) == pytest.approx(0.99, abs=0.001)
    assert kept_at(SETTLING, 2 * SETTLING) * kept_at(2 * SETTLING, 9 * SETTLING) == pytest.approx(
        kept_at(SETTLING, 9 * SETTLING)
    )


def measured(targets: int, draws: int) -> LawDraws:
    """A law whose slopes differ sixteenfold, of targets that are open to each other."""
    law = fit_law(*planted(targets, 4)[:2], free=False, rho=1.0).draws(draws)
    steeper = torch.logspace(-1, 1, targets, base=4).double()
    return replace(law, slope=law.slope * steeper, openness=torch.full_like(law.openness, 0.3))


@pytest.mark.parametrize("times", [FAR, 1000.0])
def test_far_from_its_length_the_best_mixture_is_what_the_targets_are_made_of(times: float) -> None:
    """``min -sum p_t log w_t``: ``w = p``, whatever was measured."""
    shares = torch.tensor([0.6, 0.3, 0.1]).double()
    draws, goal = measured(3, 4000), Goal(composition=shares[None])
    for length, far in ((0.99 * FAR, False), (times, True)):
        found = best_mixture(carried(draws, length * draws.runs.length), goal).weights
        assert torch.allclose(found, shares, atol=0.01) == far


def test_far_from_its_length_a_slope_is_what_the_law_says_of_that_length() -> None:
    """In the mean over targets; the loss itself stays that of equal weights at its own length."""
    draws = measured(40, 100)
    length, equal = draws.runs.length, torch.full((1, 40), 1 / 40).double()
    moved = carried(draws, 16 * length)
    torch.testing.assert_close(moved.losses(length * equal), draws.losses(length * equal))
    halved = moved.losses(length / 2 * equal) - moved.losses(length * equal)
    expected = math.log(2) * (draws.slope.log() - draws.power * math.log(16)).exp()
    assert float(halved.log().mean()) == pytest.approx(float(expected.log().mean()), abs=0.02)


@pytest.mark.parametrize("length", [0.0, -1.0, float("nan"), float("inf")])
def test_no_length(length: float) -> None:
    with pytest.raises(ValueError, match="Expected length > 0, finite"):
        carried(stationary(3, 2), length)
