"""What holds for every experiment; in smoke size those without a test file of their own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from planted_laws import READ_AT, planted
from processes import Run

ROOT = Path(__file__).parents[1]
HERE = ["probabilistic", "plants", "assumptions", "convergence", "calibration", "reuse_guide"]
HERE += ["tables", "law"]
# Each has a test file of its own.
ELSEWHERE = [
    "composition_at_scale",
    "case1",
    "case2",
    "scheduling",
    "compare",
    "regmix_pile",
    "decisions",
    "drift",
]
ELSEWHERE += ["few_runs", "study", "tasks", "response_ranks", "task_decisions", "task_scale"]
ELSEWHERE += ["task_searches"]


def test_every_experiment_is_run_here() -> None:
    scripts = (ROOT / "experiments").glob("*.py")
    found = {p.stem for p in scripts if 'if __name__ == "__main__"' in p.read_text("utf-8")}
    assert found == {*HERE, *ELSEWHERE}


def test_probabilistic_in_smoke_size(
    tmp_path: Path,
    cache: Path,
    draw: Callable[[str, Path], None],
    experiment: Callable[..., dict],
    run_here: Run,
) -> None:
    out, few = tmp_path / "run", ("--domains", "python", "licences", "docstrings")
    results = experiment("probabilistic", "--smoke", "--cache", str(cache), *few)
    assert set(results["learners"]) == {"bayesian", "point", "exponentiated"}
    for row in results["learners"].values():
        assert sum(row["weights"].values()) == pytest.approx(1)
        assert len(row["validation_losses"]) == len(row["trajectory"]) == 6
    draw("point_estimate", out)
    table = (out / "table.md").read_text()
    (out / "results.json").unlink()
    shutil.rmtree(out / "bayesian" / "variant")  # as if killed in its last variant
    again = run_here("probabilistic", "--resume", str(out), cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert table in again.stdout


@pytest.mark.slow
def test_plants_in_smoke_size(
    tmp_path: Path, smoke: Callable[..., dict], draw: Callable[[str, Path], None]
) -> None:
    some = ("--domains", "python", "python_tests", "docstrings", "text")
    rows = smoke("plants", "--plants", "1", "--first", "3", *some)["plants"]
    assert [row["plant"] for row in rows] == [3]
    for row in rows:
        assert sum(row["shares"].values()) == pytest.approx(1)
        everywhere = {*row["weights"], *row["shares"]}
        apart = sum(abs(row["weights"][n] - row["shares"].get(n, 0)) for n in everywhere)
        assert row["total_variation"] == pytest.approx(apart / 2)
        assert row["total_variation_alike_merged"] <= row["total_variation"] + 1e-9
    draw("planted_mixtures", tmp_path / "run")


@pytest.mark.slow
def test_calibration_in_smoke_size(
    tmp_path: Path, smoke: Callable[..., dict], draw: Callable[[str, Path], None]
) -> None:
    given = ("--domains", "python", "licences", "text", "--validation", "text")
    results = smoke("calibration", *given, "--targets", "3")
    assert results["domains"] == ["python", "licences", "text"]
    assert len(results["cells"]) == 2 * 2 * 3 + 2 * 2
    for cell in results["cells"]:
        assert ("flat_prior" in cell) == (cell["counting"] == "by document")
        for counted in (cell, cell.get("flat_prior", cell)):
            at = [counted["coverage"][str(level)]["published"] for level in results["levels"]]
            assert 0 <= at[0] <= at[-1] <= 1, "a wider interval holds more"
            assert 0 < counted["width"] < 1
    draw("interval_coverage", tmp_path / "run")


def test_assumptions_in_smoke_size(
    tmp_path: Path, smoke: Callable[..., dict], draw: Callable[[str, Path], None]
) -> None:
    given = ("--steps", "20", "--mixtures", "3", "--domains", "python", "licences", "text")
    results = smoke("assumptions", *given)
    mixtures = {f"mixture {i}" for i in (1, 2, 3)}
    assert set(results["losses"]) == {"python", "licences", "text"} | mixtures
    assert results["tokens"][-1] == 20 * 8 * 32
    assert results["cost"]["parts"]["train"]["tokens"] == (3 + 3) * 20 * 8 * 32
    assert results["ranks"]["domains alone"]["pairs"] == 3
    draw("assumption_violations", tmp_path / "run")


def test_convergence_in_smoke_size(
    tmp_path: Path, smoke: Callable[..., dict], draw: Callable[[str, Path], None], run_here: Run
) -> None:
    results = smoke("convergence", "--domains", "python", "licences", "text")
    for found in results["problems"].values():
        assert found["bias"]["slope"] == pytest.approx(2, abs=0.05)
    assert set(results["cost"]["parts"]) == {"train", "validation", "hypergradient"}
    draw("convergence_rates", tmp_path / "run")
    again = run_here("convergence", "--smoke", "--out", str(tmp_path / "run"))
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)


def test_reuse_guide_in_smoke_size(experiment: Callable[..., dict]) -> None:
    results = experiment("reuse_guide", "--smoke")
    assert {"one_vector", "many_vectors"} <= set(results)
    assert set(results["cost"]["parts"]) == {"one_vector", "many_vectors"}
    assert results["config"]["run"]["vectors"] == 4


def write_finished_runs(folder: Path) -> Path:
    """A corpus of 9 planted runs and the first one's readings, and one that was read too early."""
    names, (tokens, losses, cross) = ("a", "b", "c"), planted(3, 9)
    lengths = [1.0] * 9 + [*READ_AT]
    header = ["run", "steps", *(f"{kind}/{n}" for kind in ("weight", "loss") for n in names)]
    lines = [
        [f"r{i}", f"{100 * n:g}", *(f"{v:.5f}" for v in (*(w / n).tolist(), *row.tolist()))]
        for i, (n, w, row) in enumerate(zip(lengths, tokens, losses, strict=True))
    ]
    lines.append(["early", "10", *["0.33333"] * 3, *["9.9"] * 3])
    rows = [["held-out text of", *names]]
    rows += [[n, *map(str, row)] for n, row in zip(names, cross.tolist(), strict=True)]
    for name, table in (("runs", [header, *lines]), ("cross", rows)):
        text = "".join(",".join(line) + "\n" for line in table)
        (folder / f"small-{name}.csv").write_text(text, encoding="utf-8")
    return folder


def test_tables_in_smoke_size_go_on_where_they_were(
    tmp_path: Path, experiment: Callable[..., dict], run_here: Run
) -> None:
    rng, runs, out = np.random.default_rng(0), tmp_path / "swarm", tmp_path / "run"
    runs.mkdir()
    weights = rng.dirichlet(np.ones(3), 30)
    for name, columns, values in (
        ("ratios", "a,b,c", weights),
        ("metrics", "a,exam", 2 + (weights[:, :2] + 0.1) ** -0.4),
    ):
        lines = [f"r{n}," + ",".join(f"{x:.12f}" for x in row) for n, row in enumerate(values)]
        (runs / f"{name}.csv").write_text("\n".join([f"run,{columns}", *lines]))
    results = experiment("tables", "--smoke", "--draws", "1", "--runs", str(runs))
    found = results["tables"]["swarm"]["6"]
    assert {*found} == {"law", "gaussian_process", "log_linear", "linear"}
    assert found["law"]["spearman_of_a_target"] > 0.5
    (out / "results.json").unlink()
    again = run_here("tables", "--resume", str(out))
    assert again.returncode == 0, again.stderr
    resumed = json.loads((out / "results.json").read_text())
    assert resumed["tables"] == results["tables"]
    assert resumed["cost"]["seconds"] < results["cost"]["seconds"] / 10, "nothing is fitted again"


def test_law_in_smoke_size(tmp_path: Path, experiment: Callable[..., dict], run_here: Run) -> None:
    given = ("--smoke", "--runs", str(write_finished_runs(tmp_path)))
    results = experiment("law", *given, "--fitted", "4")
    (counts,) = results["corpora"].values()
    assert {*counts["4"]} - {*counts["1"]} == {"Gaussian process"}
    for methods in counts.values():
        assert methods["law"]["spearman_of_a_domain"] > 0.9
        assert methods["law"]["rmse"] < methods["own share only"]["rmse"]
        assert 60 < methods["law"]["held"] <= 100
    more = ("--runs", str(tmp_path), "--out", str(tmp_path / "no"), "--fitted", "8")
    refused = run_here("law", *more)
    assert (refused.returncode, (tmp_path / "no").exists()) == (2, False)
    assert "Expected at most 6 fitted runs, actual 8" in refused.stderr
