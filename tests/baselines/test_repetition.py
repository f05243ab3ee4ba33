"""The repetition constant: recovered where it was planted, and measured with what it costs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas
import pytest
from tiny import make_problem

from bydore_pyro.baselines.repetition import (
    ReadingsConfig,
    RepetitionLaw,
    fit_repetition,
    measure_readings,
    up_to,
)
from bydore_pyro.data.store import TokenStore
from bydore_pyro.utils.errors import DataError

EPOCHS = (1, 2, 4, 8, 16)
CURVES = {"law": (2.0, 5.0, 0.3), "web": (3.0, 4.0, 0.45), "code": (1.5, 6.0, 0.6)}


def planted(constant: float, noise: float, seed: int = 0, seeds: int = 2) -> pandas.DataFrame:
    """Losses of the law itself, written out once more, with noise."""
    rows = []
    for name, (floor, slope, power) in CURVES.items():
        for e in EPOCHS:
            rows.append((name, 1000 * e, 1, floor + slope * e**-power))
        for e in EPOCHS[1:]:
            worth = 1 + constant * (1 - np.exp(-(e - 1) / constant))
            rows.append((name, 1000, e, floor + slope * worth**-power))
    readings = pandas.DataFrame(rows * seeds, columns=["domain", "text", "epochs", "loss"])
    drawn = np.random.default_rng(seed).normal(scale=noise, size=len(readings))
    return readings.assign(loss=readings["loss"] + drawn)


@pytest.mark.parametrize("constant", [0.4, 1.0, 5.0])
def test_a_planted_constant_is_recovered_with_its_curves(constant: float) -> None:
    exact = fit_repetition(planted(constant, noise=0))
    assert exact.constant == pytest.approx(constant, rel=0.05)
    for name, (floor, slope, power) in CURVES.items():
        assert exact.of_domains[name] == pytest.approx(constant, rel=0.1)
        sizes, values = np.array([*exact.curves[name].items()]).T
        np.testing.assert_allclose(values, floor + slope * (sizes / 1000) ** -power, atol=0.03)
        losses = exact.loss(name, np.array([16e3, 1e3]), np.array([1.0, 16.0]))
        worth = 1 + constant * (1 - np.exp(-15 / constant))
        law = floor + slope * np.array([16, worth]) ** -power
        np.testing.assert_allclose(losses, law, atol=0.05)
    fewer = up_to(planted(constant, noise=0), 4)
    assert (fewer["text"] * fewer["epochs"]).max() == 4000
    assert fit_repetition(fewer).constant == pytest.approx(constant, rel=0.15)
    assert exact.best_epochs == dict.fromkeys(CURVES, 16)


def test_the_interval_holds_the_planted_constant_as_often_as_it_says() -> None:
    laws = [fit_repetition(planted(1.5, noise=0.1, seed=seed)) for seed in range(25)]
    held = [law.interval[0] <= 1.5 <= law.interval[1] for law in laws]
    assert sum(held) >= 21
    for law in laws:
        assert law.misfit == pytest.approx(0.1, rel=0.4)
        assert law.noise == pytest.approx(0.1, rel=0.5)
        assert law.interval[1] / law.interval[0] < 1.6


def test_what_the_losses_do_not_tell_is_open() -> None:
    """Where repeated text is as good as fresh, R has no upper bound."""
    law = fit_repetition(planted(1e6, noise=0.02))
    assert law.interval[0] is not None
    assert law.interval[0] > 20
    assert law.interval[1] is None
    one = planted(2.0, noise=0.05, seeds=1)
    assert fit_repetition(one).noise is None
    worse = one.assign(loss=one["loss"] + np.where(one["epochs"] > 4, 2.0, 0))
    assert set(fit_repetition(worse).best_epochs.values()) == {4}


def test_trainings_are_those_of_the_plan_and_are_charged_once(
    corpus: TokenStore, tmp_path: Path
) -> None:
    config = ReadingsConfig(readings=[1, 2, 4, 8], reading_domains=2, reading_seeds=2)
    problem = make_problem(corpus, tmp_path, steps=19, batch_sequences=2)
    readings = measure_readings(problem, config)
    names = list(dict.fromkeys(readings["domain"]))
    size = {n: len(corpus.train[n]) for n in corpus.names}
    assert names == sorted(size, key=lambda n: -size[n])[:2]
    steps = readings["text"] * readings["epochs"] / (2 * 32)
    plan = [2, 4, 8, 16, 4, 8, 16]  # steps, all text different and then read again
    assert steps.tolist() == [s for s in plan for _ in range(2)] * 2
    assert set(readings["text"][readings["epochs"] > 1]) == {2 * 2 * 32}
    trained = problem.cost.report()["parts"]["train"]["tokens"]
    assert trained == 2 * 2 * sum(plan) * 2 * 32
    again = make_problem(corpus, tmp_path, steps=19, batch_sequences=2)
    stamps = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("tree.json")}
    pandas.testing.assert_frame_equal(measure_readings(again, config), readings)
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("tree.json")} == stamps
    assert again.cost.report() == problem.cost.report()
    assert isinstance(fit_repetition(readings), RepetitionLaw)


def test_too_little_text_and_bad_plans_are_refused(corpus: TokenStore, tmp_path: Path) -> None:
    problem = make_problem(corpus, tmp_path, steps=10**5)
    with pytest.raises(DataError, match=r"Expected domains of at least \d+ tokens.* at most"):
        measure_readings(problem, ReadingsConfig())
    for domains, told in ((["birds"], r"birds: \("), (["x"], "x: no such"), (["a", "a"], "once")):
        with pytest.raises(DataError, match=told):
            measure_readings(problem, ReadingsConfig(), domains)
    with pytest.raises(DataError, match="Expected --steps >= 16, at least one"):
        measure_readings(make_problem(corpus, tmp_path, steps=15), ReadingsConfig())
    for wrong in ([1, 2, 4], [2, 4, 8, 16], [1, 4, 2, 8], []):
        with pytest.raises(ValueError, match="at least four readings that increase from 1"):
            ReadingsConfig(readings=wrong)
    assert not list(tmp_path.iterdir())
