"""What a search has measured answers for other targets as a search of their own would."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from quick import PROXY
from tiny import ALPHABETS, write_domains

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
from bydore_pyro.runs.inputs import hashes_of
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


def weights_of(answer: TargetAnswer) -> torch.Tensor:
    return torch.tensor(answer.mixture.weights)


def test_one_target_and_one_that_is_made_of_two(run: Path, tmp_path: Path) -> None:
    found = ask(run, AskConfig(validation_sequences=32), tmp_path)
    assert isinstance(found, Asked)
    (own,) = found.targets
    assert isinstance(own, TargetAnswer)
    assert own.settled
    assert own.name == "a"
    assert found.domains.names == ("a", "b", "c")
    assert found.anew == ()
    searched = Mixture.from_json(run / "mixture.json")
    torch.testing.assert_close(weights_of(own), torch.tensor(searched.weights), atol=0.03, rtol=0)
    (both,) = ask(run, AskConfig(validation=["a=0.5", "b=0.5"]), tmp_path).targets
    assert both.name == "a, b"
    assert float(weights_of(both)[2]) < 0.2
    assert min(weights_of(both)[:2]) > 0.2


def test_several_targets_and_what_a_mixture_leaves(run: Path, tmp_path: Path) -> None:
    asked = ask(run, AskConfig(validation=["a", "b", "c"], each=True), tmp_path)
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
    run: Path, tmp_path: Path
) -> None:
    def asked(tokens: float, epochs: float | None = None) -> torch.Tensor:
        config = AskConfig(target_tokens=tokens, max_epochs=epochs)
        return weights_of(ask(run, config, tmp_path).targets[0])

    once, again = asked(1e3), asked(1e7)
    assert float((once - again).abs().sum()) > 0.05
    text = sum(ask(run, AskConfig(), tmp_path).domains.sequences().values()) * 32
    capped = asked(text, 1.1)
    assert float((capped - asked(text)).abs().sum()) > 0.05
    most = ask(run, AskConfig(), tmp_path).domains.most_weights(1.1, text)
    assert all(w <= m + 1e-6 for w, m in zip(capped.tolist(), most.values(), strict=True))


def test_domains_that_are_added_or_have_changed_are_measured_anew(
    run: Path, store: Path, tmp_path: Path
) -> None:
    """A store of two of the domains under other names, and one whose text has grown."""
    text = write_domains(tmp_path / "text", {"d": ALPHABETS["upper"], "b": ALPHABETS["digits"]})
    tokenizer = str(store / "tokenizer")
    main(["prepare", "--data", str(text), "--tokenizer", tokenizer, "--out", str(tmp_path / "s")])
    added = AskConfig(validation=["d"], add=[str(tmp_path / "s")])
    found = ask(run, added, tmp_path)
    assert found.domains.names == ("a", "b", "c", "d")
    assert found.anew == ("b", "d")
    assert float(weights_of(found.targets[0])[3]) > 0.8, "its own kind was added"


def test_text_that_is_measured_anew_says_what_the_search_found(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the text of `b` were another: its sequences are those that the search measured."""
    (before,) = ask(run, AskConfig(validation=["b"]), tmp_path).targets
    changed = lambda domains: hashes_of(domains) | {"b": "another"}  # noqa: E731
    monkeypatch.setattr("bydore_pyro.runs.asking.hashes_of", changed)
    found = ask(run, AskConfig(validation=["b"]), tmp_path)
    assert found.anew == ("b",)
    again = found.targets[0].matching
    torch.testing.assert_close(again.gram, before.matching.gram, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(again.weights, before.matching.weights, atol=1e-3, rtol=0)


def test_merged_domains_share_a_weight_by_their_text(run: Path, tmp_path: Path) -> None:
    config = AskConfig(validation=["a", "b"], merge=["a+c"])
    found = ask(run, config, tmp_path)
    first, second, third = weights_of(found.targets[0]).tolist()
    size = found.domains.sequences()
    assert first / third == pytest.approx(size["a"] / size["c"], rel=0.02)
    assert second > 0.2
    draws = found.targets[0].posterior["posterior"]["w"].values
    assert draws.shape[-1] == 3
    assert draws.sum(-1) == pytest.approx(1)


def test_an_answer_can_have_trials(run: Path, tmp_path: Path) -> None:
    (one,) = ask(run, AskConfig(validation=["b"], trials=2), tmp_path).targets
    assert one.trials is not None
    assert len(one.trials.losses) == 2
    assert any("Trial runs" in note for note in one.mixture.notes)
    assert "length" in one.posterior["posterior"]


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


def test_what_cannot_be_asked_is_refused(run: Path, tmp_path: Path) -> None:
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
            ask(run, AskConfig(**options), tmp_path)
