"""What a search predicted of its targets, beside what is measured of a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bydore_pyro import answer, data, files, setup
from bydore_pyro.errors import DataError, listed


@dataclass(frozen=True)
class Predictions:
    """A search's forecast for its own weights.

    Attributes:
        tokens: Length of the run that it is for.
        bits_per_byte: Of its targets that are scored on answers, by name.
    """

    tokens: float
    bits_per_byte: Mapping[str, answer.Expected]

    def beside(self, tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Returns results with what was predicted of them: `predicted_bits_per_byte`, and the
        `low` and `high` end of its 94 % interval, where the task is a target of that name."""
        found = {}
        for label, result in tasks.items():
            known = self.bits_per_byte.get(result.get("target", ""))
            found[label] = (
                {**result}
                if known is None
                else {
                    **result,
                    "predicted_bits_per_byte": known.loss,
                    "predicted_bits_per_byte_low": known.low,
                    "predicted_bits_per_byte_high": known.high,
                }
            )
        return found

    def told(self, tasks: Mapping[str, Mapping[str, Any]]) -> str:
        """Returns in words what the predictions are of, and of which tasks there are none."""
        found = {result.get("target") for result in tasks.values()} & {*self.bits_per_byte}
        if not found:
            named = listed(self.bits_per_byte)
            return f"Nothing that was predicted is measured: the search's targets are {named}"
        return (
            f"Predicted are the losses of a proxy like the search's, trained on {self.tokens:,.0f} "
            "tokens with its weights; of a task of lm-eval, on other questions than are scored"
        )


def predictions_of(run: Path) -> Predictions:
    """Reads what a finished search predicted of a run on its weights.

    Args:
        run: Its folder.

    Raises:
        DataError: When it is no finished search, or predicted the bits per byte of no target.
    """
    if not setup.is_finished(run):
        raise DataError(f"Expected a finished search in {run} (--run), found none")
    outlook = files.read_as(setup.Metrics, run / "metrics.json").outlook
    expected = outlook.expected.get(answer.ANSWER, {})
    scored = {
        name: one for name, one in expected.items() if outlook.units.get(name) == data.PER_BYTE
    }
    if not scored:
        raise DataError(
            f"Expected a forecast of targets in bits per byte in {run} (--run), found "
            f"{'those of plain text alone' if expected else 'no forecast'}"
        )
    return Predictions(outlook.tokens, scored)
