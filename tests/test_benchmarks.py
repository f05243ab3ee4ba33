"""Every benchmark in smoke size, as a user runs it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from processes import Run, write_program

# By benchmark: its arguments, and what it must print.
QUICK = {
    "search_step": ("--smoke --cache CACHE", "median"),
    "shards": (
        "--gigabytes 0.01 --domains 2 --sequences 140 --shards 20",
        "140 sequences drawn in",
    ),
    "questions": ("--domains 13 --questions target", "law, less uniform: -0."),
    "finished_runs": ("--runs 30 --domains 5 --targets 3 --kinds law linear", "linear: fitted in"),
    "overlap": (
        "--gigabytes 0.001 --documents 10 --planted 5 --megabytes 0.3",
        "change: upper case: 5 by words",
    ),
    "target": ("--smoke", "802,944 parameters"),
    "scale": ("--domains 3 12 --blocks 1 --vocabulary 500 --batch 2 16", "with 3: median"),
}
SLOW = {  # they start programs, or measure long
    "core": ("--sizes 3 --samples 10 --blocks 1", "an effective sample takes"),
    "prepare": ("--megabytes 0.1 --repeats 1 --processes 1", "of the bare throughput"),
    "sampling": ("--smoke", "the store is the same"),
    "cluster": ("--proxies 2 --steps 1 --repeats 1", "sweeps: Ray / by hand: median"),
    "domains": ("--smoke", "total variation from the planted shares"),
    "gpu": ("--smoke --out OUT", '"agrees": true'),
    "families": (
        "--posteriors sparse --seeds 1 --steps 50 --out OUT",
        "| AutoMultivariateNormal |",
    ),
}


@pytest.mark.parametrize(
    "benchmark", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_benchmarks(
    benchmark: str, cache: Path, run_here: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    arguments, printed = {**QUICK, **SLOW}[benchmark]
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")  # restored where a benchmark sets it
    if benchmark == "domains":
        line = f'exec "{sys.executable}" "{Path(__file__).parent}/quick.py" "$@"'
        monkeypatch.setattr(sys, "executable", write_program(tmp_path / "quick", line))
    given = arguments.replace("CACHE", str(cache)).replace("OUT", str(tmp_path / "out")).split()
    done = run_here(benchmark, *given, top="benchmarks")
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout
    assert "ANOTHER" not in done.stdout


def test_the_benchmark_of_training_counts_flops(monkeypatch: pytest.MonkeyPatch) -> None:
    """66,000 tokens a second of the 1.1 B model at T = 2,048 are 48.8 % of an H200's bf16 rate."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    module = importlib.import_module("target")
    options = module.BenchmarkOptions(
        benchmark=module.BenchmarkConfig(model="models/target-1b"),
        target=module.TargetConfig(target_batch_sequences=64),
    )
    metrics = {
        "parameters": 1_100_048_384,
        "embedding_parameters": 65_536_000,
        "device": "NVIDIA H200",
    }
    text = module.report(options, metrics, [64 * 2048 / 66_000] * 3)
    # (6 x 1,034,512,384 + 12 x 22 x 2,048 x 2,048) x 66,000 = 4.827e14
    assert "66,000 tokens per second, 482.7 TFLOP/s, 48.8% of 989.4" in text
