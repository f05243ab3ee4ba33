"""Every experiment in smoke size, and what the command line refuses, as a user runs them."""

from __future__ import annotations

import gzip
import json
import os
import re
import runpy
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray
from benchmark_data import write_benchmark
from processes import Run
from quick import FEW_STEPS
from tiny import HELD_OUT, write_domains

from bydore_pyro.cli.main import main
from bydore_pyro.data.store import open_store
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.mixture.pile import PILE_DOMAINS
from bydore_pyro.proxy.proxy import Proxy
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.utils.arviz_import import import_arviz

ROOT = Path(__file__).parents[1]
QUICK = Path(__file__).parent / "quick.py"
SCRIPTS = ["case1", "case2", "planted"]  # those that leave a run folder
VARIANTS = ["probabilistic", "scheduling"]  # those that leave one for every variant
COMPARISONS = [
    "plants",
    "compare",
    "scales",
    "repetition",
    "assumptions",
    "convergence",
    "calibration",
]
OTHERS = ["reuse_guide", "regmix_pile", "adaptive"]  # those without a language model
ALL_OF_THEM = "study"
RUN_FILES = {
    *("config.json", "mixture.json", "metrics.json", "manifest.json", "tokenizer.json"),
    *("posterior.nc", "trajectory.nc", "posterior.png", "trajectory.png"),
    "summary.csv",
    "checkpoints",
    "report.html",
}


@pytest.fixture
def draw(run_here: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Path], None]:
    """Draws a figure of the results in a folder, as the experiment's last line says; coarsely."""
    monkeypatch.syspath_prepend(ROOT / "figures")
    monkeypatch.setattr("study_figure.DOTS_PER_INCH", 30)

    def draw(figure: str, folder: Path) -> None:
        given = (str(folder / "results.json"), "--folder", str(folder))
        done = run_here(figure, *given, top="figures")
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [str(folder / f"{figure}.{kind}") for kind in ("pdf", "png")]

    return draw


def check_origin(results: dict[str, Any]) -> None:
    """A file of results tells how it was made and what it took."""
    assert {"seed", "config", "versions", "commit"} <= set(results)
    assert not {"out", "cache"} & set(results["config"].get("run", {}))
    assert {"tokens", "flops", "seconds", "parts"} == set(results["cost"])
    assert results["cost"]["seconds"] > 0


def check_run(folder: Path, seed: int) -> None:
    beside = {"verification.json", *(f"fresh-{seed}.json" for seed in range(3))}
    beside |= {"linear", "side_by_side.md"}  # of a case: the paper's Algorithm 1
    assert {p.name for p in folder.iterdir()} - beside == {*RUN_FILES, "rounds.nc"}
    mixture = Mixture.from_json(folder / "mixture.json")
    metrics = json.loads((folder / "metrics.json").read_text())
    config = json.loads((folder / "config.json").read_text())
    manifest = json.loads((folder / "manifest.json").read_text())
    assert mixture.data_sha256 == manifest["sha256"]
    assert metrics["seed"] == config["run"]["seed"] == seed
    search = SearchConfig(**config["search"])
    assert metrics["steps"] == search.trained_steps
    parts = metrics["search"]["parts"]
    assert {"gradients", "train", "matching", "check", "guide"} == set(parts)
    batch_tokens = search.batch_sequences * config["run"]["sequence_length"]
    assert parts["train"]["tokens"] == metrics["steps"] * batch_tokens
    if folder.name == "run":  # a case
        assert metrics["verification"]["flops"] > 0
        assert "uniform" in metrics["validation_loss_nats_per_token"]
    posterior = import_arviz().from_netcdf(folder / "posterior.nc")["posterior"]
    assert posterior["domain"].values.tolist() == list(mixture.names)


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_smoke(script: str, tmp_path: Path, cache: Path, run_here: Run) -> None:
    out = tmp_path / "run"
    arguments = ["--smoke", "--seed", "3", "--out", str(out), "--cache", str(cache)]
    if script == "planted":
        arguments += ["--domains", "docstrings", "c_headers", "stubs", "python"]
    done = run_here(script, *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    if script == "planted":
        results = json.loads((out / "results.json").read_text())
        seeds = results["seeds"]
        check_origin(results)
        verified = sum(v["flops"] for k, v in results["cost"]["parts"].items() if "verify_" in k)
        searched = sum(row["search"]["flops"] for row in seeds)
        assert 0 < verified == pytest.approx(results["cost"]["flops"] - searched)
        assert (results["seed"], results["config"]["run"]["seed"]) == (3, 3)
        assert [row["seed"] for row in seeds] == [3, 4, 5]
        assert (out / "table.md").read_text() in done.stdout
        for row in seeds:
            check_run(out / f"seed-{row['seed']}", row["seed"])
            losses = {label: statistics.mean(values) for label, values in row["losses"].items()}
            gap = losses["uniform"] - losses["planted"]
            closed = (losses["uniform"] - losses["learned"]) / gap if gap > 0 else None
            assert row["gap_closed"] == (None if closed is None else pytest.approx(closed))
    else:
        check_run(out, 3)
        mixture = Mixture.from_json(out / "mixture.json")
        assert len(mixture.names) == {"case1": 13, "case2": 2}[script]
        for name in mixture.names:
            assert name in done.stdout
    assert "Next:" in done.stdout
    assert "Warning" not in done.stderr
    again = run_here(script, *arguments, cwd=tmp_path)
    assert again.returncode == 2
    assert again.stderr.strip().splitlines() == [
        f"{script}: error: Expected a new output folder, found a run in {out}"
    ]


def test_every_experiment_is_run_here() -> None:
    found = {p.stem for p in (ROOT / "experiments").glob("*.py")} - {
        "calibration_pools",
        "calibration_posterior",
        "calibration_targets",
        "cases",
        "common",
        "compare_tables",
        "compare_targets",
        "convergence_problems",
        "paper_scale",
        "regmix_optimum",
        "regmix_subsets",
    }
    assert found == {*SCRIPTS, *VARIANTS, *COMPARISONS, *OTHERS, ALL_OF_THEM}


@pytest.mark.parametrize("script", [*SCRIPTS, *VARIANTS, *COMPARISONS, *OTHERS, ALL_OF_THEM])
def test_help_lists_its_own_options_and_ten_more_at_most(
    script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def listed(asked: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", [script, asked])
        with pytest.raises(SystemExit) as exit_:
            runpy.run_path(str(ROOT / f"experiments/{script}.py"), run_name="__main__")
        assert exit_.value.code == 0
        return re.findall(r"^  --(?!config|help)(\w+)", capsys.readouterr().out, re.M)

    monkeypatch.syspath_prepend(ROOT / "experiments")
    files = ("cases", "paper_scale") if script.startswith("case") else (script,)
    code = "".join((ROOT / f"experiments/{name}.py").read_text("utf-8") for name in files)
    own, found = re.findall(r"^    (\w+): .* = option\(", code, re.M), listed("--help")
    assert {*own} <= {*found}
    assert len({*found}.difference(own)) <= 10
    assert listed("--help-all")[: len(found)] == found


@pytest.mark.slow
@pytest.mark.parametrize("script", VARIANTS)
def test_variants_in_smoke_size(
    script: str, tmp_path: Path, cache: Path, draw: Callable[[str, Path], None], run_here: Run
) -> None:
    out = tmp_path / "run"
    given = ("--smoke", "--out", str(out), "--cache", str(cache))
    done = run_here(script, *given, "--domains", "python", "licences", "docstrings", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    results = json.loads((out / "results.json").read_text())
    check_origin(results)
    rows = results["learners" if script == "probabilistic" else "strategies"]
    assert set(rows) == {
        "scheduling": {"intra_sampling", "inter_sampling", "intra_weighting", "inter_weighting"},
        "probabilistic": {"bayesian", "point", "exponentiated"},
    }[script]  # fmt: skip
    for name, row in rows.items():
        assert sum(row["weights"].values()) == pytest.approx(1)
        assert len(row["validation_losses"]) == len(row["trajectory"]) == 6
        config = json.loads((out / name / "config.json").read_text())["search"]
        assert name in (config["strategy"], config["learner"])
    draw({"probabilistic": "point_estimate", "scheduling": "scheduling_strategies"}[script], out)
    assert (out / "table.md").read_text() in done.stdout
    (out / "results.json").unlink()
    (out / sorted(rows)[0] / "variant.json").unlink()  # as if killed in its last variant
    again = run_here(script, "--resume", str(out), cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert again.stdout == done.stdout


@pytest.fixture
def smoke(tmp_path: Path, cache: Path, run_here: Run) -> Callable[..., dict]:
    """Runs an experiment and goes on with it as if it had been killed at its end; its results."""

    def smoke(script: str, *more: str) -> dict:
        out = tmp_path / "run"
        given = ("--smoke", "--out", str(out), "--cache", str(cache), *more)
        done = run_here(script, *given, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "Warning" not in done.stderr
        results = json.loads((out / "results.json").read_text())
        check_origin(results)
        assert results["cost"]["tokens"] > 0
        assert (out / "table.md").read_text() in done.stdout
        (out / "results.json").unlink()
        again = run_here(script, "--resume", str(out), cwd=tmp_path)
        assert again.returncode == 0, again.stderr
        found = json.loads((out / "results.json").read_text())
        # The source may have been committed between the two.
        assert {**found, "commit": ""} == {**results, "commit": ""}
        return results

    return smoke


@pytest.mark.slow
def test_plants_in_smoke_size(
    tmp_path: Path,
    cache: Path,
    smoke: Callable[..., dict],
    draw: Callable[[str, Path], None],
    run_here: Run,
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
        assert set(row["losses"]) == {"learned", "planted", "uniform"}
        assert all(len(values) == 1 for values in row["losses"].values())
    draw("planted_mixtures", tmp_path / "run")
    # Found mixtures are judged anew, and nothing is searched.
    found = ("--found", str(tmp_path / "run" / "results.json"), "--out", str(tmp_path / "again"))
    given = ("--smoke", "--cache", str(cache), "--plants", "1", *some, *found)
    done = run_here("plants", *given, "--first", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (again,) = json.loads((tmp_path / "again" / "results.json").read_text())["plants"]
    for row in (again, *rows):
        spent = row.pop("cost_of_fresh_models")
        assert spent["train"]["flops"] > 0
    assert [again] == rows
    assert not (tmp_path / "again" / "plant-3" / "mixture.json").exists()
    done = run_here("plants", *given[:-1], str(tmp_path / "none"), "--first", "4", cwd=tmp_path)
    assert done.returncode == 2
    assert "Expected plant 4 in" in done.stderr


@pytest.mark.slow
def test_calibration_in_smoke_size(
    tmp_path: Path,
    smoke: Callable[..., dict],
    draw: Callable[[str, Path], None],
    run_here: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The guide need not have settled: its draws are put right. Draws of all kinds are judged at
    # their full numbers beside the code that draws them.
    monkeypatch.setattr(*FEW_STEPS)
    monkeypatch.setattr("bydore_pyro.core.importance.MOST_WEIGHED", 1000)
    monkeypatch.setattr("bydore_pyro.analysis.diagnostics.MOVES", 100)
    monkeypatch.syspath_prepend(ROOT / "experiments")
    monkeypatch.setattr("calibration_posterior.WARMUP", 100)
    monkeypatch.setattr("calibration_posterior.THIN", 3)
    given = ("--domains", "python", "licences", "text", "--validation", "text")
    results = smoke("calibration", *given, "--targets", "3", "--by_guide", "1")
    assert results["domains"] == ["python", "licences", "text"]
    assert len(results["cells"]) == 2 * 2 * 3 + 2 * 2
    for cell in results["cells"]:
        at = [cell["coverage"][str(level)]["published"] for level in results["levels"]]
        assert 0 <= at[0] <= at[-1] <= 1, "a wider interval holds more"
        assert at[-1] >= cell["coverage"]["0.94"]["unstretched"]
        assert cell["targets"] == 3
        assert cell["moments"] > 0
    (row,) = results["guide"]["targets"]
    assert row["corrected"]
    assert row["means"] < 0.3
    assert row["deviations"] == pytest.approx(1, abs=0.2)
    draw("interval_coverage", tmp_path / "run")
    refused = run_here("calibration", "--smoke", "--targets", "1")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


def test_plants_need_held_out_text_of_many_documents(tmp_path: Path, run_here: Run) -> None:
    """Many sequences of few documents are not enough."""
    for name, files in (("a", 60), ("b", 90)):
        (tmp_path / "text" / name).mkdir(parents=True)
        for i in range(files):
            text = f"{name} {i} " * 500
            (tmp_path / "text" / name / f"{i}.txt").write_text(text[:3900])
    given = ("--smoke", "--data", str(tmp_path / "text"), "--cache", str(tmp_path / "cache"))
    few = run_here(
        "plants", *given, *("--validation", "a", "--out", str(tmp_path / "run")),
        *("--domain_megabytes", "0", "--validation_fraction", "0.1"),
    )  # fmt: skip
    assert few.returncode == 2
    assert few.stderr.splitlines()[-1].endswith(
        "Expected two domains with 20 sequences of held-out text of 20 documents, found none"
    )
    (store,) = [p for p in (tmp_path / "cache").iterdir() if p.is_dir()]
    held_out = open_store(store).validation_documents
    assert all(len(ends) < 20 for ends in held_out.values())
    assert all(len(t) > 20 * 32 for t in open_store(store).validation.values())


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
    methods = ("--methods", "uniform", "single", "doremi", "regmix", "bydore", "bydore_linear")
    small = ("--regmix_proxies", "3", "--regmix_draws", "200", "--evaluation_sequences", "16")
    targets = smoke("compare", *given, *methods, *small)["targets"]
    assert [*targets] == ["case2"]
    found = targets["case2"]["methods"]
    labels = {"uniform", "only python", "only licences", "doremi", "regmix", "bydore"}
    assert set(found) - {"bydore, pruned"} == labels | {"bydore_linear"}
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


def test_compare_withholds_domains_of_a_folder_and_scales_judges_on_larger_models(
    tmp_path: Path, run_here: Run
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
    asked = ("--compare", str(tmp_path / "run"), "--targets", "withheld:a", "--target_seeds", "1")
    larger = "models/target-tiny"
    done = run_here("scales", *asked, "--models", larger)
    assert done.returncode == 0, done.stderr
    out = tmp_path / "run" / "scales"
    found = json.loads((out / "results.json").read_text())
    check_origin(found)
    of = found["losses"]["withheld:a"]
    assert set(of[larger]) == set(of["models/proxy-tiny"])
    assert found["sizes"][larger]["times"] > 1
    assert found["sizes"][larger]["tokens"] == 6 * 8 * 32
    assert found["sizes"][larger]["learning_rate"] == 6e-3 / 2, "twice as wide as the small one"
    kept = {p: p.stat().st_mtime_ns for p in out.glob("models/*/run.json")}
    assert len(kept) == len(of[larger])
    again = run_here("scales", *asked, "--models", larger)
    assert again.stdout == done.stdout
    assert {p: p.stat().st_mtime_ns for p in out.glob("models/*/run.json")} == kept
    lacking = run_here("scales", "--compare", str(tmp_path / "run"), "--targets", "case1")
    assert (lacking.returncode, lacking.stderr.count("\n")) == (2, 1)
    assert "withheld:a, withheld:b, found 'case1'" in lacking.stderr
    for target, message in {
        "withheld:d": "domain of the data (a, b, c), found 'd'",
        "case1": "found 'docstrings'",
        "d": "Expected one of case1",
    }.items():
        refused = run_here("compare", *given, "--targets", target)
        assert refused.returncode == 2
        assert message in refused.stderr


@pytest.mark.slow
def test_assumptions_in_smoke_size(
    tmp_path: Path, smoke: Callable[..., dict], draw: Callable[[str, Path], None], run_here: Run
) -> None:
    given = ("--steps", "20", "--mixtures", "3", "--domains", "python", "licences", "text")
    results = smoke("assumptions", *given)
    assert set(results["losses"]) == {
        "python",
        "licences",
        "text",
        *(f"mixture {i}" for i in (1, 2, 3)),
    }
    assert results["tokens"][-1] == 20 * 8 * 32
    assert results["cost"]["parts"]["train"]["tokens"] == (3 + 3) * 20 * 8 * 32
    assert results["ranks"]["domains alone"]["pairs"] == 3
    draw("assumption_violations", tmp_path / "run")
    draw("appendix_loss", tmp_path / "run")
    refused = run_here("assumptions", "--smoke", "--steps", "5")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


@pytest.mark.slow
def test_convergence_in_smoke_size(
    tmp_path: Path, cache: Path, draw: Callable[[str, Path], None], run_here: Run
) -> None:
    given = ["--smoke", "--out", str(tmp_path / "run"), "--cache", str(cache), "--repeats", "1"]
    done = run_here("convergence", *given, "--domains", "python", "licences", "text", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    check_origin(results)
    for name in ("known gradients", "the proxy"):
        found = results["problems"][name]
        assert found["bias"]["slope"] == pytest.approx(2, abs=0.05)
        assert -0.9 < found["stationarity"]["slope"] < -0.2
    assert results["problems"]["known gradients"]["stationarity"]["noise"] == 3
    assert results["problems"]["the proxy"]["stationarity"]["noise"] > 0
    assert set(results["cost"]["parts"]) == {"train", "validation", "hypergradient", "guide"}
    draw("convergence_rates", tmp_path / "run")
    again = run_here("convergence", *given, cwd=tmp_path)
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    for wrong in (["--longest", "3"], ["--repeats", "0"], ["--noise", "-1"]):
        assert run_here("convergence", *wrong).returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("benchmark", "arguments", "told"),
    [
        ("density", "--repeats 1 --size 4 3", "| 4 | 3 |"),
        ("search_step", "--smoke --cache CACHE", "search step / plain step: median"),
        ("prepare", "--megabytes 0.1 --repeats 1 --processes 1", "of the bare throughput"),
        (
            "paper_budget",
            "--batch 4 16 --vocabulary 300 --domains 3 --measured 2 --device cpu "
            "--precision float32 --tokens 1000",
            "extrapolated to 1e+03 tokens & aten::mm",
        ),
        (
            "scale",
            "--domains 3 12 --blocks 1 --vocabulary 500 --batch 2 16",
            "a step with 12 domains / with 3: median & "
            "vocabulary 500, 2 x 16 tokens: a training step adds",
        ),
    ],
)
def test_benchmarks(
    benchmark: str,
    arguments: str,
    told: str,
    cache: Path,
    run_here: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")  # restored where a benchmark sets it
    given = arguments.replace("CACHE", str(cache)).split()
    done = run_here(benchmark, *given, top="benchmarks")
    assert done.returncode == 0, done.stderr
    assert all(part in done.stdout for part in told.split(" & "))


@pytest.mark.slow
def test_hypergradient_benchmark(cache: Path, run_here: Run) -> None:
    given = ("--smoke", "--cache", str(cache), "--domains", "python", "licences", "text")
    done = run_here("hypergradient", *given, top="benchmarks")
    assert done.returncode == 0, done.stderr
    errors = {line.split("|")[1].strip(): line for line in done.stdout.splitlines() if "|" in line}
    assert float(errors["forward mode"].split("|")[2]) < 1e-4
    assert float(errors["auto"].split("|")[2]) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("script", "domains"), [("case1", 17), ("case2", 2)])
def test_the_piles_cases(script: str, domains: int, tmp_path: Path, run_here: Run) -> None:
    rows = [
        {"text": f"{name} {i} " * 90, "meta": {"pile_set_name": name}}
        for i in range(40)
        for name in (*PILE_DOMAINS, "Books3")
    ]
    (tmp_path / "pile").mkdir()
    content = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "pile" / "00.jsonl.gz").write_bytes(gzip.compress(content.encode()))
    out = tmp_path / "run"
    arguments = ("--smoke", "--data", f"pile:{tmp_path / 'pile'}", "--validation_fraction", "0.3")
    done = run_here(script, *arguments, "--out", str(out), "--cache", str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    mixture = Mixture.from_json(out / "mixture.json")
    assert set(mixture.names) <= {*PILE_DOMAINS.values()}
    assert len(mixture.names) == domains
    config = json.loads((out / "config.json").read_text())["run"]
    assert config["validation"] == ["pile_cc"]


@pytest.mark.slow
def test_reuse_guide_in_smoke_size(tmp_path: Path, run_here: Run) -> None:
    out = tmp_path / "run"
    done = run_here("reuse_guide", "--smoke", "--out", str(out), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    results = json.loads((out / "results.json").read_text())
    check_origin(results)
    assert {"one_vector", "many_vectors"} <= set(results)
    assert set(results["cost"]["parts"]) == {"one_vector", "many_vectors"}
    assert results["config"]["run"]["vectors"] == 4
    for name in ("one-vector", "many-vectors"):
        assert (out / f"{name}.png").stat().st_size > 0
        shares = import_arviz().from_netcdf(out / f"{name}-guide.nc")["posterior"]["shares"]
        assert shares["kind"].values.tolist() == ["animal", "plant", "tool", "food", "place"]
    again = run_here("reuse_guide", "--smoke", "--out", str(out), cwd=tmp_path)
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    assert run_here("reuse_guide", "--vectors", "1").returncode == 2


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    own = tmp_path_factory.mktemp("own")
    write_domains(own, {"short": "klmno"}, files=1)
    return write_domains(own, {"a": "abcde", "b": "vwxyz"}, files=30)


def test_a_store_a_cap_and_other_mixtures(
    folder: Path, tmp_path: Path, cache: Path, run_here: Run
) -> None:
    """`bydore prepare`, then a search on the store with capped weights, then one that compares.
    Then one on the folder itself, whose output goes where it goes by default."""
    store, out = tmp_path / "store", tmp_path / "run"
    main(["prepare", "--data", str(folder), "--out", str(store), "--vocabulary", "280",
          "--processes", "0"])  # fmt: skip
    arguments = ("--smoke", "--data", str(store), "--validation", "a", "--domains", "a", "b")
    cap = ("--max_epochs", "2", "--target_tokens", "15000")
    done = run_here("case1", *arguments, *cap, "--out", str(out), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    mixture = Mixture.from_json(out / "mixture.json")
    assert mixture.free_weights is not None
    assert "uncapped" in done.stdout
    metrics = json.loads((out / "metrics.json").read_text())
    tokens = {name: len(open_store(store).train[name]) // 32 * 32 for name in mixture.names}
    for name, weight in mixture.as_dict().items():
        assert metrics["run_epochs"][name] == pytest.approx(weight * 15_000 / tokens[name])
        assert metrics["run_epochs"][name] < 2.001
    again = run_here("case1", *arguments, "--compare", str(out / "mixture.json"), cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert str(out / "mixture.json") in again.stdout
    assert "another tokenizer" not in again.stderr
    options = ("--data", str(folder), "--validation", "a", "--cache", str(cache))
    other = ("--domains", "a", "b", "--compare", str(out / "mixture.json"))
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        done = run_here("case1", "--smoke", *options, *other, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (warned,) = [line for line in done.stderr.splitlines() if line.startswith("case1: warning: ")]
    assert "shares of the tokens of another tokenizer" in warned
    newest = max((tmp_path / "runs").iterdir(), key=lambda run: run.stat().st_mtime_ns)
    assert newest.name.startswith("case1-")
    check_run(newest, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--foo"], "unrecognized arguments: --foo"),
        (["--validation", "cats"], "found 'cats'"),
        (["--validation", "a=much"], "Expected --validation NAME=SHARE, found 'a=much'"),
        (["--validation", "a=inf"], "Expected --validation NAME=SHARE, found 'a=inf'"),
        (["--validation", "a", "a=2"], "found 'a' twice"),
        (["--seed", "-1"], "Expected seed in [0, 2**31)"),
        (["--device", "meta"], "found 'meta': neither 'cpu' nor 'cuda'"),
        (
            ["--proxy", "models/proxy-1m", "--sequence_length", "2000", "--domains", "a", "short"],
            "at least one sequence of 2000 tokens in domain 'short', found",
        ),
        (["--sequence_length", "500"], "at least 16 validation sequences of 500 tokens"),
        (
            ["--proxy", "models/none"],
            "a folder with config.json or a hub name, found 'models/none'",
        ),
        (["--compare", str(ROOT / "tests/files/mixture-of-cats.json")], "found 'cats' in"),
        (["--learning_rate", "1e30", "--steps", "40"], "Step"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str],
    message: str,
    folder: Path,
    tmp_path: Path,
    cache: Path,
    run_here: Run,
) -> None:
    given = {"--data": str(folder), "--validation": "a", "--out": str(tmp_path / "run")}
    defaults = [x for option, v in given.items() if option not in arguments for x in (option, v)]
    done = run_here("case1", "--smoke", "--cache", str(cache), *defaults, *arguments)
    stderr = done.stderr
    assert done.returncode == 2, stderr
    errors = [line for line in stderr.splitlines() if line.startswith("case1: error: ")]
    assert len(errors) == 1
    assert message in errors[0]
    assert stderr.rstrip().endswith(errors[0])
    if message == "Step":  # found while it ran: what came before is kept
        assert (tmp_path / "run" / "config.json").exists()
        metrics = json.loads((tmp_path / "run" / "linear" / "metrics.json").read_text())
        assert metrics["stopped"] in errors[0]
    else:
        assert not (tmp_path / "run").exists(), "refused before anything was written"


def test_a_loss_that_turns_nan_leaves_what_came_before(
    folder: Path,
    tmp_path: Path,
    cache: Path,
    run_here: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sound = Proxy.step

    def step(self: Proxy, *batch: torch.Tensor) -> torch.Tensor:
        losses = sound(self, *batch)
        if self.steps == 3:
            with torch.no_grad():
                next(self.model.parameters()).fill_(float("nan"))
        return losses

    monkeypatch.setattr(Proxy, "step", step)
    out = tmp_path / "run"
    arguments = ("--data", str(folder), "--validation", "a", "--out", str(out))
    done = run_here("case1", "--smoke", "--evidence", "linear", "--cache", str(cache), *arguments)
    assert done.returncode == 2
    named = "case1: error: Step 2: the validation loss of domain 'validation' is nan"
    assert named in done.stderr
    assert {"a", "b"} <= set(Mixture.from_json(out / "mixture.json").names)
    posterior = import_arviz().from_netcdf(out / "posterior.nc")["posterior"]
    assert np.isfinite(posterior["w"].values).all()
    trajectory = xarray.load_dataset(out / "trajectory.nc", engine="h5netcdf")
    assert trajectory.sizes["step"] == 2
    assert np.isfinite(trajectory["g"].values).all()


def test_a_folder_with_an_empty_domain_is_refused(tmp_path: Path, run_here: Run) -> None:
    own = write_domains(tmp_path / "own", {"a": "abcde", "b": "vwxyz"}, files=3)
    (own / "c").mkdir()
    done = run_here("case1", "--smoke", "--data", str(own), "--validation", "a")
    assert done.returncode == 2
    assert done.stderr.strip() == f"case1: error: Expected text files, found none in {own / 'c'}"


@pytest.mark.slow
def test_a_case_at_the_papers_size_in_small(
    tmp_path: Path, run_here: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Search, target training and evaluation in a chain; goes on where it was broken off."""
    parts, run = [], subprocess.run

    def here(command: list[str], **rest: Any) -> subprocess.CompletedProcess[str]:
        """Runs a command of `bydore` in this process, which saves the imports."""
        if command[:3] != [sys.executable, "-m", "bydore_pyro"]:
            return run(command, **rest)
        parts.append(command[3])
        main(command[3:])
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", here)
    text = write_domains(tmp_path / "text", {"law": "abcde", "web": "vwxyz"}, files=30)
    write_benchmark(tmp_path / "benchmarks", "piqa")
    (tmp_path / "train.json").write_text(json.dumps({"max_epochs": 50, "device": "cpu"}))
    asked = {"tasks": ["piqa"], "data_dir": str(tmp_path / "benchmarks"), "num_fewshot": [0]}
    (tmp_path / "evaluate.json").write_text(json.dumps({**asked, "device": "cpu"}))
    out = tmp_path / "run"
    given = (
        *("--smoke", "--scale", "paper", "--data", str(text), "--validation", "law"),
        *("--cache", str(tmp_path / "cache"), "--tokens", "1500", "--target_tokens", "2048"),
        *("--proxy", "models/proxy-tiny", "--sequence_length", "32", "--vocabulary", "300"),
        *("--precision", "float32", "--max_epochs", "50", "--target_model", "models/target-tiny"),
        *("--train_config", str(tmp_path / "train.json")),
    )
    none = str(tmp_path / "none.json")
    done = run_here("case1", *given, "--evaluate_config", none, "--out", str(out))
    assert done.returncode == 2
    assert "Expected a file of options, found none at" in done.stderr
    assert not out.exists()
    whole = (*given, "--evaluate_config", str(tmp_path / "evaluate.json"), "--out", str(out))
    done = run_here("case1", *whole)
    assert done.returncode == 0, done.stderr
    metrics = json.loads((out / "target" / "metrics.json").read_text())
    assert metrics["tokens"] == 2048
    scores = out / "target" / "model" / "scores.json"
    before = (out / "target" / "metrics.json").stat().st_mtime_ns
    assert "piqa" in scores.read_text()
    scores.unlink()
    again = run_here("case1", "--resume", str(out))
    assert again.returncode == 0, again.stderr
    assert parts == ["train", "evaluate", "evaluate"]
    assert scores.is_file()
    assert (out / "target" / "metrics.json").stat().st_mtime_ns == before


def write_program(path: Path, line: str) -> str:
    """Writes a program of one line for the shell; returns its path."""
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.slow
def test_the_study_keeps_what_it_ran_and_runs_nothing_twice(
    tmp_path: Path, cache: Path, run_here: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = write_program(tmp_path / "quick", f'exec "{sys.executable}" "{QUICK}" "$@"')
    runs, figures = tmp_path / "runs", tmp_path / "figures"
    given = ("--smoke", "--out", str(runs), "--figures", str(figures), "--cache", str(cache))
    few = ("--domains", "python", "licences", "docstrings")
    case = run_here("case1", "--smoke", "--out", str(runs / "case1"), "--cache", str(cache), *few)
    assert case.returncode == 0, case.stderr
    only = ("--only", "scheduling", "case1")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", quick)
        done = run_here("study", *given, *only)
        assert done.returncode == 0, done.stderr
        assert "case1: finished before" in done.stderr
        kept = json.loads((figures / "results" / "scheduling.json").read_text())
        found = json.loads((runs / "scheduling" / "results.json").read_text())
        assert kept.keys() == found.keys()
        path, whole_path = (r["strategies"]["intra_sampling"]["trajectory"] for r in (kept, found))
        np.testing.assert_allclose(path, whole_path, rtol=1e-4)
        told = (runs / "scheduling.log").read_text()
        assert (figures / "results" / "scheduling.md").read_text() in told
        assert "scheduling: done, " in done.stderr
        config = json.loads((figures / "results" / "case1" / "config.json").read_text())
        assert config["run"]["smoke"]
        assert not {"out", "cache"} & set(config["run"]), "what is committed tells no places"
        posterior = import_arviz().from_netcdf(figures / "results" / "case1" / "posterior.nc")
        whole = import_arviz().from_netcdf(runs / "case1" / "posterior.nc")
        np.testing.assert_allclose(
            posterior["posterior"]["w"],
            whole["posterior"]["w"].values[:, :500],
            rtol=1e-6,
            atol=1e-30,
        )
        (runs / "scheduling" / "table.md").unlink()  # as if killed at its end
        again = run_here("study", *given, *only)
        assert again.returncode == 0, again.stderr
        assert "--resume" in again.stderr
        resumed = json.loads((figures / "results" / "scheduling.json").read_text())
        # The source may have been committed between the two.
        assert {**resumed, "commit": ""} == {**kept, "commit": ""}
    refused = run_here("study", "--only", "nothing")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


def test_the_study_tells_what_failed(
    tmp_path: Path, run_here: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails = write_program(tmp_path / "fails", 'echo "$1 $2"; echo "plants: error: no text"; exit 2')
    monkeypatch.setattr(sys, "executable", fails)
    given = ("--out", str(tmp_path / "runs"), "--figures", str(tmp_path / "figures"))
    failed = run_here("study", *given, "--only", "plants", "case1")
    assert failed.returncode == 2
    assert "plants: plants: error: no text (all of it in " in failed.stderr
    assert f"{ROOT}/experiments/plants.py --plants" in (tmp_path / "runs/plants.log").read_text()


STUDY = """
import runpy, sys
sys.executable, *sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
def test_the_study_ends_what_it_has_begun(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    waits = write_program(tmp_path / "waits", f'echo $$ >> "{begun}"; exec sleep 100')
    script = [sys.executable, "-c", STUDY, waits, str(ROOT / "experiments" / "study.py")]
    only = ("--only", "convergence", "scheduling")
    with subprocess.Popen([*script, "--out", str(tmp_path / "runs"), *only]) as study:
        while not begun.exists() or begun.read_text().count("\n") < 2:
            time.sleep(0.1)
        time.sleep(2)  # until the study, too, has noted that they run
        study.terminate()
        assert study.wait(60) == 143
    for process in map(int, begun.read_text().split()):
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
