"""What is wrong with a run's text is told, and stands in its result."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from method_options import options_for
from tiny import text_of, write_lines

from bydore_pyro.setup.cautions import CAUTIONS, cautions_of, tell_cautions
from bydore_pyro.setup.domains import load_domains
from bydore_pyro.setup.question import question_of


@pytest.mark.parametrize("count", [29, 30])
def test_few_documents_are_told_of_each_target(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], count: int
) -> None:
    rows = [{"text": f"{number} " + "one more word " * (900 // count)} for number in range(count)]
    path = write_lines(tmp_path / "t.jsonl", rows)
    given = options_for(store, "--validation", str(path), "--validation_sequences", "512")
    domains = load_domains(given)
    tell_cautions(given, domains)
    told = f"documents in the validation set: t {count}. With fewer than 30 the intervals"
    assert (f"warning: {told}" in capsys.readouterr().err) == (count < 30)
    notes = question_of(given, domains).notes
    assert any(note.startswith(f"D{told[1:]}") for note in notes) == (count < 30)
    assert all(note.endswith(".") for note in notes)


def test_text_that_no_law_knows_and_copies_are_noted(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was told when the target was read is not told again."""
    given = options_for(store)
    domains = load_domains(given)
    corpus = domains.corpus
    less = text_of([corpus.validation["b"][: domains.sequence_length - 1]])
    few = dataclasses.replace(corpus.train["c"], ends=corpus.train["c"].ends[:2])
    domains.corpus = dataclasses.replace(
        corpus,
        train={**corpus.train, "c": few},
        validation={**corpus.validation, "b": less},
        index={**corpus.index, CAUTIONS: ["copies"]},
    )
    copies, *others = cautions_of(given, domains)
    assert copies == "copies"
    assert others[-2].startswith("documents of domains: c 2")
    assert f"fewer than {domains.sequence_length} tokens were held out of b;" in others[-1]
    linear = options_for(store, "--evidence", "linear")
    assert not any("held out" in line for line in cautions_of(linear, domains))
    tell_cautions(given, domains)
    assert capsys.readouterr().err.splitlines() == [f"warning: {line}" for line in others]
