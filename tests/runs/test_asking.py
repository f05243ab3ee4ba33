"""What a search has measured answers for other targets as a search of their own would."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from bydore_pyro.answer.several import compromise, shortfall
from tiny import ALPHABETS, write_domains

from bydore_pyro.answer.answer import Answer
from bydore_pyro.cli.main import main
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.runs.asking import AskConfig, Asked, ask
from bydore_pyro.runs.domains import hashes_of


@pytest.fixture(autouse=True)
def _quick_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many draws as an answer takes: they are judged here; fewer that each find a mixture."""
    monkeypatch.setattr("bydore_pyro.answer.answer.MOST_DRAWS", 200)


def weights_of(answer: Answer) -> torch.Tensor:
    return torch.tensor(answer.mixture.weights)


def test_one_target_and_one_that_is_made_of_two(measured_run: Path, tmp_path: Path) -> None:
    found = ask(measured_run, AskConfig(validation_sequences=32), tmp_path)
    assert isinstance(found, Asked)
    ((name, own),) = found.targets.items()
    assert isinstance(own, Answer)
    assert own.evidence[1].settled
    assert name == "a"
    assert found.domains.names == ("a", "b", "c")
    assert found.anew == ()
    searched = Mixture.from_json(measured_run / "mixture.json")
    assert own.mixture.weights == pytest.approx(searched.weights, abs=1e-9), "the search's answer"
    asked = ask(measured_run, AskConfig(validation=["a=0.5", "b=0.5"]), tmp_path)
    both = asked.targets["a, b"]
    assert float(weights_of(both)[2]) < 0.2
    assert min(weights_of(both)[:2]) > 0.2


def test_several_targets_and_what_a_mixture_leaves(measured_run: Path, tmp_path: Path) -> None:
    asked = ask(measured_run, AskConfig(validation=["a", "b", "c"], each=True), tmp_path)
    assert [*asked.targets] == ["a", "b", "c"]
    for place, one in enumerate(asked.targets.values()):
        assert int(weights_of(one).argmax()) == place
        median, low, high = shortfall(one, torch.eye(3)[place])
        assert 0 <= low <= median <= high <= 1
        other = shortfall(one, torch.eye(3)[(place + 1) % 3])
        assert other[0] > median
        assert shortfall(one, weights_of(one))[0] <= median + 0.02
    mixture = compromise([*asked.targets.values()])
    assert float(mixture.sum()) == pytest.approx(1)
    assert float(mixture.min()) > 0.05, "each target has a domain of its own"


def test_a_run_that_reads_text_again_wants_other_weights_within_caps(
    measured_run: Path, tmp_path: Path
) -> None:
    def asked(tokens: float, epochs: float | None = None) -> torch.Tensor:
        config = AskConfig(target_tokens=tokens, max_epochs=epochs)
        return weights_of(ask(measured_run, config, tmp_path).targets["a"])

    once, again = asked(1e3), asked(1e7)
    assert float((once - again).abs().sum()) > 0.05
    domains = ask(measured_run, AskConfig(), tmp_path).domains
    text = sum(domains.sequences().values()) * 32
    capped = asked(text, 1.1)
    assert float((capped - asked(text)).abs().sum()) > 0.05
    most = domains.most_weights(1.1, text)
    assert all(w <= m + 1e-6 for w, m in zip(capped.tolist(), most.values(), strict=True))


def test_domains_that_are_added_or_have_changed_are_measured_anew(
    measured_run: Path, store: Path, tmp_path: Path
) -> None:
    """A store of two of the domains under other names, and one whose text has grown."""
    text = write_domains(tmp_path / "text", {"d": ALPHABETS["upper"], "b": ALPHABETS["digits"]})
    tokenizer = str(store / "tokenizer")
    main(["prepare", "--data", str(text), "--tokenizer", tokenizer, "--out", str(tmp_path / "s")])
    added = AskConfig(validation=["d"], add=[str(tmp_path / "s")])
    found = ask(measured_run, added, tmp_path)
    assert found.domains.names == ("a", "b", "c", "d")
    assert found.anew == ("b", "d")
    assert float(weights_of(found.targets["d"])[3]) > 0.8, "its own kind was added"


def test_text_that_is_measured_anew_says_what_the_search_found(
    measured_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the text of `b` were another: its sequences are those that the search measured."""
    before, _ = ask(measured_run, AskConfig(validation=["b"]), tmp_path).targets["b"].evidence
    changed = lambda domains: hashes_of(domains) | {"b": "another"}  # noqa: E731
    monkeypatch.setattr("bydore_pyro.runs.asking.hashes_of", changed)
    found = ask(measured_run, AskConfig(validation=["b"]), tmp_path)
    assert found.anew == ("b",)
    again, _ = found.targets["b"].evidence
    torch.testing.assert_close(again.gram, before.gram, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(again.weights, before.weights, atol=1e-3, rtol=0)


def test_an_answer_can_have_trials(measured_run: Path, tmp_path: Path) -> None:
    asked = ask(measured_run, AskConfig(validation=["b"], trials=2), tmp_path)
    one = asked.targets["b"]
    assert one.tried is not None
    assert len(one.tried.losses) == 2
    assert any("Trial runs" in note for note in one.mixture.notes)
    assert "length" in one.sites
