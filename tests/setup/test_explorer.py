"""Searches and answers leave what their pages need."""

from __future__ import annotations

from pathlib import Path

import pytest
from quick import PROXY

from bydore_pyro.answer.explorer import Explorer
from bydore_pyro.cli.main import main
from bydore_pyro.data.store import open_store
from bydore_pyro.files.records import read_with_tensors
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.setup.explorer import EXPLORER, LINEAR, TOO_FEW, leave_explorer


def read(run: Path) -> tuple[Explorer, set[str]]:
    page, numbers = read_with_tensors(Explorer, run / EXPLORER)
    assert leave_explorer.__doc__
    return page, {*numbers}


def test_a_search_and_its_answers_keep_their_law(
    store: Path, measured_run: Path, tmp_path: Path
) -> None:
    page, numbers = read(measured_run)
    assert page.weights == pytest.approx(Mixture.from_json(measured_run / "mixture.json").as_dict())
    assert {*page.references} == {"uniform", "natural"}
    assert page.baseline == "natural"
    assert {"level", "compositions", "off_both", "seen"} <= numbers
    assert page.law is not None
    assert [*page.law.importance] == ["a"]
    corpus = open_store(store)
    for name, size in page.sizes.items():
        assert 0 < size <= corpus.size(name)
    main(["ask", str(measured_run), "--mixture", "uniform", "--out", str(tmp_path / "answer")])
    page, _ = read(tmp_path / "answer")
    assert page.references["the given mixture"] == page.references["uniform"]
    assert page.law is not None


def test_a_run_without_a_law_says_why(store: Path, tmp_path: Path) -> None:
    given = ["--smoke", "--data", str(store), "--validation", "a", "--proxy", str(PROXY)]
    main(["search", *given, "--evidence", "linear", "--out", str(tmp_path / "linear")])
    page, numbers = read(tmp_path / "linear")
    assert (page.law, page.reason, numbers) == (None, LINEAR, set())
    assert TOO_FEW != LINEAR
