"""The keys of a run's files, read as far as they are there."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from report_runs import NAMES, manifest_of, matching_of, metrics_of

from bydore_pyro.report.run_files import (
    Cost,
    Length,
    Manifest,
    Metrics,
    Regressed,
    Round,
    as_number,
    read_as,
)


def test_what_is_there_is_read() -> None:
    fit = {"khat": "infinite", "corrected": True}
    metrics = read_as(Metrics, metrics_of(matching=matching_of(), guide_fit=fit, more=3))
    assert metrics.search.parts["train"] == Cost(15_360.0, 1e9, 4.0, {})
    assert isinstance(metrics.matching.rounds[2], Round)
    assert metrics.matching.rounds[2].validation_loss == 3.0
    assert metrics.guide_fit.khat == math.inf
    assert metrics.guide_fit.corrected
    assert metrics.versions["python"] == "3.11"
    found = read_as(Manifest, manifest_of(NAMES))
    assert (len(found.files), found.domains["law"].train["documents"]) == (2, 47)
    assert read_as(Length, {"tokens": 5}).weights == {}
    assert read_as(Regressed, {"regression": "linear"}).regression == "linear"


@pytest.mark.parametrize("damage", [None, 3, "x", [3], {"a": 3}, True])
def test_what_is_of_another_kind_is_empty(damage: object) -> None:
    empty = read_as(Metrics, {})
    assert (empty.stopped, empty.steps, empty.matching.rounds) == ("", None, ())
    names = ("search", "matching", "guide_fit", "details", "lengths", "device")
    found = read_as(Metrics, dict.fromkeys(names, damage))
    assert found.search == empty.search
    assert found.matching == empty.matching
    assert found.details == empty.details
    assert found.lengths == ()
    parts = {"details": dict.fromkeys(("regressions", "scale_up", "predictions"), damage)}
    assert read_as(Metrics, parts).details == empty.details
    assert read_as(Metrics, {"matching": {"rounds": damage}}).matching == empty.matching


def test_numbers_are_finite_but_for_a_word() -> None:
    assert [as_number(v) for v in (1, 2.5, np.float64(3), "infinite")] == [1.0, 2.5, 3.0, math.inf]
    huge = json.loads("1" + "0" * 400)
    for value in (None, True, "1", float("nan"), float("inf"), huge, [1]):
        assert as_number(value) is None
