"""Slopes that move with length: the process's moments, and where decisions go with it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from planted_laws import planted

from bydore_pyro.core.carrying import SETTLING, carried, kept_at, kept_slopes
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
    slopes = carried(draws, 4 * draws.runs.length).slope
    torch.testing.assert_close(slopes, carried(draws, 4 * draws.runs.length).slope)
    assert not torch.equal(slopes, carried(draws, 4 * draws.runs.length, seed=1).slope)


@pytest.mark.parametrize("ratio", [1.5, 4.0, 16.0, 0.25])
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
    """Means over draws, at a length and at four times that, of one world each."""
    short = stationary(2000, 1)
    long = carried(short, 4 * SETTLING)
    assert kept_slopes(short, long) == pytest.approx(kept_at(SETTLING, 4 * SETTLING), abs=0.04)
    assert kept_slopes(short, short) == pytest.approx(1)
    with pytest.raises(ValueError, match="three or more, actual 2000 and 3"):
        kept_slopes(short, stationary(3, 1))
    with pytest.raises(ValueError, match="three or more, actual 2 and 2"):
        kept_slopes(stationary(2, 1), stationary(2, 1))


def test_where_nothing_is_kept_the_best_mixture_is_the_targets_own_shares_made_flatter() -> None:
    """``min sum p_t w_t^-g`` without transfer: ``w_t ~ p_t^(1 / (1 + g))``, whatever was measured.

    A little transfer, the same for all, changes little.
    """
    shares = torch.tensor([0.6, 0.3, 0.1]).double()
    law = fit_law(*planted(3, 4)[:2], free=False, rho=1.0).draws(4000)
    draws = replace(
        law,
        slope=law.slope * torch.tensor([0.3, 1.0, 4.0]),
        power=torch.full_like(law.power, 0.2),
        openness=torch.full_like(law.openness, 0.01),
    )
    goal = Goal(composition=shares[None])
    flat = shares ** (1 / 1.2) / (shares ** (1 / 1.2)).sum()
    assert float((best_mixture(draws, goal).weights - flat).abs().max()) > 0.1
    draws = replace(draws, runs=replace(draws.runs, length=SETTLING / 100))
    far = 1e12 * SETTLING
    found = best_mixture(carried(draws, far), goal).weights
    torch.testing.assert_close(found, flat, atol=0.02, rtol=0)
