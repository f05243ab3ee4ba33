"""What is asked of a mixture: bounds and baselines, and what is refused at once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from method_options import options_for
from tiny import write_lines

from bydore_pyro.data.domains import Domains
from bydore_pyro.errors import DataError
from bydore_pyro.setup.domains import load_domains
from bydore_pyro.setup.goal import (
    KNOWN,
    GoalConfig,
    baseline_name,
    bounds_of,
    references_of,
    weights_of,
)
from bydore_pyro.setup.run import question_of


@pytest.fixture(scope="module")
def three(store: Path) -> Domains:
    return load_domains(options_for(store))


def test_bounds_are_shares_by_name(three: Domains) -> None:
    goal = GoalConfig(at_least=["a=0.1", "b=0"], at_most=["c=0.5"])
    assert bounds_of(goal, three) == ({"a": 0.1, "b": 0.0}, {"c": 0.5})
    assert bounds_of(GoalConfig(), three) == ({}, {})
    room = GoalConfig(at_most=["a=.2", "b=.7", "c=.1"])  # .9999999999999999 as floating point adds
    assert bounds_of(room, three)[1] == {"a": 0.2, "b": 0.7, "c": 0.1}


def test_a_tolerance_that_nothing_asks_for_is_told() -> None:
    GoalConfig(objective="none_worse", tolerance=0.1).warn_of_idle()
    GoalConfig().warn_of_idle()
    with pytest.warns(UserWarning, match="tolerance has no effect with objective mean"):
        GoalConfig(tolerance=0.1).warn_of_idle()


@pytest.mark.parametrize("option", ["at_least", "at_most"])
def test_what_is_no_share_is_refused(option: str) -> None:
    for entry in ("a", "a=x", "=0.1", "a=1.1", "a=-0.1", "a=nan"):
        with pytest.raises(ValueError, match=rf"as NAME=SHARE in \[0, 1\], found '{entry}'"):
            GoalConfig(**{option: [entry]})
    with pytest.raises(ValueError, match="Expected each domain once"):
        GoalConfig(**{option: ["a=0.1", "a=0.2"]})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"at_least": ["d=0.1"]}, "'d'"),
        ({"at_least": ["a=0.5"], "at_most": ["a=0.4"]}, "found 0.5 and 0.4 of 'a'"),
        ({"at_least": ["a=0.6", "b=0.6"]}, "found 1.2 and 3"),
        ({"at_most": ["a=0.2", "b=0.2", "c=0.2"]}, "found 0 and 0.6"),
    ],
)
def test_bounds_that_no_mixture_meets_are_refused(
    three: Domains, given: dict[str, list[str]], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        bounds_of(GoalConfig(**given), three)


def test_references_are_what_everybody_knows_and_the_baseline(
    three: Domains, tmp_path: Path
) -> None:
    assert [*references_of(GoalConfig(), three)] == [*KNOWN]
    torch.testing.assert_close(weights_of("uniform", three), torch.full((3,), 1 / 3).double())
    sizes = torch.tensor([three.corpus.size(name) for name in three.names]).double()
    torch.testing.assert_close(weights_of("natural", three), sizes / sizes.sum())
    path = write_lines(tmp_path / "mine.json", [{"a": 0.75, "c": 0.25}])
    goal = GoalConfig(baseline=str(path))
    assert baseline_name(goal) == "baseline"
    assert [baseline_name(GoalConfig(baseline=name)) for name in KNOWN] == [*KNOWN]
    found = references_of(goal, three)
    assert [*found] == [*KNOWN, "baseline"]
    assert found["baseline"].tolist() == [0.75, 0, 0.25]


def test_a_question_holds_all_of_it(store: Path) -> None:
    options = options_for(
        store, "--objective", "none_worse", "--baseline", "uniform", "--tolerance", "0.1",
        "--probability", "0.8", "--at_least", "a=0.1", "--at_most", "b=0.5",
    )  # fmt: skip
    asked = question_of(options, load_domains(options))
    assert (asked.objective, asked.tolerance, asked.probability) == ("none_worse", 0.1, 0.8)
    assert (asked.least, asked.most) == ({"a": 0.1}, {"a": 1.0, "b": 0.5, "c": 1.0})
    torch.testing.assert_close(asked.references[asked.baseline], torch.full((3,), 1 / 3).double())
