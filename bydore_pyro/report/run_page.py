"""What the page on one run shows."""

from __future__ import annotations

import math
import shlex
from typing import Any

from bydore_pyro.analysis import SMOOTHED
from bydore_pyro.report.drawing import MOST_DRAWN, MOST_POINTS, domain_looks
from bydore_pyro.report.figures import (
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
    every_option,
    loss_table,
    manifest_table,
    short_version,
    source_of,
)
from bydore_pyro.report.verdicts import SEARCHES, decisions, verdicts_of
from bydore_pyro.report.words import number, percent

__all__ = ["run_page"]


def run_page(record: RunRecord) -> dict[str, Any]:
    """Returns what the template `run.html` shows of a run.

    Raises:
        ImportError: When plotly or jinja2 is not installed.
    """
    looks = domain_looks(record.domains)
    rows = domain_rows(record)
    told = {looks[row.name].key: f"{row.name}: {row.told}" for row in rows}
    versions = record.metrics.get("versions")
    version = versions.get("bydore-pyro") if isinstance(versions, dict) else None
    title = f"{record.label}: weights of {len(record.domains)} domains"
    place = f"Found by {record.method}. Run folder: {record.path}"
    return {
        **frame(title, place, str(version or "")),
        **drawn_frame(told),
        **_figures(record),
        **_rounds(record),
        **_lengths(record),
        "cost": cost_told(record),
        "costs": [cost_table(record, total) for total in ("search", "verification")],
        "regression": regression_tables(record),
        "stopped": str(record.metrics["stopped"]) if "stopped" in record.metrics else "",
        "damaged": record.damaged,
        "short": short_version(record),
        "verdicts": verdicts_of(record),
        "asked": asked(record),
        "options": every_option(record),
        "rows": rows,
        "looks": looks,
        "chips": [looks[row.name] for row in rows[:MOST_DRAWN]],
        "table_note": _table_note(record),
        "fresh": loss_table(record),
        "source": source_of(record),
        "manifest": manifest_table(record),
        "data_note": "manifest.json in the run's folder names every source with its hash."
        if record.manifest
        else "The run keeps no manifest of its own.",
        "commands": commands(record),
        "repeat": _again(record),
        "versions": _versions(record),
    }


def _figures(record: RunRecord) -> dict[str, Any]:
    """Returns the figures and what stands below them."""
    looks, thinned = domain_looks(record.domains), _thinned(record)
    weights = weights_figure(record, looks)
    trajectory, over_steps = trajectory_figure(record, looks), losses_figure(record, looks)
    return {
        "weights": plot("weights", "Weights by domain", weights),
        "weights_caption": _weights_caption(record),
        "trajectory": plot("trajectory", "Weights by step", trajectory),
        "trajectory_caption": f"{_mean_told(record)} Single out a domain to see one standard "
        "deviation of its posterior to either side, where there is one." + thinned,
        "losses": plot("losses", "Losses by step", over_steps),
        "losses_caption": "Black: the proxy's loss on the validation set (solid) and on its "
        f"training batches (dashed). Coloured: on every domain. {_smoothed_told(record)}{thinned}",
    }


def _mean_told(record: RunRecord) -> str:
    if record.by_matching:
        return "The posterior's mean after each round; the proxy trains on with it."
    return "The mean weight at each step."


def _smoothed_told(record: RunRecord) -> str:
    if record.by_matching:
        return f"Points: measured in a round. Training: a running mean of {SMOOTHED} steps."
    return f"Running means of {SMOOTHED} steps."


def _rounds(record: RunRecord) -> dict[str, Any]:
    """Returns what the rounds of a search by matching found; empty of other runs."""
    figure = rounds_figure(record, domain_looks(record.domains))
    return {
        "rounds": plot("rounds", "Weights by round", figure),
        "rounds_caption": "Lines: the most likely weights by the evidence of all rounds so far. "
        "Dots: by each round's evidence alone. If rounds are far apart, the proxy asks for other "
        "text as it learns.",
        "round_tables": round_tables(rounds_in(record.metrics)),
    }


def _lengths(record: RunRecord) -> dict[str, Any]:
    """Returns the weights for runs of several lengths; empty of other runs."""
    looks = domain_looks(record.domains)
    weights, epochs = length_weights_figure(record, looks), length_epochs_figure(record, looks)
    return {
        "lengths": plot("lengths", "Weights by length of the run", weights),
        "length_epochs": plot("length-epochs", "Epochs by length of the run", epochs),
        "lengths_table": length_table(lengths_in(record.metrics)),
    }


def _weights_caption(record: RunRecord) -> str:
    mixture = record.mixture
    parts = ["Diamonds: weights, as shares of the training tokens"]
    if mixture is not None and mixture.free_weights is not None:
        parts[0] += " within the cap; hollow: free of it"
    if mixture is not None and mixture.hdi is not None:
        parts.append(f"Thin lines: {percent(mixture.hdi_probability)} intervals")
    if record.draws:
        parts.append("thick: the middle half of the posterior")
    return f"{'. '.join(parts[:2])}{'; ' + parts[2] if len(parts) > 2 else ''}.{_fewer(record)}"


def _fewer(record: RunRecord) -> str:
    more = len(record.domains) - MOST_DRAWN
    return f" The {MOST_DRAWN} largest of {len(record.domains)}." if more > 0 else ""


def _thinned(record: RunRecord) -> str:
    """Says which steps and domains are drawn, where not all are."""
    steps = 0 if record.trajectory is None else len(record.trajectory.steps)
    every = math.ceil(steps / MOST_POINTS)
    return (f" One step in {every} is drawn." if every > 1 else "") + _fewer(record)


def _table_note(record: RunRecord) -> str:
    """Says what the columns of the weights mean."""
    mixture = record.mixture
    if mixture is None:
        return ""
    uniform = number(1 / len(mixture.names))
    told = [f"An equal share is 1 / {len(mixture.names)} = {uniform}."]
    if record.by_matching and mixture.hdi is not None:
        told.append(
            "The weights are the most likely ones; the intervals are the posterior's. An interval "
            "that does not hold its weight is stretched to it."
        )
    if decisions(record):
        held = "that share" if mixture.prior is None else "its share of the prior"
        told.append(f"A domain is undecided where its interval holds {held}.")
    if mixture.hdi is not None and record.method in SEARCHES:
        told.append("Clear of the prior: the interval also lies above that of a flat Dirichlet.")
    if record.numbers("run_epochs"):
        tokens = record.number("run_tokens")
        run = "a run" if tokens is None else f"a run of {tokens:,.0f} tokens"
        target = record.asked("run", "target_tokens")
        long = "as --steps are" if record.by_matching else "as the search itself"
        own = "" if target else f", as long {long}; --target_tokens names another"
        told.append(f"Epochs: how often {run} reads the domain's text{own}.")
    free = mixture.free_weights is not None and mixture.hdi is not None
    if free and mixture.prior is None:  # a regression's optimum is looked for within the caps
        told.append("Intervals and standard deviations are those of the free weights (uncapped).")
    return " ".join(told)


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
