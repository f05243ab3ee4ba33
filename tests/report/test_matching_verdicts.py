"""Is a mixture found by gradient matching to be believed?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from report_runs import matching_of, metrics_of, mixture_with_intervals, write_matching

from bydore_pyro.report.matching_verdicts import (
    FITS_QUESTION,
    SETTLED_QUESTION,
    judge_check,
    judge_corrected,
    judge_coverage,
    judge_rounds,
    weighed,
)
from bydore_pyro.report.run_record import RunRecord, read_run
from bydore_pyro.report.verdicts import average_start, verdicts_of


def record_of(fit: Any = None, **matching: Any) -> RunRecord:
    metrics = metrics_of(matching=matching_of(**matching))
    if fit is not None:
        metrics["guide_fit"] = fit
    return RunRecord(
        path=Path("run"), label="run", metrics=metrics, mixture=mixture_with_intervals()
    )


def test_the_verdicts_of_a_whole_run(tmp_path: Path) -> None:
    record = read_run(write_matching(tmp_path / "run"))
    assert record.by_matching
    assert average_start(record) == 29
    found = {verdict.question: verdict.level for verdict in verdicts_of(record)}
    assert found == {
        "Do the domains cover the target?": "good",
        SETTLED_QUESTION: "good",
        "How much is decided?": "good",
        "Does the mixture hold on fresh text?": "good",
        FITS_QUESTION: "good",
        "Would another seed find the same?": "unknown",
        "Is text read too often?": "good",
    }


@pytest.mark.parametrize(
    ("unexplained", "level"), [(0.04, "good"), (0.44, "careful"), (0.8, "bad")]
)
def test_coverage(unexplained: float, level: str) -> None:
    found = judge_coverage(record_of(unexplained=unexplained))
    assert found is not None
    assert found.level == level
    assert "The scale is 1.06" in found.figures
    assert judge_coverage(record_of(unexplained="x")) is None


def test_rounds_that_agree_or_do_not() -> None:
    rounds = matching_of()["rounds"]
    found = judge_rounds(record_of())
    assert found is not None
    assert (found.level, found.answer) == ("good", "Yes")
    assert "The last of 3 rounds alone finds weights that differ from those of all" in found.figures
    far = [rounds[0], {**rounds[2], "alone": {"web": 1.0}}]
    found = judge_rounds(record_of(rounds=far))
    assert found is not None
    assert (found.level, found.answer) == ("bad", "No, the rounds differ")
    late = [*rounds[:2], {**rounds[2], "settled": False}]
    found = judge_rounds(record_of(rounds=late))
    assert found is not None
    assert (found.level, found.answer) == ("bad", "No, inference ran out of steps")
    assert "ran out of steps in round 3" in found.figures
    found = judge_rounds(record_of(rounds=rounds[:1]))
    assert found is not None
    assert found.level == "unknown"
    assert judge_rounds(record_of(rounds=[])) is None


def test_the_check() -> None:
    for failing, level in (([], "good"), (["law"], "bad")):
        check = {**matching_of()["check"], "failing": failing}
        found = judge_check(record_of(check=check))
        assert found is not None
        assert found.level == level
    assert judge_check(record_of(check=None)) is None


@pytest.mark.parametrize(
    ("khat", "corrected", "level", "answer"),
    [
        (0.57, True, "good", "Yes"),
        (1.4, True, "good", "Yes, after its correction"),
        ("infinite", True, "good", "Yes, after its correction"),
        (1.4, False, "bad", "Not as a posterior"),
    ],
)
def test_the_posteriors_width(khat: object, corrected: bool, level: str, answer: str) -> None:
    fit = {"khat": khat, "effective_draws": 908.4, "draws": 8000, "corrected": corrected}
    found = judge_corrected(record_of(fit))
    assert found is not None
    assert (found.level, found.answer) == (level, answer)
    assert "908 effective of 8000 draws" in found.figures
    assert "Documents count as witnesses" in found.figures
    assert "g frozen" not in found.figures


def test_damaged_figures_are_not_judged() -> None:
    for fit in ({"khat": "x"}, {"khat": None}, 3):
        assert weighed(record_of(fit)) is None
        assert judge_corrected(record_of(fit)) is None
