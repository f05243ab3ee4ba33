"""What the page on one run shows."""

from __future__ import annotations

import math
import shlex
from typing import Any

from bydore_pyro.report.drawing import MOST_DRAWN, MOST_POINTS, domain_looks
from bydore_pyro.report.figures import (
    SMOOTHED,
    lengths_figure,
    losses_figure,
    rounds_figure,
    trajectory_figure,
    weights_figure,
)
from bydore_pyro.report.matching import round_tables
from bydore_pyro.report.regression import regression_tables
from bydore_pyro.report.run_record import RunRecord
from bydore_pyro.report.run_sections import (
    asked,
    commands,
    cost_table,
    cost_told,
    domain_rows,
    length_table,
    loss_table,
    manifest_table,
    short_version,
    source_of,
)
from bydore_pyro.report.verdicts import verdicts_of
from bydore_pyro.report.words import clean, count, number, percent

__all__ = ["run_page"]

FIGURES = {
    "weights": weights_figure,
    "trajectory": trajectory_figure,
    "losses": losses_figure,
    "rounds": rounds_figure,
    "lengths": lengths_figure,
}


def run_page(record: RunRecord) -> dict[str, Any]:
    """Returns what the template `run.html` shows of a run.

    Raises:
        ImportError: When plotly is not installed.
    """
    metrics, mixture, looks = record.metrics, record.mixture, domain_looks(record.domains)
    rows = domain_rows(record)
    steps = 0 if record.trajectory is None else record.trajectory.sizes["step"]
    commit = [("commit", metrics.commit)] if metrics.commit else []
    return {
        "title": f"{record.label}: weights of {len(record.domains)} domains",
        "subtitle": f"Found by {record.method}. Run folder: {record.path}",
        "version": metrics.versions.get("bydore-pyro", ""),
        "told": {looks[row.name].key: clean(f"{row.name}: {row.told}") for row in rows},
        "figures": {name: draw(record, looks) for name, draw in FIGURES.items()},
        "record": record,
        "mixture": mixture,
        "interval": "" if mixture is None else percent(mixture.hdi_probability),
        "uniform": number(1 / len(looks)) if looks else "",
        "run_tokens": count(metrics.run_tokens),
        "smoothed": SMOOTHED,
        "most_drawn": MOST_DRAWN,
        "one_in": math.ceil(steps / MOST_POINTS),
        "short": short_version(record),
        "verdicts": verdicts_of(record),
        "asked": asked(record),
        "rows": rows,
        "looks": looks,
        "lengths": length_table(record),
        "rounds": round_tables(metrics.matching.rounds),
        "regression": regression_tables(record),
        "fresh": loss_table(record),
        "cost": cost_told(record),
        "costs": [
            cost_table(metrics.search, "Finding the weights"),
            cost_table(
                metrics.verification, "Judging the weights by fresh models: not part of the method"
            ),
        ],
        "source": source_of(record),
        "manifest": manifest_table(record),
        "commands": commands(record),
        "repeat": _again(record),
        "versions": [*metrics.versions.items(), *commit],
    }


def _again(record: RunRecord) -> str:
    """Returns the command that repeats a search, "" where it is not one line."""
    if record.method != "search" or record.config.get("name") != "search":
        return ""
    config = shlex.quote(str(record.path / "config.json"))
    return f"bydore search --config {config} --out NEW"
