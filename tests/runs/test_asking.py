"""What a search has measured answers for other targets as a search of their own would."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.runs.asking import (
    AskConfig,
    Asked,
    ask,
    compromise,
    shortfall,
)
from bydore_pyro.runs.question import TargetAnswer
from bydore_pyro.utils.errors import DataError


@pytest.fixture(autouse=True)
def _quick_searches() -> None:
    """As many draws as an answer takes: they are judged here."""


def weights_of(answer: TargetAnswer) -> torch.Tensor:
    return torch.tensor(answer.mixture.weights)


def test_one_target_and_one_that_is_made_of_two(measured_run: Path, tmp_path: Path) -> None:
    found = ask(measured_run, AskConfig(validation_sequences=32), tmp_path)
    assert isinstance(found, Asked)
    (own,) = found.targets
    assert isinstance(own, TargetAnswer)
    assert own.settled
    assert own.name == "a"
    assert found.domains.names == ("a", "b", "c")
    assert found.anew == ()
    searched = Mixture.from_json(measured_run / "mixture.json")
    torch.testing.assert_close(weights_of(own), torch.tensor(searched.weights), atol=0.03, rtol=0)
    (both,) = ask(measured_run, AskConfig(validation=["a=0.5", "b=0.5"]), tmp_path).targets
    assert both.name == "a, b"
    assert float(weights_of(both)[2]) < 0.2
    assert min(weights_of(both)[:2]) > 0.2


def test_several_targets_and_what_a_mixture_leaves(measured_run: Path, tmp_path: Path) -> None:
    asked = ask(measured_run, AskConfig(validation=["a", "b", "c"], each=True), tmp_path)
    assert [one.name for one in asked.targets] == ["a", "b", "c"]
    for place, one in enumerate(asked.targets):
        assert int(weights_of(one).argmax()) == place
        median, low, high = shortfall(one, torch.eye(3)[place])
        assert 0 <= low <= median <= high <= 1
        other = shortfall(one, torch.eye(3)[(place + 1) % 3])
        assert other[0] > median
        assert shortfall(one, weights_of(one))[0] <= median + 0.02
    for objective in ("mean", "worst"):
        mixture = compromise(asked, objective)
        assert float(mixture.sum()) == pytest.approx(1)
        assert float(mixture.min()) > 0.05, "each target has a domain of its own"


def test_a_run_that_reads_text_again_wants_other_weights_within_caps(
    measured_run: Path, tmp_path: Path
) -> None:
    def asked(tokens: float, epochs: float | None = None) -> torch.Tensor:
        config = AskConfig(target_tokens=tokens, max_epochs=epochs)
        return weights_of(ask(measured_run, config, tmp_path).targets[0])

    once, again = asked(1e3), asked(1e7)
    assert float((once - again).abs().sum()) > 0.05
    text = sum(ask(measured_run, AskConfig(), tmp_path).domains.sequences().values()) * 32
    capped = asked(text, 1.1)
    assert float((capped - asked(text)).abs().sum()) > 0.05
    most = ask(measured_run, AskConfig(), tmp_path).domains.most_weights(1.1, text)
    assert all(w <= m + 1e-6 for w, m in zip(capped.tolist(), most.values(), strict=True))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"merge": ["a+b"], "trials": 1}, "Expected --merge or --trials, found both"),
        ({"merge": ["a+b"], "mixture": "x"}, "Expected --merge or --mixture, found both"),
        ({"each": True, "trials": 1}, "Expected --each or --trials, found both"),
        ({"max_epochs": 1.0}, "Expected --target_tokens with --max_epochs, found none"),
    ],
)
def test_options_that_exclude_each_other(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AskConfig(**options)


def test_what_cannot_be_asked_is_refused(measured_run: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Expected a search's folder, found"):
        ask(tmp_path, AskConfig(), tmp_path)
    for options, message in (
        ({"drop": ["d"]}, r"Expected a domain of the run \(a, b, c\), found 'd'"),
        ({"merge": ["a+d"]}, "Expected a domain of a, b, c in --merge, found 'd'"),
        ({"merge": ["a"]}, r"Expected --merge A\+B, each domain once, found a"),
        ({"merge": ["a+b", "b+c"]}, r"Expected --merge A\+B, each domain once, found a\+b b\+c"),
        ({"merge": ["a+b+c"]}, "Expected at least two weights after --merge, found 1"),
        ({"add": [str(tmp_path)]}, "Expected the index of a token store"),
    ):
        with pytest.raises(DataError, match=message):
            ask(measured_run, AskConfig(**options), tmp_path)
