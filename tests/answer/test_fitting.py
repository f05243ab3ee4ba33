"""How forecasts are fitted: levels, their scatter, runs on other domains, checks."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from planted_forecasts import MADE, NAMES, NOISE, UNIFORM, planted_forecast, true_losses, unseen

from bydore_pyro.answer.fitting import SCATTER, Target, forecast_of
from bydore_pyro.answer.forecast import Forecast


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
