"""The record of a run: what is written is read, and what is damaged is empty."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from report_runs import matching_of, metrics_of

from bydore_pyro.runs.record import (
    Check,
    GuideRecord,
    Inferred,
    Learning,
    MatchingRecord,
    MethodDetails,
    Metrics,
    RoundRecord,
    Spent,
    Trial,
    TrialRecord,
    as_number,
    plain,
    read_as,
)

SHARES = {"a": 0.25, "b": 0.75}
WHOLE = Metrics(
    method="regmix",
    seed=1.0,
    search=Spent(tokens=2.0, flops=3.0, seconds=0.5, parts={"train": Spent(tokens=1.0)}),
    learning=Learning(validation_loss=3.0, warning="it has not"),
    matching=MatchingRecord(
        unexplained=0.1,
        rounds=(RoundRecord(step=5.0, weights=SHARES, alone=SHARES),),
        inference=Inferred(steps=9.0, settled=True),
        check=Check(slopes=SHARES, errors=SHARES, failing=("b",)),
    ),
    trials=TrialRecord(steps=4.0, tried=(Trial(length=1.0, loss=2.0, probability=0.5),)),
    guide_fit=GuideRecord(khat=math.inf, corrected=True),
    details=MethodDetails(runs=3.0, trials=TrialRecord(steps=4.0)),
    versions={"python": "3.11"},
)


def test_what_is_written_is_read() -> None:
    text = json.dumps(plain(WHOLE), allow_nan=False)
    assert read_as(Metrics, json.loads(text)) == WHOLE
    assert plain(Metrics()) == {}


def test_files_of_searches_are_read() -> None:
    found = read_as(Metrics, metrics_of(matching=matching_of(), more=3))
    assert found.search.parts["train"] == Spent(tokens=15_360.0, flops=1e9, seconds=4.0)
    assert found.matching.rounds[2].validation_loss == 3.0


@pytest.mark.parametrize("damage", [None, 3, "x", [3], {"a": 3}, True])
def test_what_is_of_another_kind_is_empty(damage: object) -> None:
    names = ("search", "matching", "guide_fit", "run_epochs")
    found = read_as(Metrics, dict.fromkeys(names, damage))
    assert (found.search, found.matching) == (Spent(), MatchingRecord())
    parts = {"details": dict.fromkeys(("regressions", "distance", "predictions"), damage)}
    assert read_as(Metrics, parts).details == MethodDetails()


def test_numbers_are_finite_but_for_a_word() -> None:
    assert [as_number(v) for v in (1, 2.5, np.float64(3), "infinite")] == [1.0, 2.5, 3.0, math.inf]
    huge = json.loads("1" + "0" * 400)
    for value in (None, True, "1", float("nan"), float("inf"), huge, [1]):
        assert as_number(value) is None
