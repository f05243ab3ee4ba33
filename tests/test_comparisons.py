"""The comparison of methods in smoke size."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import Run
from tiny import write_domains


@pytest.mark.slow
def test_compare_in_smoke_size(
    tmp_path: Path, smoke: Callable[..., dict], draw: Callable[[str, Path], None]
) -> None:
    names = ("docstrings", "c_headers", "stubs", "readmes", "python_tests", "python", "licences")
    words = {name: f"{first}vwxyz" for name, first in zip(names, "abcdefg", strict=True)}
    text = write_domains(tmp_path / "text", words, files=30)
    given = ("--targets", "case2", "--target_seeds", "1", "--budget", "6", "--data", str(text))
    methods = (
        "--methods",
        "uniform",
        "single",
        "doremi",
        "bydore",
        "bydore_linear",
        "bydore_match",
    )
    small = ("--validation_sequences", "16", "--validation_fraction", "0.3")
    targets = smoke("compare", *given, *methods, *small)["targets"]
    assert [*targets] == ["case2"]
    found = targets["case2"]["methods"]
    labels = {"uniform", "only python", "only licences", *methods[3:]}
    assert set(found) == labels
    assert "matching" not in found["bydore_linear"]["details"]
    assert "matching" in found["bydore"]["details"]
    assert "trials" in found["bydore"]["details"]
    assert "trials" not in found["bydore_match"]["details"]
    assert set(targets["case2"]["losses"]) == set(found)
    assert found["doremi"]["jitter_second_half"] > 0
    assert sum(found["bydore"]["weights"].values()) == pytest.approx(1)
    draw("comparison", tmp_path / "run")


@pytest.mark.slow
def test_compare_withholds_the_domains_of_several_targets_and_takes_questions(
    tmp_path: Path, smoke: Callable[..., dict], draw: Callable[[str, Path], None]
) -> None:
    small = (
        "--targets",
        "several",
        "questions",
        "all",
        "--validation_sequences",
        "24",
        "--budget",
        "16",
        "--domains",
        "docstrings",
        "readmes",
        "json",
        "python",
        "licences",
    )
    results = smoke(
        "compare", *small, "--target_seeds", "2", "--methods", "uniform", "single", "bydore"
    )
    several, questions = results["targets"]["several"], results["targets"]["questions"]
    own = set(several["validation"])
    assert own == {"docstrings", "readmes", "json"}
    assert questions["validation"] == {"questions": 1.0}
    weights = questions["methods"]["uniform"]["weights"]
    assert own < set(weights)
    assert "questions" not in weights
    for target in (several, questions):
        assert "single" not in target["methods"]
    assert not own & set(several["methods"]["uniform"]["weights"])
    everything = results["targets"]["all"]
    assert everything["validation"] == pytest.approx(dict.fromkeys(weights, 0.2))
    own_shares, uniform = "the target's own shares", "uniform"
    assert everything["losses"][own_shares] == everything["losses"][uniform], "one mixture"
    verdicts = results["standings"]["verdicts"]["uniform"]
    assert [*verdicts] == ["several", "questions", "all"]
    draw("comparison", tmp_path / "run")


def test_compare_withholds_domains_of_a_folder(tmp_path: Path, run_here: Run) -> None:
    """Of three domains, with mixtures that nobody fits."""
    words = {"a": "abcde", "b": "vwxyz", "c": "klmno"}
    text, run = write_domains(tmp_path / "text", words, files=12), tmp_path / "run"
    given = (
        "--smoke",
        "--data",
        str(text),
        "--cache",
        str(tmp_path / "cache"),
        "--validation_fraction",
        "0.5",
        "--validation_sequences",
        "16",
        "--methods",
        "uniform",
        "natural",
        "unimax",
        "--unimax_epochs",
        "0.1",
        "--target_seeds",
        "1",
    )
    done = run_here("compare", *given, "--out", str(run), "--targets", "withheld:a", "withheld:b")
    assert done.returncode == 0, done.stderr
    targets = json.loads((run / "results.json").read_text())["targets"]
    weights = [set(target["methods"]["natural"]["weights"]) for target in targets.values()]
    assert weights == [{"b", "c"}, {"a", "c"}]
    fits = (run / "fits").glob("*a-natural*")
    assert [path.name for path in fits] == ["withheld-a-natural"]
    refused = run_here("compare", *given, "--out", str(tmp_path / "no"), "--targets", "withheld:d")
    assert refused.returncode == 2
    assert "error: Expected" in refused.stderr
    assert "domain of the data (a, b, c), found 'd'" in refused.stderr
