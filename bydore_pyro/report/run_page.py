"""What the page on one run shows."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from typing import Any

from bydore_pyro.report.drawing import MOST_DRAWN, MOST_POINTS, Look, domain_looks
from bydore_pyro.report.figures import (
    SMOOTHED,
    losses_figure,
    rounds_figure,
    trajectory_figure,
    weights_figure,
)
from bydore_pyro.report.lengths import (
    length_epochs_figure,
    length_table,
    length_weights_figure,
    lengths_in,
)
from bydore_pyro.report.matching_words import round_tables, rounds_in
from bydore_pyro.report.page_frame import drawn_frame, frame, plot
from bydore_pyro.report.regression_tables import regression_tables
from bydore_pyro.report.run_record import RunRecord
from bydore_pyro.report.run_sections import (
    asked,
    commands,
    cost_table,
    cost_told,
    domain_rows,
    loss_table,
    manifest_table,
    short_version,
    source_of,
)
from bydore_pyro.report.verdicts import SEARCHES, verdicts_of
from bydore_pyro.report.words import count, number, percent

__all__ = ["run_page"]


def run_page(record: RunRecord) -> dict[str, Any]:
    """Returns what the template `run.html` shows of a run.

    Raises:
        ImportError: When plotly or jinja2 is not installed.
    """
    looks, mixture = domain_looks(record.domains), record.mixture
    steps = 0 if record.trajectory is None else len(record.trajectory.steps)
    rows = domain_rows(record)
    told = {looks[row.name].key: f"{row.name}: {row.told}" for row in rows}
    versions = record.metrics.get("versions")
    version = versions.get("bydore-pyro") if isinstance(versions, dict) else None
    title = f"{record.label}: weights of {len(record.domains)} domains"
    place = f"Found by {record.method}. Run folder: {record.path}"
    return {
        **frame(title, place, str(version or "")),
        **drawn_frame(told),
        **_figures(record, looks),
        "round_tables": round_tables(rounds_in(record.metrics)),
        "lengths_table": length_table(lengths_in(record.metrics)),
        "cost": cost_told(record),
        "costs": [cost_table(record, total) for total in ("search", "verification")],
        "regression": regression_tables(record),
        "record": record,
        "mixture": mixture,
        "posterior": record.method in SEARCHES and mixture is not None and mixture.hdi is not None,
        "interval": "" if mixture is None else percent(mixture.hdi_probability),
        "uniform": number(1 / len(looks)) if looks else "",
        "run_tokens": count(record.number("run_tokens")),
        "smoothed": SMOOTHED,
        "most_drawn": MOST_DRAWN,
        "one_in": math.ceil(steps / MOST_POINTS),
        "short": short_version(record),
        "verdicts": verdicts_of(record),
        "asked": asked(record),
        "rows": rows,
        "looks": looks,
        "chips": [looks[row.name] for row in rows[:MOST_DRAWN]],
        "fresh": loss_table(record),
        "source": source_of(record),
        "manifest": manifest_table(record),
        "commands": commands(record),
        "repeat": _again(record),
        "versions": _versions(record),
    }


def _figures(record: RunRecord, looks: Mapping[str, Look]) -> dict[str, Any]:
    """Returns the figures by name, None for what a run does not have."""
    drawn = {
        "weights": ("Weights by domain", weights_figure),
        "trajectory": ("Weights by step", trajectory_figure),
        "losses": ("Losses by step", losses_figure),
        "rounds": ("Weights by round", rounds_figure),
        "lengths": ("Weights by length of the run", length_weights_figure),
        "length_epochs": ("Epochs by length of the run", length_epochs_figure),
    }
    return {
        name: plot(name.replace("_", "-"), label, draw(record, looks))
        for name, (label, draw) in drawn.items()
    }


def _again(record: RunRecord) -> str:
    """Returns the command that repeats a search, "" where it is not one line."""
    if record.method != "search" or record.config.get("name") != "search":
        return ""
    config = shlex.quote(str(record.path / "config.json"))
    return f"bydore search --config {config} --out NEW"


def _versions(record: RunRecord) -> list[tuple[str, str]]:
    versions, commit = record.metrics.get("versions"), record.metrics.get("commit")
    found = [(str(k), str(v)) for k, v in versions.items()] if isinstance(versions, dict) else []
    if commit:
        found.append(("commit", str(commit)))
    return found
