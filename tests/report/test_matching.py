"""What a search by gradient matching found: the tables of its rounds, and its own verdicts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from report_runs import matching_of, record_of, write_matching

from bydore_pyro.report.matching import (
    MOST_ROWS,
    judge_check,
    judge_corrected,
    judge_coverage,
    judge_rounds,
    round_tables,
    weighed,
)
from bydore_pyro.report.run_record import RunRecord, read_run
from bydore_pyro.report.thresholds import Verdict
from bydore_pyro.report.verdicts import average_start, verdicts_of

ROUNDS = matching_of()["rounds"]


def matched(**matching: Any) -> RunRecord:
    return record_of(metrics={"matching": matching_of(**matching)})


def found(judge: Callable[[RunRecord], Verdict | None], record: RunRecord) -> Verdict:
    verdict = judge(record)
    assert verdict is not None
    return verdict


def test_the_verdicts_of_a_whole_run(tmp_path: Path) -> None:
    record = read_run(write_matching(tmp_path / "run"))
    assert record.by_matching
    assert average_start(record) == 29
    assert {verdict.question: verdict.level for verdict in verdicts_of(record)} == {
        "Do the domains cover the target?": "good",
        "Has it settled?": "good",
        "How much is decided?": "good",
        "Does the mixture hold on fresh text?": "good",
        "Is the posterior's width to be believed?": "good",
        "Would another seed find the same?": "unknown",
        "Is text read too often?": "good",
    }


@pytest.mark.parametrize(
    ("unexplained", "level", "told"),
    [
        (0.04, "good", "Their best mixture leaves 4.0 % of"),
        (0.44, "careful", "No mixture of these domains teaches 44 % of what the target asks for. "),
        (0.8, "bad", "asks for. More text like the target"),
    ],
)
def test_coverage(unexplained: float, level: str, told: str) -> None:
    verdict = found(judge_coverage, matched(unexplained=unexplained))
    assert verdict.level == level
    assert told in verdict.figures
    assert verdict.figures.endswith("The scale is 1.06: 1 where the target is a mixture of the "
                                    "domains.")  # fmt: skip
    assert "scale" not in found(judge_coverage, matched(scale=None)).figures
    assert judge_coverage(matched(unexplained="x")) is None


@pytest.mark.parametrize(
    ("rounds", "level", "answer", "told"),
    [
        # The last of three lies a sixteenth of the way to the mixture turned round.
        (ROUNDS, "good", "Yes", "all rounds by 0.029 in total variation."),
        (
            [ROUNDS[0], {**ROUNDS[2], "alone": {"web": 1.0}}],
            *("bad", "No, the rounds differ", "Inference settled after 350 steps."),
        ),
        (ROUNDS[:1], "unknown", "One round cannot tell", "nothing to compare."),
    ],
)
def test_rounds_that_agree_or_do_not(
    rounds: list[dict[str, Any]], level: str, answer: str, told: str
) -> None:
    verdict = found(judge_rounds, matched(rounds=rounds))
    assert (verdict.level, verdict.answer) == (level, answer)
    assert told in verdict.figures
    assert judge_rounds(matched(rounds=[])) is None


def test_inference_that_ran_out_of_steps_is_told() -> None:
    verdict = found(judge_rounds, matched(inference={"steps": 1500, "settled": False}))
    assert (verdict.level, verdict.answer) == ("bad", "No, inference ran out of steps")
    assert "Inference ran out of 1500 steps." in verdict.figures


def test_the_check() -> None:
    verdict = found(judge_check, matched())
    assert verdict.level == "good"
    assert verdict.figures == "On fresh text none of 4 domains contradicts the mixture."
    slopes = {"code": -0.01, "law": 0.01, "prose": 0.0, "web": 0.0}
    check = {"slopes": slopes, "failing": ["code", "law", "nowhere"]}
    verdict = found(judge_check, matched(check=check))
    assert (verdict.level, verdict.answer) == ("bad", "Not for 2 of 4 domains")
    assert verdict.figures == (
        "On fresh text 2 of 4 domains contradict the mixture: more of law and less of code would "
        "match the target better."
    )
    assert judge_check(matched(check=None)) is None


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
    record = record_of(metrics={"guide_fit": fit, "matching": matching_of()})
    verdict = found(judge_corrected, record)
    assert (verdict.level, verdict.answer) == (level, answer)
    assert f"k-hat {khat} " in verdict.figures.replace("1.40", "1.4")
    assert "908 effective of 8000 draws" in verdict.figures
    assert "1.6 times those by sequence" in verdict.figures
    for damaged in ({"khat": "x"}, {"khat": None}, 3):
        record = record_of(metrics={"guide_fit": damaged})
        assert weighed(record) is judge_corrected(record) is None


def test_the_tables_of_the_rounds() -> None:
    names = [f"domain {i:02d}" for i in range(20)]
    record = record_of(metrics={"matching": matching_of(names)})
    weights, figures = round_tables(record.metrics.matching.rounds)
    assert dict(zip(figures.header, figures.rows[1], strict=True)) == {
        "round": "2", "after step": "20", "sequences": "1,002", "validation loss": "4.000",
        "unexplained": "4.0 %", "scale": "1.06",
    }  # fmt: skip
    assert weights.header == [
        "domain", "round 1", "round 2 alone", "rounds 1 to 2", "round 3 alone", "rounds 1 to 3",
    ]  # fmt: skip
    assert [row[0] for row in weights.rows] == names[:MOST_ROWS]
    assert all(len(row) == len(weights.header) for row in weights.rows)
    assert round_tables(()) == []
