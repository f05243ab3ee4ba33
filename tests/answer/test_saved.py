"""How much longer another mixture must train, where the law and so the answer are known."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from planted_forecasts import MADE, NAMES, UNIFORM, planted_forecast

from bydore_pyro.answer.forecast import ALL, Forecast
from bydore_pyro.answer.saved import Saved, compute_saved
from bydore_pyro.law.carrying import FAR

OTHER = torch.tensor([0.1, 0.1, 0.2, 0.3, 0.3]).double()


def known(**given: float) -> Forecast:
    """A forecast whose law has one slope for all domains and next to no power: losses are linear in
    the logarithm of the effective tokens."""
    forecast = planted_forecast({"one": 1.0, "other": 1.0})
    draws = forecast.draws
    changed = {
        "slope": torch.full_like(draws.slope, given.get("slope", 0.4)),
        "power": torch.full_like(draws.power, 1e-6),
    }
    compositions = torch.stack([*MADE.values()])
    return dataclasses.replace(
        forecast, draws=dataclasses.replace(draws, **changed), compositions=compositions
    )


@pytest.mark.parametrize("slope", [0.1, 0.4])
def test_with_one_slope_the_times_have_a_closed_form(slope: float) -> None:
    """``log r = (L(other) - L(mixture)) / (S rho)``, whatever S is."""
    forecast, mixture = known(slope=slope), MADE["one"]
    losses = forecast.losses(torch.stack([mixture, OTHER]))
    apart = (losses[:, 1] - losses[:, 0]) / (slope * forecast.draws.runs.rho)
    expected = apart.clamp(-math.log(FAR), math.log(FAR)).exp()
    found = compute_saved(forecast, mixture, {"natural": OTHER})["natural"]
    assert [*found] == ["one", "other", ALL]
    for place, text in ((0, "one"), (1, "other"), (-1, ALL)):
        assert isinstance(found[text], Saved)
        own = expected[:, place]
        assert found[text].times == pytest.approx(float(own.quantile(0.5)), rel=1e-3), text
        held = (found[text].low <= own) & (own <= found[text].high)
        assert float(held.double().mean()) == pytest.approx(0.94, abs=0.01), text
        assert found[text].low <= found[text].times <= found[text].high
    assert found["one"].times > 1.1
    assert found["other"].times < 0.9, "the mixture is worse there"


def test_a_run_that_trains_so_many_times_longer_has_the_same_loss() -> None:
    """Under the law as it was fitted, draw by draw in the median."""
    forecast = planted_forecast()
    found = compute_saved(forecast, MADE["one"], {"uniform": UNIFORM})["uniform"]["one"]
    own = forecast.losses(MADE["one"][None])[:, 0, 0]
    later = forecast.losses(UNIFORM[None], found.times)[:, 0, 0]
    assert float((later - own).quantile(0.5)) == pytest.approx(0, abs=2e-3)
    assert 1 < found.low < found.times < found.high < FAR


def test_the_mixture_itself_trains_as_long_and_two_mixtures_are_each_others_inverse() -> None:
    forecast = known()
    found = compute_saved(forecast, UNIFORM, {"uniform": UNIFORM, "other": OTHER})
    for saved in found["uniform"].values():
        assert (saved.times, saved.low, saved.high) == pytest.approx((1.0, 1.0, 1.0), abs=1e-3)
    back = compute_saved(forecast, OTHER, {"uniform": UNIFORM})["uniform"]
    for text, saved in found["other"].items():
        assert saved.times * back[text].times == pytest.approx(1, rel=2e-3)
    assert compute_saved(forecast, UNIFORM, {}) == {}


def test_beyond_four_times_nothing_is_said() -> None:
    forecast, corner = known(slope=0.05), torch.tensor([0, 0, 0, 0.01, 0.99]).double()
    found = compute_saved(forecast, MADE["one"], {"corner": corner})["corner"]
    assert (found["one"].times, found["one"].high) == pytest.approx((FAR, FAR))
    back = compute_saved(forecast, corner, {"one": MADE["one"]})["one"]["one"]
    assert (back.times, back.low) == pytest.approx((1 / FAR, 1 / FAR))


@pytest.mark.parametrize("worst", [False, True])
def test_domains_are_no_targets(worst: bool) -> None:
    forecast = dataclasses.replace(known(), worst=worst)
    found = compute_saved(forecast, UNIFORM, {"other": OTHER})["other"]
    assert not {f"domain {name}" for name in NAMES} & {*found}
    assert [*found][-1] == forecast.texts[-1]
