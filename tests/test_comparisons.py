"""Comparisons of methods in smoke size: by targets, on larger models, by repetition."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from experiment_results import check_origin
from processes import Run
from tiny import HELD_OUT, write_domains


@pytest.mark.slow
def test_repetition_in_smoke_size(tmp_path: Path, smoke: Callable[..., dict]) -> None:
    rows = ("--compared", "own", "caps", "unimax", "effective", "mde")
    small = ("--mde_proxies", "3", "--mde_candidates", "200", "--evaluation_sequences", "16")
    cells = smoke("repetition", "--target", "python", "--budget", "12", *rows, *small)["cells"]
    assert [*cells] == ["1", "4"]
    for epochs, cell in cells.items():
        assert set(cell["losses"]) == set(rows[1:])
        for weights in cell["weights"].values():
            assert sum(weights.values()) == pytest.approx(1)
        assert cell["most_epochs"]["own"] == pytest.approx(float(epochs), rel=0.2)
    assert cells["1"]["weights"]["mde"] == cells["4"]["weights"]["mde"]
    lengths = [int(cell["tokens"]) for cell in cells.values()]
    search = tmp_path / "run" / "search-matching"
    assert {p.name for p in search.glob("mixture-*")} == {f"mixture-{n}.json" for n in lengths}


@pytest.mark.slow
def test_compare_in_smoke_size(
    tmp_path: Path, smoke: Callable[..., dict], draw: Callable[[str, Path], None]
) -> None:
    words = dict(zip((*HELD_OUT, "python", "licences"), "abcdefg", strict=True))
    text = write_domains(tmp_path / "text", {n: f"{c}vwxyz" for n, c in words.items()}, files=30)
    given = ("--targets", "case2", "--target_seeds", "1", "--budget", "6", "--data", str(text))
    methods = ("--methods", "uniform", "single", "doremi", "regmix", "fastmix", "fastmix_faster",
               "bydore", "bydore_linear")  # fmt: skip
    small = ("--regmix_proxies", "3", "--regmix_draws", "200", "--evaluation_sequences", "16")
    targets = smoke("compare", *given, *methods, *small)["targets"]
    assert [*targets] == ["case2"]
    found = targets["case2"]["methods"]
    labels = {"uniform", "only python", "only licences", *methods[3:]}
    assert set(found) - {"bydore, pruned"} == labels
    slow, fast = (abs(found[n]["weights"]["python"] - 0.5) for n in methods[5:7])
    assert slow < 0.01 < fast, "a thousand times the step size"
    assert "matching" not in found["bydore_linear"]["details"]
    assert "matching" in found["bydore"]["details"]
    assert set(targets["case2"]["losses"]) == set(found)
    assert found["doremi"]["jitter"] > 0
    doremi, regmix, bydore = (found[n]["cost"]["flops"] for n in ("doremi", "regmix", "bydore"))
    assert 1 / 1.15 < doremi / regmix < 1.15, "both spend the budget"
    assert 0 < bydore < 1.15 * doremi, "a search by matching needs no more than its steps"
    assert sum(found["bydore"]["weights"].values()) == pytest.approx(1)
    draw("comparison", tmp_path / "run")


@pytest.mark.slow
def test_compare_withholds_the_domains_of_several_targets_and_takes_questions(
    tmp_path: Path, smoke: Callable[..., dict], draw: Callable[[str, Path], None]
) -> None:
    small = ("--targets", "several", "questions", "--evaluation_sequences", "16", "--budget", "9",
             "--domains", "docstrings", "readmes", "json", "python", "licences")  # fmt: skip
    results = smoke("compare", *small, "--target_seeds", "2", "--methods", "uniform", "single",
                    "bydore")  # fmt: skip
    several, questions = results["targets"]["several"], results["targets"]["questions"]
    own = set(several["validation"])
    assert own == {"docstrings", "readmes", "json"}
    for label, losses in several["losses"].items():
        singles = several["single_losses"][label]
        assert set(singles) == own
        np.testing.assert_allclose(losses, np.mean([*singles.values()], axis=0))
    assert questions["validation"] == {"questions": 1.0}
    weights = questions["methods"]["uniform"]["weights"]
    assert own < set(weights)
    assert "questions" not in weights
    for target in (several, questions):
        assert "single" not in target["methods"]
    assert not own & set(several["methods"]["uniform"]["weights"])
    verdicts = results["standings"]["verdicts"]["uniform"]
    assert [*verdicts] == ["several", "several, the worst", "questions"]
    draw("comparison", tmp_path / "run")


def test_compare_withholds_domains_and_judges_again_and_scales_judges_on_larger_models(
    tmp_path: Path, run_here: Run, draw: Callable[[str, Path], None]
) -> None:
    text = write_domains(tmp_path / "text", {"a": "abcde", "b": "vwxyz", "c": "klmno"}, files=12)
    given = ("--smoke", "--data", str(text), "--cache", str(tmp_path / "cache"),
             "--evaluation_sequences", "16", "--methods", "uniform", "natural", "unimax",
             "--unimax_epochs", "0.1")  # fmt: skip
    folder = ("--validation_fraction", "0.5", "--out", str(tmp_path / "run"), "--target_seeds", "1")
    done = run_here("compare", *given, *folder, "--targets", "withheld:a", "withheld:b")
    assert done.returncode == 0, done.stderr
    targets = json.loads((tmp_path / "run" / "results.json").read_text())["targets"]
    assert [set(t["methods"]["natural"]["weights"]) for t in targets.values()] == [
        {"b", "c"},
        {"a", "c"},
    ]
    assert {p.name for p in (tmp_path / "run" / "fits").glob("*a-natural*")} == {
        "withheld-a-natural.json"
    }
    earlier = ("--found", str(tmp_path / "run" / "results.json"))
    more = ("--targets", "withheld:a", "--target_seeds", "2", "--out", str(tmp_path / "more"))
    done = run_here("compare", *given, *more, *earlier, "--validation_fraction", "0.5",
                    "--methods", "natural")  # fmt: skip
    assert done.returncode == 0, done.stderr
    judged = json.loads((tmp_path / "more" / "results.json").read_text())["targets"]
    old = targets["withheld:a"]
    assert judged["withheld:a"]["methods"] == {"natural": old["methods"]["natural"]}
    losses = judged["withheld:a"]["losses"]["natural"]
    assert len(losses) == 2
    assert losses[:1] == old["losses"]["natural"], "the same model on the same text"
    assert not (tmp_path / "more" / "fits").exists()
    asked = (*earlier, "--targets", "withheld:a", "--target_seeds", "1",
             "--out", str(tmp_path / "scales"))  # fmt: skip
    larger = "models/target-tiny"
    done = run_here("scales", *asked, "--models", larger)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "scales"
    found = json.loads((out / "results.json").read_text())
    check_origin(found)
    of = found["losses"]["withheld:a"]
    assert set(of[larger]) == set(of["models/proxy-tiny"])
    assert found["sizes"][larger]["times"] > 1
    assert found["sizes"][larger]["tokens"] == 6 * 8 * 32
    assert found["sizes"][larger]["learning_rate"] == 6e-3 / 2, "twice as wide as the small one"
    draw("larger_models", out)
    kept = {p: p.stat().st_mtime_ns for p in out.glob("models/*/run.json")}
    assert len(kept) == len(of[larger])
    again = run_here("scales", *asked, "--models", larger)
    assert again.stdout == done.stdout
    assert {p: p.stat().st_mtime_ns for p in out.glob("models/*/run.json")} == kept
    odd, none = tmp_path / "odd.json", tmp_path / "none.json"
    weights = {"methods": {"natural": {**old["methods"]["natural"], "weights": {"z": 1.0}}}}
    odd.write_text(json.dumps({"targets": {"withheld:a": weights}, "steps": 6}))
    for name, wrong, message in (
        ("scales", (*earlier, "--targets", "case1"), "withheld:a, withheld:b, found 'case1'"),
        ("compare", (*given, *earlier, "--targets", "case1"), "withheld:b, found 'case1'"),
        (
            "compare",
            (*given, *more, *earlier, "--methods", "mde"),
            "mixture of mde for withheld:a in",
        ),
        ("compare", (*given, *more, "--found", str(odd)), "Expected weights of b, c in the"),
        ("compare", (*given, *more, "--found", str(none)), "Expected results.json of compare"),
    ):
        refused = run_here(name, *wrong, "--out", str(tmp_path / "refused"))
        assert (refused.returncode, refused.stderr.count("error:")) == (2, 1), refused.stderr
        assert message in refused.stderr
    for target, message in {
        "withheld:d": "domain of the data (a, b, c), found 'd'",
        "case1": "found 'docstrings'",
        "d": "Expected one of case1",
    }.items():
        refused = run_here("compare", *given, "--targets", target)
        assert refused.returncode == 2
        assert message in refused.stderr
