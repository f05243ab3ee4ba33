"""What is forecast of mixtures that no run has trained on, under laws that are known."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from planted_forecasts import (
    MADE,
    NAMES,
    UNIFORM,
    planted_forecast,
    true_losses,
    true_target_losses,
)
from scipy.stats import spearmanr
from torch.distributions import Dirichlet

from bydore_pyro.answer.forecast import (
    ALL,
    WORST,
    Curve,
    Difference,
    Expected,
    Forecast,
    forecast_of,
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


def test_differences_are_paired_and_their_intervals_hold() -> None:
    mixtures, held, narrower = unseen(), [], []
    for seed in range(3):
        forecast = planted_forecast(seed=seed)
        base = float(true_target_losses(UNIFORM[None], seed=seed))
        for mixture, truth in zip(mixtures, true_target_losses(mixtures, seed=seed), strict=True):
            row = forecast.difference(mixture, UNIFORM)["one"]
            assert isinstance(row, Difference)
            held.append(row.low <= float(truth) - base <= row.high)
            alone = forecast.expected(mixture)["one"]
            narrower.append((row.high - row.low) / (alone.high - alone.low))
            if abs(float(truth) - base) > 0.2:
                assert (row.better > 0.5) == (float(truth) < base)
    assert np.mean(held) > 0.9
    assert np.mean(narrower) < 1.05, "the level drops out"
    same = forecast.difference(UNIFORM, UNIFORM)["one"]
    assert same.low < 0 < same.high
    assert same.loss == pytest.approx(0, abs=0.01)


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
        of = {"one": torch.nn.functional.pad(made, (0, count - 4))[None]}
        found = forecast_of(NAMES[:count], known, of, {"one": 1.0}, [0.3])
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
    other = forecast_of(NAMES[:4], gone, {"one": made[None]}, {"one": 1.0}, [0.3])
    assert float((other.losses(mixtures)[..., :5] - losses[4]).mean(0).abs().max()) > 0.01


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
