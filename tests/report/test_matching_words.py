"""What rounds of gradient matching found, in words."""

from __future__ import annotations

import pytest
from report_runs import NAMES, matching_of

from bydore_pyro.report.matching_words import (
    MOST_ROWS,
    Round,
    check_told,
    covered,
    inference_told,
    last_alone,
    round_tables,
    rounds_in,
    scale_told,
    width_told,
)
from bydore_pyro.report.words import ABSENT

METRICS = {"matching": matching_of()}


def test_rounds_are_read_as_far_as_they_are_there() -> None:
    rounds = rounds_in(METRICS)
    assert [one.step for one in rounds] == [10, 20, 30]
    assert rounds[0].alone["code"] < rounds[1].alone["code"] < rounds[2].alone["code"]
    assert rounds[2].figures["validation_loss"] == 3.0
    for damaged in (
        {},
        {"matching": 3},
        {"matching": {"rounds": 3}},
        {"matching": {"rounds": [1]}},
    ):
        assert rounds_in(damaged) == []
        assert check_told(damaged) is None
        assert width_told(damaged) == ""
    bare = rounds_in({"matching": {"rounds": [{"step": 4, "weights": {"a": "x"}}]}})
    assert bare == [Round(step=4, alone={}, weights={}, settled=False, figures={"step": 4.0})]
    weights, figures = round_tables(bare)
    assert (weights.header, weights.rows) == (["domain", "round 1"], [])
    assert figures.rows[0][:3] == ("1", "4", ABSENT)
    assert round_tables([]) == []


@pytest.mark.parametrize(
    ("unexplained", "told"),
    [
        (0.04, "Their best mixture leaves 4.0 % of"),
        (0.44, "No mixture of these domains teaches 44 % of what the target asks for."),
        (0.8, "asks for. More text like the target"),
    ],
)
def test_the_unexplained_share(unexplained: float, told: str) -> None:
    assert told in covered(unexplained)
    assert scale_told(1.06).startswith("The scale is 1.06: 1 where")
    assert scale_told(None) == ""


def test_the_check_on_fresh_text() -> None:
    found = check_told(METRICS)
    assert found is not None
    assert found[:2] == ([], 4)
    assert found[2] == "On fresh text none of 4 domains contradicts the mixture."
    slopes = {"code": -0.01, "law": 0.01, "prose": 0.0, "web": 0.0}
    check = {"slopes": slopes, "failing": ["code", "law", "nowhere"]}
    found = check_told({"matching": {"check": check}})
    assert found is not None
    assert found[0] == ["code", "law"]
    assert found[2] == (
        "On fresh text 2 of 4 domains contradict the mixture: more of law and less of code would "
        "match the target better."
    )


def test_how_far_the_last_round_alone_is_from_all_rounds() -> None:
    rounds = rounds_in(METRICS)
    last = rounds[-1].weights
    # The last of three lies a sixteenth of the way to the mixture turned round.
    apart = sum(abs(last[a] - last[b]) for a, b in zip(NAMES, NAMES[::-1], strict=True)) / 2
    assert last_alone(rounds) == pytest.approx(apart / 16)
    assert last_alone(rounds[:1]) is None
    assert inference_told(rounds) == "Inference settled in every round."
    assert inference_told(rounds[:1]) == "Inference settled."
    late = [Round(step=1, alone={}, weights={}, settled=False, figures={})] * 2
    assert inference_told([*rounds, *late]).endswith("in rounds 4, 5.")
    assert "1.6 times those by sequence" in width_told(METRICS)


def test_the_tables_of_the_rounds() -> None:
    names = [f"domain {i:02d}" for i in range(20)]
    weights, figures = round_tables(rounds_in({"matching": matching_of(names)}))
    assert dict(zip(figures.header, figures.rows[1], strict=True)) == {
        "round": "2", "after step": "20", "sequences": "1,002", "validation loss": "4.000",
        "unexplained": "4.0 %", "scale": "1.06", "inference": "settled after 350 steps",
    }  # fmt: skip
    assert weights.header == [
        "domain", "round 1", "round 2 alone", "rounds 1 to 2", "round 3 alone", "rounds 1 to 3",
    ]  # fmt: skip
    assert [row[0] for row in weights.rows] == names[:MOST_ROWS]
    assert all(len(row) == len(weights.header) for row in weights.rows)
