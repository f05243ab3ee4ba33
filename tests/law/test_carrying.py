"""Slopes that move with length: the process's moments, and where decisions go with it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from planted_laws import planted

from bydore_pyro.law.carrying import FAR, carried
from bydore_pyro.law.decision import best_mixture
from bydore_pyro.law.goal import Goal
from bydore_pyro.law.laplace import fit_law
from bydore_pyro.law.law import SLOPE_SD, LawDraws


def stationary(targets: int, draws: int) -> LawDraws:
    """Draws of slopes about 0.4 that are spread as the prior's."""
    law = fit_law(*planted(targets, 4), free=False).draws(draws)
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
    near = carried(draws, 1.0001 * draws.runs.length)
    torch.testing.assert_close(near.power, draws.power, rtol=1e-3, atol=0)
    torch.testing.assert_close(near.level, draws.level, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("ratio", "kept"), [(2.0, 0.5), (4**0.9, 0.1), (0.5, 0.5), (5.0, 0.0)])
def test_the_spread_stays_and_the_correlation_falls(ratio: float, kept: float) -> None:
    draws = stationary(60, 400)
    length = draws.runs.length
    moved = carried(draws, ratio * length)
    was, now = draws.slope.log(), moved.slope.log()
    off = [log - log.mean(1, keepdim=True) for log in (was, now)]
    assert float(off[1].std(1).mean()) == pytest.approx(SLOPE_SD, rel=0.02)
    both = torch.corrcoef(torch.stack([one.flatten() for one in off]))
    assert float(both[0, 1]) == pytest.approx(kept, abs=0.02)


def measured(targets: int, draws: int) -> LawDraws:
    """A law whose slopes differ sixteenfold, of targets that are open to each other."""
    law = fit_law(*planted(targets, 4)[:2], free=False, rho=1.0).draws(draws)
    steeper = torch.logspace(-1, 1, targets, base=4).double()
    return replace(law, slope=law.slope * steeper, openness=torch.full_like(law.openness, 0.3))


def test_the_further_the_nearer_is_the_best_mixture_to_what_the_targets_are_made_of() -> None:
    """``min -sum p_t log w_t``: ``w = p`` from four times on, whatever was measured."""
    shares = torch.tensor([0.6, 0.3, 0.1]).double()
    draws, goal = measured(3, 4000), Goal(composition=shares[None])
    off = []
    for times in (1.0, 1.001, 2.0, 3.0, 3.999, FAR, 1000.0):
        found = best_mixture(carried(draws, times * draws.runs.length), goal).weights
        off.append(float((found - shares).abs().sum()) / 2)
    assert off[0] == pytest.approx(off[1], abs=0.01)
    assert off[1] > off[2] + 0.02 > off[3] + 0.04
    assert max(off[4:]) < 0.01


@pytest.mark.parametrize("times", [2.0, 16.0, 0.5])
def test_elsewhere_a_slope_is_what_the_law_says_of_that_length(times: float) -> None:
    """In the mean over targets; the loss itself stays that of equal weights at its own length."""
    draws = replace(measured(40, 100), openness=torch.full((100, 40), 1e-9).double())
    length, equal = draws.runs.length, torch.full((1, 40), 1 / 40).double()
    moved = carried(draws, times * length)
    torch.testing.assert_close(moved.losses(length * equal), draws.losses(length * equal))
    away = 1 + 1e-3
    fall = moved.losses(times * length * equal) - moved.losses(away * times * length * equal)
    expected = math.log(away) * (draws.slope.log() - draws.power * math.log(times)).exp()
    assert float(fall.log().mean()) == pytest.approx(float(expected.log().mean()), abs=0.02)


@pytest.mark.parametrize("length", [0.0, -1.0, float("nan"), float("inf")])
def test_what_is_no_length_is_refused(length: float) -> None:
    with pytest.raises(ValueError, match="Expected length > 0, finite"):
        carried(stationary(3, 2), length)
