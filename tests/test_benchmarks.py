"""Every benchmark in smoke size, as a user runs it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from processes import Run, quick_python

SLOW = pytest.mark.slow  # they start programs, or measure long


@pytest.mark.parametrize(
    ("benchmark", "arguments", "told"),
    [
        ("search_step", "--smoke --cache CACHE", "search step / plain step: median"),
        pytest.param(
            *("prepare", "--megabytes 0.1 --repeats 1 --processes 1", "of the bare throughput"),
            marks=SLOW,
        ),
        (
            "shards",
            "--gigabytes 0.01 --domains 2 --sequences 140 --shards 20",
            "0.01 GB in 2 domains: opened in & 140 sequences drawn in & "
            "20 shards: a sequence takes & times with a check of all files before it",
        ),
        pytest.param(
            "sampling",
            "--smoke",
            "| elsewhere | jsonl | 0.02 GB & | S3, broken & times | all kinds & "
            "the store is the same",
            marks=SLOW,
        ),
        pytest.param(
            *("cluster", "--proxies 2 --steps 1 --repeats 1", "sweeps: Ray / by hand: median"),
            marks=SLOW,
        ),
        (
            "core",
            "--sizes 3 --samples 10 --blocks 1",
            "K = 3: an effective sample takes & with two levels; ratio: median",
        ),
        pytest.param(
            "domains",
            "--smoke",
            "12 domains: & inference: & total variation from the planted shares & "
            "times the time per domain of 12",
            marks=SLOW,
        ),
        (
            "questions",
            "--domains 13 --questions target",
            "13 domains, seconds: & forecast of a mixture & law, less uniform: -0.",
        ),
        (
            "finished_runs",
            "--runs 30 --domains 5 --targets 3 --kinds law linear",
            "30 runs, 5 domains, 3 targets & law: fitted in & linear: fitted in",
        ),
        ("target", "--smoke", "models/target-tiny: 802,944 parameters, cpu & over 3 steps"),
        pytest.param(
            "gpu",
            "--smoke --out OUT",
            'agreement: & "agrees": true & minutes for 0.4B & over 3 steps',
            marks=SLOW,
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
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")  # restored where a benchmark sets it
    if benchmark == "domains":
        monkeypatch.setattr(sys, "executable", quick_python(tmp_path))
    given = arguments.replace("CACHE", str(cache)).replace("OUT", str(tmp_path / "gpu")).split()
    done = run_here(benchmark, *given, top="benchmarks")
    assert done.returncode == 0, done.stderr
    assert all(part in done.stdout for part in told.split(" & "))
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
