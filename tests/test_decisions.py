"""The experiment on decisions: what is asked, judged and counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import decisions
import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


def test_losses_are_those_of_the_targets_by_their_shares() -> None:
    losses = {"docstrings": 1.0, "c_headers": 2.0, "stubs": 4.0, "text": 9.0}
    assert decisions.on(losses, "planted") == pytest.approx(0.5 * 1 + 0.3 * 2 + 0.2 * 4)
    assert decisions.on(losses, "all") == pytest.approx(4.0)
    of_set = {"python": 1.0, "licences": 2.0, "yaml": 4.0, "text": 9.0}
    assert decisions.on(of_set, "set 1") == pytest.approx(0.4 * 1 + 0.3 * 2 + 0.3 * 4)
    assert decisions.on(of_set, "set 1, worst") == 4.0
    natural = {name: 1.5 * loss for name, loss in losses.items()}
    apart = decisions.by_target({"planted: law": losses, "planted: natural": natural}, "planted")
    assert apart == {"docstrings": -0.5, "c_headers": -1.0, "stubs": -2.0}


def test_a_table_without_the_match_leaves_its_column_empty() -> None:
    with pytest.raises(ValueError, match="found 'other'"):
        decisions.DecisionsConfig(mixtures=["other"])
    one = {"law": 4.0, "uniform": 4.5, "by_target": {}, "answer": {"differences": {}}}
    one["answer"]["differences"] = {"uniform": {"docstrings": {"loss": -0.4}}}
    text = decisions.table({"0": {"1": {"docstrings": one}}})
    assert "| 4.000 |  | -0.500 | -0.400 |  |" in text


@pytest.mark.slow
def test_in_smoke_size(tmp_path: Path, smoke: Callable[..., dict]) -> None:
    few = ("--domains", "python", "licences", "docstrings")
    asked = ("--questions", "docstrings", "all", "--target_seeds", "1", "--times", "1", "2")
    judge = ("--judge", str(ROOT / "models/target-tiny"))
    found = smoke("decisions", *few, *asked, *judge)["questions"]["0"]
    assert set(found) == {"1", "2"}
    for times in found.values():
        assert set(times) == {"docstrings", "all"}
        losses = [times[name][of] for name in times for of in ("law", "match", "uniform")]
        assert 0 < min(losses) < max(losses) < 20
        weights = times["all"]["answer"]["match"]
        np.testing.assert_allclose(list(weights.values()), 1 / 3, atol=0.2)
    assert found["1"]["all"]["uniform"] > found["2"]["all"]["uniform"], "longer runs are better"
    trees = [json.loads(one.read_text()) for one in tmp_path.glob("run/proxies/*/tree.json")]
    shapes = {json.loads(one["header"]["model"])["num_hidden_layers"] for one in trees}
    assert shapes == {4}, "the judge's; the proxy has two"


def questions_of(name: str) -> list[dict[str, Any]]:
    """What was found of each question, seed by seed."""
    text = (ROOT / f"figures/results/decisions/{name}.json").read_text("utf-8")
    return [one["1"] for one in json.loads(text)["questions"].values()]


def held(seeds: list[dict[str, Any]]) -> list[bool]:
    """Whether the loss less that of uniform weights lies in the interval predicted; a mixture that
    answers two questions about the same targets counts once."""
    found = {}
    for seed, asked in enumerate(seeds):
        for name, one in asked.items():
            told = decisions.told_of(one["answer"]["differences"], name)
            inside = told["low"] <= one["law"] - one["uniform"] <= told["high"]
            found[seed, name.partition(",")[0], one["law"]] = inside
    return list(found.values())


def test_the_readme_says_what_the_files_hold() -> None:
    """The means over the seeds of its table, and how often what was predicted held."""
    environment, web = questions_of("environment"), questions_of("web")
    environment = [{n: q for n, q in one.items() if "withheld" not in n} for one in environment]
    sets = [f"set {n}" for n in range(1, 9)]
    named = {
        "planted, three domains": ["planted"],
        "dense, four domains": ["dense"],
        "docstrings": ["docstrings"],
        "all 13 domains equally": ["all"],
        "sets of three, mean of four": sets[:4],
        "real text: all 12 domains equally": ["all"],
        "real text: sets of three, mean of four": sets[4:],
    }
    page = (ROOT / "README.md").read_text("utf-8")
    for row, questions in named.items():
        seeds = web if "real text" in row else environment
        cells = [[[one[q][of] for q in questions] for one in seeds] for of in decisions.MIXTURES]
        means = " | ".join(f"{np.mean(of):.3f}" for of in cells)
        assert f"| {row} | {means} |" in page
    for seeds, text in (
        (environment, "uniform weights contained {} of {} gains"),
        (web, "{} of {} on real text"),
    ):
        found = held(seeds)
        assert text.format(sum(found), len(found)) in page
