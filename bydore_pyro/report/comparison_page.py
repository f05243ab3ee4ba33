"""What the page on several runs shows: one table, and one picture of the weights."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bydore_pyro.report.comparison import (
    agreement_table,
    cautions,
    comparison_table,
    domains_by_weight,
)
from bydore_pyro.report.drawing import (
    GRID,
    MOST_DRAWN,
    ROW,
    Look,
    domain_looks,
    escaped,
    figure_of,
    labelled_rows,
    line_trace,
    point_trace,
    run_looks,
)
from bydore_pyro.report.page_frame import frame, plot
from bydore_pyro.report.run_record import RunRecord, labelled_runs
from bydore_pyro.report.table import Table
from bydore_pyro.report.verdicts import verdicts_of
from bydore_pyro.report.words import number

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["comparison_figure", "comparison_page"]

USED = 0.72  # of a row, by the runs' points


def comparison_page(records: Sequence[RunRecord]) -> dict[str, Any]:
    """Returns what the template `comparison.html` shows of runs; several seeds are so many runs.

    Raises:
        ImportError: When plotly or jinja2 is not installed.
    """
    lone = records[0] if len(records) == 1 else None
    runs = labelled_runs([run for record in records for run in _runs_of(record)])
    looks = domain_looks(sorted({name for r in (*records, *runs) for name in r.domains}))
    marks = run_looks([run.label for run in runs])
    table = comparison_table(runs, looks)
    title = f"{lone.label}: {len(runs)} seeds" if lone else f"{len(runs)} runs compared"
    place = f"Run folder: {lone.path}" if lone else ", ".join(str(r.path) for r in records)
    drawn = f" The {MOST_DRAWN} largest of {len(looks)}." if len(looks) > MOST_DRAWN else ""
    figure = comparison_figure(runs, marks, looks) if runs else None
    return {
        **frame(title, place, {look.key: look.name for look in (*looks.values(), *marks)}, ""),
        "cautions": cautions(runs),
        "damaged": list(dict.fromkeys(d for record in (*records, *runs) for d in record.damaged)),
        "verdicts": verdicts_of(lone) if lone else [],
        "runs": marks,
        "agreement": agreement_table(lone) if lone else Table(),
        "sections": {section: rows for section, rows in table.items() if rows},
        "weights": plot("weights", "Weights by domain and run", figure),
        "weights_caption": "Points: weights, as shares of the training tokens. Lines: "
        "intervals, where a run has them." + drawn,
        "commands": _commands(runs),
    }


def comparison_figure(
    records: Sequence[RunRecord], runs: Sequence[Look], looks: Mapping[str, Look]
) -> Figure:
    """Draws the weights that several runs found beside each other, with their intervals."""
    weights = [{} if r.mixture is None else r.mixture.as_dict() for r in records]
    order = domains_by_weight(records, looks)[:MOST_DRAWN]
    traces: list[dict[str, Any]] = []
    for i, (record, run) in enumerate(zip(records, runs, strict=True)):
        mixture = record.mixture
        if mixture is None:
            continue
        hdi = dict(zip(mixture.names, mixture.hdi or (), strict=False))
        for row, name in enumerate(order):
            if name not in weights[i]:
                continue
            told = f"{escaped(name)}<br>{escaped(run.name)}: {number(weights[i][name], 4)}"
            keys, y = [looks[name].key, run.key], row + _aside(i, len(records))
            if name in hdi:
                low, high = hdi[name]
                told += f", {number(low)} to {number(high)}"
                x = [low, (low + high) / 2, high]
                traces.append(
                    line_trace(x, [y] * 3, keys=keys, colour=run.colour, width=1.5, text=told)
                )
            traces.append(
                point_trace(
                    weights[i][name],
                    y,
                    keys=keys,
                    colour=run.colour,
                    symbol=run.symbol,
                    size=8,
                    text=told,
                )
            )
    between = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "layer": "below"}
    lines = [
        {**between, "y0": row + 0.5, "y1": row + 0.5, "line": {"color": GRID, "width": 1}}
        for row in range(len(order) - 1)
    ]
    return figure_of(
        traces,
        height=max(ROW, 11 * len(records) + 10) * len(order) + 102,
        xaxis={"title": {"text": "weight"}, "rangemode": "tozero"},
        yaxis=labelled_rows(order),
        shapes=lines,
    )


def _aside(run: int, runs: int) -> float:
    """Returns how far from the middle of a row a run's points lie."""
    return USED * (run / (runs - 1) - 0.5) if runs > 1 else 0.0


def _runs_of(record: RunRecord) -> tuple[RunRecord, ...]:
    """Returns the runs that are compared: those of several seeds, or the run itself."""
    if record.seeds or record.mixture is None:
        return record.seeds
    return (record,)


def _commands(runs: Sequence[RunRecord]) -> list[tuple[str, str]]:
    if not runs:
        return []
    run = shlex.quote(str(runs[0].path))
    return [
        (
            f"The weights of one of them, say {runs[0].label}, in a trainer's own format",
            f"bydore export {run} --to megatron --prefix '/data/{{domain}}' --out FILE",
        ),
        (
            "A target model trained on them",
            f"bydore train --mixture {run} --data STORE --model models/target-60m --tokens 1B "
            "--out DIR",
        ),
        ("All figures of one of them", f"bydore report {run}"),
    ]
