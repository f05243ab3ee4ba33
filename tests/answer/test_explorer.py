"""The numbers of a page make the forecast that they were taken from."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from planted_forecasts import NAMES, UNIFORM, bound, planted_forecast, question

from bydore_pyro.answer.explorer import Explorer, ForecastRecord, explorer_of
from bydore_pyro.answer.forecast import Forecast
from bydore_pyro.law.law import law_losses

MIXTURE = torch.tensor([0.4, 0.3, 0.2, 0.1, 0.0], dtype=torch.double)


def taken(forecast: Forecast, **given: Any) -> tuple[Explorer, ForecastRecord, dict[str, Any]]:
    page, numbers = explorer_of(question(**given), MIXTURE, forecast)
    assert page.law is not None
    return page, page.law, numbers


@pytest.mark.parametrize("importance", [{"one": 1.0}, {"one": 1.0, "other": 3.0}])
def test_expected_losses_follow_from_the_numbers_alone(importance: dict[str, float]) -> None:
    forecast = planted_forecast(importance, unexplained=0.4, runs=3)
    _, law, numbers = taken(forecast)
    n = {name: values.double() for name, values in numbers.items()}
    amounts = (MIXTURE * law.length / law.reference) ** law.rho
    ratio = amounts + n["openness"] * (n["transfer"] @ amounts)
    domains = law_losses(n["level"], n["slope"], n["power"], ratio)
    targets = (n["compositions"] @ domains[..., None])[..., 0] + n["levels"]
    away = (MIXTURE - torch.tensor(law.trained)).abs().sum(1).min() / 2
    targets = n["start"] + n["factor"] * (targets - n["start"]) + n["scattered"] * away.sqrt()
    expected = forecast.losses(MIXTURE[None])[:, 0, : len(importance)]
    torch.testing.assert_close(targets, expected, rtol=0, atol=1e-6)
    measured = torch.cat([targets + n["off"], targets - n["off"]])
    for name, draws in zip(importance, measured.T, strict=True):
        assert float(draws.mean()) == pytest.approx(forecast.expected(MIXTURE)[name].loss, abs=1e-6)
    assert n["off_both"].shape == (len(targets), 2, len(importance))
    assert law.importance == forecast.importance
    assert all(values.dtype == torch.float32 for values in numbers.values())


def test_the_runs_say_what_was_measured() -> None:
    forecast = planted_forecast(runs=3)
    _, law, numbers = taken(forecast)
    low, high = numbers["seen"]
    assert (low < high).all()
    assert len(law.trained) == len(forecast.known.of_targets)
    assert all(sum(row) == pytest.approx(1) for row in law.trained)


def test_the_question_is_kept_as_far_as_it_says_anything() -> None:
    bounds = {"at_least": bound(0.0, a=0.1), "at_most": bound(1.0, b=0.5)}
    page, law, _ = taken(planted_forecast(), **bounds)
    assert page.weights == dict(zip(NAMES, MIXTURE.tolist(), strict=True))
    assert page.references == {"uniform": dict(zip(NAMES, UNIFORM.tolist(), strict=True))}
    assert (page.at_least, page.at_most) == ({"a": 0.1}, {"b": 0.5})
    assert not law.worst
    assert taken(planted_forecast(), objective="worst")[1].worst


def test_without_a_forecast_there_is_a_reason() -> None:
    page, numbers = explorer_of(question(), MIXTURE, None, reason="No runs.", sizes={"a": 10.0})
    assert page.law is None
    assert page.reason == "No runs."
    assert page.sizes == {"a": 10.0}
    assert numbers == {}
    page, _ = explorer_of(question(), MIXTURE, planted_forecast(), reason="No runs.")
    assert page.reason == ""


def test_of_many_numbers_draws_are_left_out_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    forecast = planted_forecast({"one": 1.0, "other": 1.0})
    _, law, numbers = taken(forecast)
    assert law.left_out == 0
    every = sum(values.numel() for values in numbers.values())
    monkeypatch.setattr("bydore_pyro.answer.explorer.MOST_NUMBERS", every // 4)
    _, law, fewer = taken(forecast)
    assert every / 5 < sum(values.numel() for values in fewer.values()) <= every // 4
    kept = len(fewer["level"])
    assert law.left_out == law.draws - kept
    assert torch.equal(fewer["level"][[0, -1]], numbers["level"][[0, -1]])
    torch.testing.assert_close(fewer["off"].std(0), numbers["off"].std(0), rtol=0.4, atol=0)
