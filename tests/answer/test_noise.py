"""Noise between runs, and what would decide a target, against figures that are planted."""

from __future__ import annotations

import dataclasses
import math
from statistics import NormalDist

import pytest
import torch
from planted_forecasts import MADE, UNIFORM, planted_forecast

from bydore_pyro.answer.forecast import ALL, Forecast, Noise, noise_variance, off_the_law
from bydore_pyro.answer.noise import MOST_RUNS, Needed, needed, noise_of, noise_of_runs

NEAR = torch.tensor([0.3, 0.2, 0.15, 0.15, 0.2]).double()  # to equal weights


def test_the_noise_of_a_text_is_that_of_draws_of_it() -> None:
    """Some of it is shared by all domains."""
    made = torch.tensor([[0.7, 0.3, 0.0], [0.2, 0.2, 0.9]]).double()
    sigma = torch.tensor([[0.1, 0.2, 0.05]]).double()
    drawn = off_the_law(sigma.expand(200_000, 1, 3), seed=5) @ made.T
    torch.testing.assert_close(noise_variance(made, sigma), drawn[:, 0].var(0), rtol=0.02, atol=0)


def known(noise: float = 0.1, *, spread: float = 0.0, documents: int = 100) -> Forecast:
    """A forecast of a law that is known, whose runs are noisy, of a target that is made of the
    first domain and the last in shares that are known up to a spread."""
    forecast = planted_forecast()
    draws = {
        name: getattr(forecast.draws, name).mean(0, keepdim=True).expand_as(old)
        for name, old in vars(forecast.draws).items()
        if name not in ("runs", "noise", "transfer")
    }
    draws["noise"] = torch.full_like(forecast.draws.noise, noise)
    transfer = forecast.draws.transfer
    if transfer.dim() == 3:
        draws["transfer"] = transfer.mean(0, keepdim=True).expand_as(transfer)
    made = torch.zeros_like(forecast.compositions)
    normal = torch.randn(len(made), generator=torch.Generator().manual_seed(3)).double()
    made[:, 0, 0] = 0.5 + spread * (normal - normal.mean()) / normal.std()
    made[:, 0, 4] = 1 - made[:, 0, 0]
    return dataclasses.replace(
        forecast,
        draws=dataclasses.replace(forecast.draws, **draws),
        compositions=made,
        levels=torch.zeros_like(forecast.levels),
        scatter=torch.zeros(1).double(),
        documents={"one": documents},
    )


def test_the_noise_of_runs_is_pooled_over_mixtures() -> None:
    """With mixtures that differ, and some that were trained on once."""
    found = noise_of_runs([[1.0, 1.2], [5.0, 5.0, 5.3], [7.0]])
    squares = 2 * 0.1**2 + 2 * 0.1**2 + 0.2**2
    assert found == Noise(deviation=pytest.approx(math.sqrt(squares / 3)), runs=5)
    assert noise_of_runs([[1.0, 1.2], [3.0]]) is None, "two runs say hardly anything"
    assert noise_of_runs([]) is None


def test_by_the_laws_noise_a_part_is_shared() -> None:
    forecast = known(0.1)
    expected = 0.1 * math.sqrt(0.15 + 0.85 / 2)
    assert noise_of(forecast) == {"one": Noise(deviation=pytest.approx(expected))}
    both = planted_forecast({"one": 0.5, "other": 0.5})
    off = both.measured(UNIFORM[None])[:, 0] - both.losses(UNIFORM[None])[:, 0].repeat(4, 1)
    found = noise_of(both)
    assert [*found] == ["one", "other", ALL]
    for text, one in found.items():
        own = off[:, both.texts.index(text)].std()
        assert one.deviation == pytest.approx(float(own), rel=0.1), text
    assert [*noise_of(dataclasses.replace(both, worst=True))] == ["one", "other"]
    measured = Noise(deviation=0.3, runs=4)
    assert noise_of(dataclasses.replace(forecast, noise={"one": measured}))["one"] == measured


def test_so_many_runs_decide_what_two_do_not() -> None:
    """A difference of the means of N runs is below 0 with a probability of 0.9; of N - 1, less."""
    forecast = known(0.1)
    noise = noise_of(forecast)
    found = needed(forecast, NEAR, UNIFORM, noise)["one"]
    assert isinstance(found, Needed)
    apart = forecast.losses(torch.stack([NEAR, UNIFORM]))[:, :, 0].mean(0)
    difference, deviation = float(apart[0] - apart[1]), noise["one"].deviation

    def sure(runs: float) -> float:
        return NormalDist().cdf(abs(difference) / (deviation * math.sqrt(2 / runs)))

    assert 1 < found.runs < MOST_RUNS
    assert sure(found.runs) >= 0.9 > sure(found.runs - 1)
    assert found.documents is None, "what the target is made of is known"


def test_so_many_documents_more_decide_what_is_open_for_the_making() -> None:
    """With as many, the spread of the composition is less by a root, and the target is decided."""
    far = torch.tensor([0.5, 0.15, 0.1, 0.1, 0.15]).double()
    forecast = known(0.001, spread=0.3, documents=100)
    noise = noise_of(forecast)
    assert 0.1 < forecast.difference(far, UNIFORM)["one"].better < 0.9
    found = needed(forecast, far, UNIFORM, noise)["one"]
    assert found.documents is not None
    for documents, decided in ((1.2 * found.documents, True), (0.6 * found.documents, False)):
        spread = 0.3 * math.sqrt(100 / (100 + documents))
        better = forecast_better(known(0.001, spread=spread), far)
        assert (max(better, 1 - better) >= 0.9) == decided
    assert found.runs == 1, "runs are hardly noisy"
    unknown = dataclasses.replace(forecast, documents={})
    assert needed(unknown, far, UNIFORM, noise)["one"].documents is None


def forecast_better(forecast: Forecast, mixture: torch.Tensor) -> float:
    return float(forecast.difference(mixture, UNIFORM)["one"].better)


def test_what_is_decided_needs_nothing_and_what_is_equal_more_than_anything() -> None:
    forecast = planted_forecast()
    noise = noise_of(forecast)
    assert needed(forecast, MADE["one"], UNIFORM, noise) == {}
    assert needed(forecast, UNIFORM, UNIFORM, noise) == {"one": Needed(runs=MOST_RUNS)}
