"""Every benchmark in smoke size, as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import Run


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
