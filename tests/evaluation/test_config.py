"""What a model is scored on: benchmarks and files, in any order, each once."""

from __future__ import annotations

import pytest

from bydore_pyro.evaluation.config import PILE13, Benchmark, EvaluationConfig


def test_benchmarks_and_files_are_told_apart() -> None:
    config = EvaluationConfig(tasks=["own.jsonl", "sciq,piqa", "own.jsonl"])
    assert config.names == ["piqa", "sciq"], "in the paper's order"
    assert config.files == ["own.jsonl"]
    assert EvaluationConfig().names == [*PILE13]
    assert len(PILE13) == 13
    assert PILE13["copa"] == Benchmark("COPA", "super_glue/copa", "validation", "train")
    with pytest.raises(ValueError, match=r"Expected tasks one of 'pile13', .*actual 'mmlu'"):
        EvaluationConfig(tasks=["mmlu"])
