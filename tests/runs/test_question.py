"""What a question needs is measured or known; the answer is for the domains as they are named."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny import ALPHABETS, write_domains

from bydore_pyro.cli.main import main
from bydore_pyro.runs.asking import AskConfig, ask
from bydore_pyro.runs.inputs import hashes_of
from bydore_pyro.runs.question import Question, TargetAnswer


@pytest.fixture(autouse=True)
def _quick_searches() -> None:
    """As many draws as an answer takes: they are judged here."""


def weights_of(answer: TargetAnswer) -> torch.Tensor:
    return torch.tensor(answer.mixture.weights)


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
    question = Question(found.options, [], {"d": found.domains}, tmp_path)
    assert question.groups == [[0], [1], [2], [3]]
    assert float(weights_of(found.targets[0])[3]) > 0.8, "its own kind was added"


def test_text_that_is_measured_anew_says_what_the_search_found(
    measured_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the text of `b` were another: its sequences are those that the search measured."""
    (before,) = ask(measured_run, AskConfig(validation=["b"]), tmp_path).targets
    changed = lambda domains: hashes_of(domains) | {"b": "another"}  # noqa: E731
    monkeypatch.setattr("bydore_pyro.runs.question.hashes_of", changed)
    found = ask(measured_run, AskConfig(validation=["b"]), tmp_path)
    assert found.anew == ("b",)
    again = found.targets[0].matching
    torch.testing.assert_close(again.gram, before.matching.gram, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(again.weights, before.matching.weights, atol=1e-3, rtol=0)


def test_merged_domains_share_a_weight_by_their_text(measured_run: Path, tmp_path: Path) -> None:
    config = AskConfig(validation=["a", "b"], merge=["a+c"])
    found = ask(measured_run, config, tmp_path)
    first, second, third = weights_of(found.targets[0]).tolist()
    size = found.domains.sequences()
    assert first / third == pytest.approx(size["a"] / size["c"], rel=0.02)
    assert second > 0.2
    draws = found.targets[0].posterior["posterior"]["w"].values
    assert draws.shape[-1] == 3
    assert draws.sum(-1) == pytest.approx(1)


def test_an_answer_can_have_trials(measured_run: Path, tmp_path: Path) -> None:
    (one,) = ask(measured_run, AskConfig(validation=["b"], trials=2), tmp_path).targets
    assert one.trials is not None
    assert len(one.trials.losses) == 2
    assert any("Trial runs" in note for note in one.mixture.notes)
    assert "length" in one.posterior["posterior"]
