"""What a search has measured answers for other targets as a search of their own would."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from quick import PROXY

from bydore_pyro.cli.main import main
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.runs.asking import (
    AskConfig,
    Asked,
    TargetAnswer,
    ask,
    compromise,
    shortfall,
)
from bydore_pyro.utils.errors import DataError


@pytest.fixture(autouse=True)
def _quick_searches() -> None:
    """As many draws as an answer takes: they are judged here."""


@pytest.fixture(scope="module")
def run(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search without trials, on `a`."""
    out = tmp_path_factory.mktemp("asking") / "run"
    given = ["--smoke", "--data", str(store), "--validation", "a", "--round_sequences", "32"]
    more = ["--trials", "0", "--steps", "40", "--proxy", str(PROXY)]
    main(["search", *given, *more, "--out", str(out)])
    return out


def test_one_target_and_one_that_is_made_of_two(run: Path) -> None:
    found = ask(run, AskConfig(validation_sequences=32))
    assert isinstance(found, Asked)
    (own,) = found.targets
    assert isinstance(own, TargetAnswer)
    assert own.settled
    assert own.name == "a"
    assert found.domains.names == ("a", "b", "c")
    searched = Mixture.from_json(run / "mixture.json")
    torch.testing.assert_close(
        own.weights, torch.tensor(searched.weights).double(), atol=0.03, rtol=0
    )
    (both,) = ask(run, AskConfig(validation=["a=0.5", "b=0.5"])).targets
    assert both.name == "a, b"
    assert float(both.weights[2]) < 0.2
    assert min(both.weights[:2]) > 0.2


def test_several_targets_and_what_a_mixture_leaves(run: Path) -> None:
    targets = ask(run, AskConfig(validation=["a", "b", "c"], each=True)).targets
    assert [one.name for one in targets] == ["a", "b", "c"]
    for place, one in enumerate(targets):
        assert int(one.weights.argmax()) == place
        median, low, high = shortfall(one, torch.eye(3)[place])
        assert 0 <= low <= median <= high <= 1
        other = shortfall(one, torch.eye(3)[(place + 1) % 3])
        assert other[0] > median
        assert shortfall(one, one.weights)[0] <= median + 0.02
    for objective in ("mean", "worst"):
        mixture = compromise(targets, objective)
        assert float(mixture.sum()) == pytest.approx(1)
        assert float(mixture.min()) > 0.05, "each target has a domain of its own"


def test_a_run_that_reads_text_again_wants_other_weights(run: Path) -> None:
    once, again = (
        ask(run, AskConfig(target_tokens=tokens)).targets[0].weights for tokens in (1e3, 1e8)
    )
    assert float((once - again).abs().sum()) > 0.05


def test_what_cannot_be_asked_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Expected a search's folder, found"):
        ask(tmp_path, AskConfig())
    with pytest.raises(DataError, match=r"Expected a domain of the run \(a, b, c\), found 'd'"):
        ask(run, AskConfig(drop=["d"]))
