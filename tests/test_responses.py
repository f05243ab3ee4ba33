"""The experiment on responses: plants, rivals, and the mixtures of groups trained afresh."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from test_ask import searched


@pytest.mark.slow
def test_responses_in_smoke_size(
    store: Path, tmp_path: Path, experiment: Callable[..., dict]
) -> None:
    search = searched(store, tmp_path / "search", "--validation", "b=.5", "c=.5")
    groups, known = tmp_path / "groups.json", tmp_path / "known.json"
    groups.write_text(json.dumps({"both": ["b", "c"], "one": ["b"]}))
    names = [*json.loads((search / "mixture.json").read_text())["weights"]]
    weights = np.random.default_rng(0).dirichlet(np.ones(len(names)), 9)
    table = {
        "domains": names,
        "tasks": ["b", "c"],
        "weights": weights.tolist(),
        "domain_losses": (5 - weights).tolist(),
        "bits_per_byte": (3 - weights[:, :2]).tolist(),
    }
    known.write_text(json.dumps(table))
    given = ("--groups", str(groups), "--known", str(known), "--runs", "8", "--smoke")
    found = experiment("responses", str(search), *given, "--trials", "1", "--tried", "one")
    (one,) = found["searches"]
    assert {plant["kind"] for plant in one["plants"]} == {"even", "sparse"}
    for plant in one["plants"]:
        for way in ("gradients", "responses", "both"):
            assert 0 <= plant[way]["total_variation"] <= 1
            assert 0 <= plant[way]["held"] <= 1
    assert {*one["means"]} == {"both", "one"}
    own = {"law", "composition", "gradients", "trials", "natural"}
    assert own | {"best of 9 runs", "merged branches", "RegMix on 8 runs"} <= {*one["means"]["one"]}
    best = np.array([one["weights"]["best of 9 runs, one"][name] for name in names])
    assert best == pytest.approx(weights[weights[:, 0].argmax()], abs=1e-4)
    assert sum(row["way"] == "law" for row in one["rows"]) == 3 + 1, "targets and their mean"
    rows = [row for row in one["rows"] if row["way"] == "natural"]
    assert found["held"]["natural"]["share"] == pytest.approx(
        sum(row["low"] <= row["measured"] <= row["high"] for row in rows) / len(rows)
    )
