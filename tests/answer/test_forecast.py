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
    UNIFORM,
    planted_forecast,
    true_losses,
    true_target_losses,
)
from scipy.stats import spearmanr
from torch.distributions import Dirichlet

from bydore_pyro.answer.fitting import SCATTER, Target, forecast_of
from bydore_pyro.answer.forecast import (
    ALL,
    WORST,
    Curve,
    Difference,
    Expected,
    Forecast,
    ends,
    number_of_draws,
)

NOISE = 0.02


def unseen(count: int = 60) -> torch.Tensor:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        return Dirichlet(torch.ones(5)).sample((count,)).double()


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


def test_a_target_lies_above_what_it_is_made_of_as_the_search_has_read_it() -> None:
    for levels in ({"one": 0.0}, {"one": 1.5}):
        forecast = planted_forecast(levels=levels)
        at_the_end = float(forecast.known.of_targets[-1, 0])
        found = forecast.expected(UNIFORM)["one"].loss
        assert found == pytest.approx(at_the_end, abs=1e-6)
        assert float(forecast.levels.mean()) == pytest.approx(levels["one"], abs=0.1)


def test_what_is_not_explained_is_known_at_the_runs_alone() -> None:
    explained, not_explained = (planted_forecast(unexplained=share) for share in (0.0, 0.8))
    corner = torch.eye(5).double()[0]

    def spread(forecast: Forecast, mixture: torch.Tensor, text: int = 0) -> float:
        return float(forecast.losses(mixture[None])[:, 0, text].std())

    assert spread(not_explained, UNIFORM) == pytest.approx(spread(explained, UNIFORM), abs=1e-3)
    assert spread(not_explained, corner) > spread(explained, corner) + 0.05
    assert spread(not_explained, corner, 1) == spread(explained, corner, 1), "domains are known"
    trials = planted_forecast(unexplained=0.8, runs=4)
    tried = trials.known.tokens[-1]
    assert spread(trials, tried) > spread(planted_forecast(runs=4), tried) + 0.02, (
        "the target's own loss was not read there"
    )


def test_the_level_of_a_task_scatters_half_as_far_as_that_of_a_text() -> None:
    known, made = planted_forecast().known, MADE["one"][None]
    target = Target(importance=1.0, compositions=made, unexplained=0.8)
    both = (target, dataclasses.replace(target, unit="bits"))
    text, task = (forecast_of(NAMES, known, {"one": one}) for one in both)
    assert float(text.scatter.std()) == pytest.approx(0.8 * SCATTER, rel=0.1)
    assert float(task.scatter.std()) == pytest.approx(0.8 * SCATTER / 2, rel=0.1)


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


def test_what_runs_have_read_of_domains_that_are_dropped_counts() -> None:
    """The law of mixtures that have none of it stays as it was; without its tokens it would not."""
    known, mixtures, made = planted_forecast().known, unseen()[:, :4], MADE["one"][:4]
    mixtures = mixtures / mixtures.sum(1, keepdim=True)
    losses = {}
    for count in (5, 4):
        whole = torch.nn.functional.pad(made, (0, count - 4))[None]
        of = {"one": Target(importance=1.0, compositions=whole, unexplained=0.3)}
        found = forecast_of(NAMES[:count], known, of)
        assert found.law.runs.own.shape == (count, count)
        whole = torch.nn.functional.pad(mixtures, (0, count - 4))
        losses[count] = found.losses(whole)[..., :5]
        assert [*found.curves()] == [*NAMES[:count]]
    torch.testing.assert_close(losses[4], losses[5])
    four = slice(4)
    gone = dataclasses.replace(
        known,
        tokens=known.tokens[:, four],
        losses=known.losses[:, four],
        transfer=known.transfer[four, four],
    )
    target = Target(importance=1.0, compositions=made[None], unexplained=0.3)
    other = forecast_of(NAMES[:4], gone, {"one": target})
    assert float((other.losses(mixtures)[..., :5] - losses[4]).mean(0).abs().max()) > 0.01


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


def test_checks_say_how_far_a_task_moves() -> None:
    """A task of which a nat of the domains is worth 1, but whose losses move 0.7 times as far."""
    held: dict[bool, list[bool]] = {False: [], True: []}
    widths: dict[bool, list[float]] = {False: [], True: []}
    slopes: dict[bool, list[float]] = {False: [], True: []}
    told_of: list[bool] = []
    mixtures = torch.tensor([[0.6, 0.2, 0.1, 0.05, 0.05], [0.05, 0.05, 0.1, 0.2, 0.6]]).double()
    rows = torch.cat([unseen(4), mixtures])
    for seed in range(6):
        before = planted_forecast(seed=seed, noise=NOISE)
        generator = torch.Generator().manual_seed(seed)
        start = true_losses(UNIFORM[None], seed)
        truth = 0.7 * ((true_losses(rows, seed) - start) @ MADE["one"])
        truth += NOISE * torch.randn(len(rows), generator=generator).double()
        losses = true_losses(rows, seed)
        losses += NOISE * torch.randn(losses.shape, generator=generator).double()
        known, length = before.known, before.length
        checks = torch.full((len(known.tokens) + 4, 1), math.nan).double()
        checks[-4:, 0] = truth[:4]
        for checked in (False, True):
            runs = dataclasses.replace(
                known,
                tokens=torch.cat([known.tokens, length * rows[:4]]),
                losses=torch.cat([known.losses, losses[:4]]),
                of_checks=checks if checked else None,
            )
            target = Target(importance=1.0, compositions=before.compositions[:, 0], unit="bits")
            forecast = forecast_of(NAMES, runs, {"one": target}, seed)
            slopes[checked].append(float(forecast.factors.mean()))
            assert checked or forecast.notes() == []
            told_of.append("'one' 0." in " ".join(forecast.notes()))
            for mixture, own in zip(rows[4:], truth[4:], strict=True):
                told = forecast.difference(mixture, UNIFORM)["one"]
                held[checked].append(told.low <= own <= told.high)
                widths[checked].append(told.high - told.low)
    assert np.mean(slopes[False]) == pytest.approx(1, abs=0.01)
    assert np.mean(slopes[True]) == pytest.approx(0.75, abs=0.1)
    assert np.mean(widths[True]) < np.mean(widths[False])
    assert np.mean(held[True]) >= 0.8
    assert any(told_of), "what is surely less than 1 is told"
