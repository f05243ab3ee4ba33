"""The mixtures of a check: each once, the baseline always, found from anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from bydore_pyro.setup.check_config import RESULT, CheckConfig


def test_the_baseline_is_trained_on_too() -> None:
    assert CheckConfig().sources == (RESULT, "natural")
    assert CheckConfig(mixture=["natural", "answer"]).sources == ("natural", "answer")
    asked = CheckConfig(mixture=["x.json"], baseline="uniform")
    assert asked.sources == ("x.json", "uniform")


def test_a_mixture_is_named_once() -> None:
    with pytest.raises(ValueError, match="Expected every mixture once, found 'natural' twice"):
        CheckConfig(mixture=["natural", "answer", "natural"])
    with pytest.raises(ValueError, match=r"Expected a mixture to train on .* found none"):
        CheckConfig(mixture=[])
    with pytest.raises(ValueError, match=r"Expected seeds in \[1, 1000\], actual 0"):
        CheckConfig(seeds=0)


def test_files_are_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is no file, even where there is one of that name."""
    monkeypatch.chdir(tmp_path)
    for name in ("answer", "mine.json"):
        Path(name).touch()
    found = CheckConfig(mixture=["answer", "mine.json"], data="mine.json").anywhere()
    assert found.mixture == ["answer", f"{tmp_path}/mine.json"]
    assert (found.baseline, found.data) == ("natural", f"{tmp_path}/mine.json")
