"""Is a regression's mixture to be believed? Runs enough, and better than the prior."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.report.regression_verdicts import (
    compared_with,
    judge_distance,
    judge_gain,
    judge_regression,
    judge_runs,
    too_few_runs,
)
from bydore_pyro.report.run_record import RunRecord
from bydore_pyro.report.verdicts import verdicts_of


def record(runs: int = 3, prior: tuple[float, ...] | None = (0.8, 0.2), **gain: Any) -> RunRecord:
    details = {"runs": runs, "gain_over_prior": gain}
    return RunRecord(
        path=Path("run"),
        label="run",
        metrics={"method": "regmix", "details": details},
        mixture=Mixture(
            names=("a", "b"),
            weights=(0.6, 0.4),
            hdi=((0.55, 0.7), (0.3, 0.45)),
            prior=prior,
            predicted_loss={"weights": (3.0, 0.1), "prior": (3.2, None)},
        ),
    )


def test_runs_are_held_against_domains() -> None:
    assert too_few_runs(record(1))
    assert not too_few_runs(record(2))
    found = judge_runs(record(1))
    assert found is not None
    assert (found.level, found.answer) == ("bad", "No")
    assert "1 runs of 2 domains" in found.figures
    (decided,) = (v for v in verdicts_of(record(1)) if v.question == "How much is decided?")
    assert decided.level == "bad"
    other = RunRecord(path=Path("run"), label="run", metrics={"method": "doremi"})
    assert judge_runs(other) is judge_gain(other) is None


@pytest.mark.parametrize(
    ("mean", "probability", "level"),
    [(0.2, 0.99, "good"), (0.2, 0.8, "careful"), (0.0, 0.0, "bad"), (0.2, None, "unknown")],
)
def test_an_improvement_is_called_one_where_it_is(
    mean: float, probability: float | None, level: str
) -> None:
    found = judge_gain(record(mean=mean, probability=probability))
    assert found is not None
    assert found.level == level
    assert "these weights 3.0000 ± 0.1000; prior 3.2000" in found.figures


def test_intervals_are_held_against_the_prior() -> None:
    """Against equal shares both would be decided the other way round."""
    (decided,) = (v for v in verdicts_of(record()) if v.question == "How much is decided?")
    assert "its share of the prior" in decided.figures
    assert record().mixture.verdicts() == {"a": "below", "b": "above"}  # type: ignore[union-attr]
    assert compared_with(record(prior=None))[1] == "the uniform share 0.500"


@pytest.mark.parametrize(("rank", "level"), [(95.0, "good"), (40.0, "careful")])
def test_a_regression_is_judged_by_left_out_runs(rank: float, level: str) -> None:
    one = record()
    assert judge_regression(one) is judge_distance(one) is None
    row = {"spearman_x100": rank, "rmse": 0.1, "coverage": 0.94}
    one.metrics["details"].update(  # type: ignore[index]
        regression="linear",
        regressions={"linear": row},
        distance={"farther_than": rank / 100, "words": "The nearest run."},
    )
    found, far = judge_regression(one), judge_distance(one)
    assert found is not None
    assert far is not None
    assert found.level == level
    assert "94 % in their 94 % intervals" in found.figures
    assert far.level == ("careful" if rank > 94 else "good")
    assert far.figures == "The nearest run."
