"""What is forecast of mixtures that no run has trained on, under laws that are known."""

from __future__ import annotations

import dataclasses
import math

import arviz
import numpy as np
import pytest
import torch
from planted_forecasts import (
    LEVEL,
    MADE,
    NAMES,
    NOISE,
    UNIFORM,
    planted_forecast,
    true_losses,
    true_target_losses,
    unseen,
)
from scipy.stats import spearmanr

from bydore_pyro.answer.forecast import (
    ALL,
    WORST,
    Curve,
    Difference,
    Expected,
    Forecast,
    away_from,
    ends,
    losses_at_level,
    number_of_draws,
)


@pytest.mark.parametrize("runs", [1, 4])
def test_it_ranks_mixtures_that_no_run_has_seen_and_its_intervals_hold(runs: int) -> None:
    """From one run, read three times, and from four; on the target and on every domain."""
    mixtures, held, spearman = unseen(), [], []
    for seed in range(3):
        forecast = planted_forecast(runs=runs, seed=seed)
        assert isinstance(forecast, Forecast)
        truth = torch.cat(
            [true_target_losses(mixtures, seed=seed)[:, None], true_losses(mixtures, seed)], 1
        )
        noise = NOISE * torch.randn(truth.shape, generator=torch.Generator().manual_seed(seed))
        for mixture, own in zip(mixtures, truth + noise, strict=True):
            rows = forecast.expected(mixture)
            assert [*rows] == ["one", *(f"domain {name}" for name in NAMES)]
            assert isinstance(rows["one"], Expected)
            ends = [(row.low, row.high) for row in rows.values()]
            held += [a <= x <= b for (a, b), x in zip(ends, own.tolist(), strict=True)]
        means = forecast.losses(mixtures).mean(0)
        spearman += [spearmanr(a, b)[0] for a, b in zip(means.T, truth.T, strict=True)]
    assert np.mean(spearman) > 0.95, "a regression from one run knows nothing"
    assert np.mean(held) > 0.9


def test_differences_are_paired() -> None:
    """What two mixtures share drops out: a difference is known better than two losses."""
    mixtures, held, narrower = unseen(), [], []
    for seed in range(3):
        forecast = planted_forecast(seed=seed)
        base = float(true_target_losses(UNIFORM[None], seed=seed))
        for mixture, truth in zip(mixtures, true_target_losses(mixtures, seed=seed), strict=True):
            row = forecast.difference(mixture, UNIFORM)["one"]
            assert isinstance(row, Difference)
            held.append(row.low <= float(truth) - base <= row.high)
            ends = [forecast.expected(one)["one"] for one in (mixture, UNIFORM)]
            alone = math.hypot(*(one.high - one.low for one in ends))
            narrower.append((row.high - row.low) / alone)
            if abs(float(truth) - base) > 0.2:
                assert (row.better > 0.5) == (float(truth) < base)
    assert np.mean(held) > 0.94, "the truth has no noise"
    assert np.mean(narrower) < 1, "the level drops out"
    same = forecast.difference(UNIFORM, UNIFORM)["one"]
    assert same.low < 0 < same.high
    assert same.loss == pytest.approx(0, abs=1e-9)
    assert same.better == pytest.approx(0.5)


def of_noisy_runs(worst: bool) -> tuple[Forecast, torch.Tensor]:
    """A forecast whose law is sure and whose runs are noisy by 0.1, and the true levels of its
    targets: on equal weights both are equally bad."""
    forecast = planted_forecast({"one": 0.5, "other": 0.5}, runs=60, noise=0.03)
    draws = dataclasses.replace(forecast.draws, noise=torch.full_like(forecast.draws.noise, 0.1))
    levels = -true_losses(UNIFORM[None]) @ torch.stack([*MADE.values()]).T
    every = levels.expand_as(forecast.levels)
    return dataclasses.replace(forecast, worst=worst, levels=every, draws=draws), levels


@pytest.mark.parametrize("worst", [False, True])
def test_intervals_hold_the_runs_that_are_measured(worst: bool) -> None:
    """Of one run, and of the difference of two runs, each with a noise of its own; with one run's
    noise alone, the interval of a difference would hold 82 %."""
    forecast, levels = of_noisy_runs(worst)
    mixtures = torch.stack([UNIFORM, torch.tensor([0.25, 0.2, 0.1, 0.2, 0.25]).double()])
    normal = torch.randn(4000, 2, 6, generator=torch.Generator().manual_seed(7)).double()
    noise = 0.1 * (math.sqrt(0.15) * normal[..., :1] + math.sqrt(0.85) * normal[..., 1:])
    domains = true_losses(mixtures) + noise  # (N, 2, K)
    targets = domains @ torch.stack([*MADE.values()]).T + levels
    both = targets.amax(-1) if worst else targets.mean(-1)
    measured = torch.cat([targets, domains, both[..., None]], -1)
    one, apart = forecast.expected(mixtures[0]), forecast.difference(*mixtures)
    held = []
    for index, text in enumerate(forecast.texts):
        run, difference = measured[:, 0, index], measured[:, 0, index] - measured[:, 1, index]
        shares = share_within(one[text], run), share_within(apart[text], difference)
        assert shares == pytest.approx((0.94, 0.94), abs=0.03), text
        held.append(shares)
        assert one[text].loss == pytest.approx(float(run.mean()), abs=0.05), text
        assert apart[text].better == pytest.approx(float((difference < 0).double().mean()), abs=0.1)
    np.testing.assert_allclose(np.mean(held, 0), 0.94, atol=0.02)


def share_within(expected: Expected | Difference, measured: torch.Tensor) -> float:
    inside = (measured >= expected.low) & (measured <= expected.high)
    return float(inside.double().mean())


def test_an_interval_is_the_narrowest_that_holds_94_percent() -> None:
    draws = np.random.default_rng(0).exponential(size=(1000, 2, 3)) * [1.0, -1.0, 2.0]
    expected = arviz.hdi(draws.reshape(1, 1000, 6), hdi_prob=0.94)
    found = ends(torch.from_numpy(draws))
    np.testing.assert_allclose(found.reshape(2, 6).T, expected, rtol=1e-12)


def off_the_law(*size: int, seed: int) -> torch.Tensor:
    """How far single runs lie off the law by 0.1, on five domains, as forecasts take it."""
    normal = torch.randn(*size, 6, generator=torch.Generator().manual_seed(seed)).double()
    return 0.1 * (math.sqrt(0.15) * normal[..., :1] + math.sqrt(0.85) * normal[..., 1:])


@pytest.mark.parametrize("worst", [False, True])
def test_a_level_is_as_unsure_as_the_run_that_it_was_read_from(worst: bool) -> None:
    """Over many noisy readings and, after each, many noisy runs; with the reading taken as certain
    the intervals of targets would hold 82 %."""
    forecast = planted_forecast({"one": 0.5, "other": 0.5}, runs=60, noise=0.1)
    made, known = torch.stack([*MADE.values()]), forecast.known
    read = known.losses[2] - true_losses(known.tokens[2:3])[0]  # the end of the search
    without_noise = forecast.levels - made @ read
    held: dict[str, list[float]] = {}
    for reading, off in enumerate(off_the_law(100, seed=8)):
        levels = without_noise + made @ off
        one = dataclasses.replace(forecast, worst=worst, levels=levels).expected(UNIFORM)
        domains = true_losses(UNIFORM[None]) + off_the_law(100, seed=100 + reading)
        targets = domains @ made.T + LEVEL
        both = targets.amax(-1) if worst else targets.mean(-1)
        for text, runs in zip([*MADE, WORST if worst else ALL], [*targets.T, both], strict=True):
            held.setdefault(text, []).append(share_within(one[text], runs))
    for text, shares in held.items():
        assert np.mean(shares) == pytest.approx(0.94, abs=0.035), text


def test_targets_together_are_their_mean_or_the_worst() -> None:
    forecast = planted_forecast({"one": 3.0, "other": 1.0})
    assert forecast.importance == {"one": 0.75, "other": 0.25}
    assert forecast.texts[-1] == ALL
    losses = forecast.losses(unseen(4))
    torch.testing.assert_close(losses[..., -1], 0.75 * losses[..., 0] + 0.25 * losses[..., 1])
    worst = dataclasses.replace(forecast, worst=True)
    assert worst.texts == (*forecast.texts[:-1], WORST)
    torch.testing.assert_close(worst.losses(unseen(4))[..., -1], losses[..., :2].amax(-1))
    assert len(planted_forecast().texts) == 6, "one target alone has no mean"
    of_both = forecast.expected(UNIFORM)
    ends = [of_both[name].high - of_both[name].low for name in ("one", "other", ALL)]
    assert ends[2] < max(ends[:2]), "what two runs are off by averages out"


def test_of_many_domains_there_are_fewer_draws() -> None:
    assert [number_of_draws(domains) for domains in (80, 100, 1000)] == [250, 200, 200]


def test_curves_are_the_law_and_the_runs() -> None:
    forecast = planted_forecast(runs=4)
    curves = forecast.curves()
    assert [*curves] == [*NAMES]
    for place, curve in enumerate(curves.values()):
        assert isinstance(curve, Curve)
        at, loss, low, high = map(np.array, (curve.at, curve.loss, curve.low, curve.high))
        assert (np.diff(at) > 0).all()
        assert (np.diff(loss) < 0).all(), "more is better"
        assert ((low < loss) & (loss < high)).all()
        np.testing.assert_allclose(curve.losses, forecast.known.losses[:, place])
        np.testing.assert_allclose(curve.runs[2], 1, rtol=1e-6, err_msg="the run on equal weights")
        at_runs = np.interp(np.log(curve.runs), np.log(at), loss)
        assert np.abs(at_runs - curve.losses).max() < 0.1


def test_a_mixture_is_as_far_away_as_from_the_nearest_run_whose_level_is_known() -> None:
    found = planted_forecast()
    near = torch.tensor([0.3, 0.2, 0.2, 0.2, 0.1]).double()
    away = away_from(torch.stack([UNIFORM, near, torch.eye(5)[0].double()]), found.known)
    expected = [
        min(float((one - run).abs().sum()) / 2 for run in found.trained())
        for one in (UNIFORM, near, torch.eye(5)[0].double())
    ]
    np.testing.assert_allclose(away, expected)
    assert float(away[0]) == pytest.approx(0, abs=1e-6), "the search's own mixture"
    assert float(away[2]) == pytest.approx(0.8)


def test_levels_are_known_where_the_search_ended() -> None:
    found = planted_forecast()
    read = losses_at_level(found.draws, found.known)
    assert read.shape == (len(found.levels), 1, 5)
    np.testing.assert_allclose(read.mean(0)[0], found.known.losses[2], atol=3 * NOISE)
    np.testing.assert_allclose(
        read[:, 0] @ MADE["one"] + found.levels[:, 0], found.start()[:, 0], atol=0.05
    )
