"""What a search predicted, beside what is measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmark_data import write_run

from bydore_pyro import answer
from bydore_pyro.errors import DataError
from bydore_pyro.evaluation import Predictions, predictions_of

EXPECTED = {
    "answer": {
        "arc": answer.Expected(loss=1.5, low=1.4, high=1.7),
        "law": answer.Expected(loss=3.0, low=2.9, high=3.1),
    }
}


def test_targets_that_are_scored_on_answers_are_compared_by_name(tmp_path: Path) -> None:
    units = {"arc": "bits per byte", "law": "nats per token"}
    found = predictions_of(write_run(tmp_path / "run", expected=EXPECTED, units=units))
    assert found == Predictions(5000.0, {"arc": EXPECTED["answer"]["arc"]})
    tasks = {"data/arc.jsonl": {"target": "arc", "bits_per_byte": 1.6}, "law": {"target": "law"}}
    both = found.beside(tasks)
    assert both["data/arc.jsonl"] == {
        **tasks["data/arc.jsonl"],
        "predicted_bits_per_byte": 1.5,
        "predicted_bits_per_byte_low": 1.4,
        "predicted_bits_per_byte_high": 1.7,
    }
    assert both["law"] == tasks["law"]
    assert "trained on 5,000 tokens" in found.told(tasks)
    assert found.told({"law": {}}) == (
        "Nothing that was predicted is measured: the search's targets are arc"
    )


def test_runs_that_predicted_nothing_of_the_kind(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"^Expected a finished search in .* found none$"):
        predictions_of(tmp_path)
    with pytest.raises(DataError, match=r"found no forecast$"):
        predictions_of(write_run(tmp_path / "none"))
    units = {"arc": "nats per token", "law": "nats per token"}
    with pytest.raises(DataError, match=r"found those of plain text alone$"):
        predictions_of(write_run(tmp_path / "plain", expected=EXPECTED, units=units))
