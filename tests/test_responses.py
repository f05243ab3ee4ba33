"""The experiment on responses: plants, and the mixtures of groups of targets trained afresh."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from test_ask import searched


@pytest.mark.slow
def test_responses_in_smoke_size(
    store: Path, tmp_path: Path, experiment: Callable[..., dict]
) -> None:
    search = searched(store, tmp_path / "search", "--validation", "b=.5", "c=.5")
    groups = tmp_path / "groups.json"
    groups.write_text(json.dumps({"both": ["b", "c"], "one": ["b"]}))
    given = ("--groups", str(groups), "--seeds", "1", "--smoke")
    found = experiment("responses", str(search), *given)
    assert {one["kind"] for one in found["plants"]} == {"even", "sparse"}
    for one in found["plants"]:
        for way in ("gradients", "responses", "both"):
            assert 0 <= one[way]["total_variation"] <= 1
            assert 0 <= one[way]["held"] <= 1
    assert {*found["groups"]} == {"both", "one"}
    assert len(found["groups"]["one"]["responses"]["decay"]) == 1
    rows = found["held"]["constant"]["rows"]
    assert len(rows) == 2 * (2 + 1), "of the proposal and of natural weights, by target"
    assert found["held"]["constant"]["share"] == pytest.approx(
        sum(one["low"] <= one["measured"] <= one["high"] for one in rows) / len(rows)
    )
