"""The weights for runs of several lengths, in which text may run out: words, rows and figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bydore_pyro.report.drawing import MOST_DRAWN, Look, escaped, figure_of, line_trace
from bydore_pyro.report.run_record import RunRecord, as_number, named_numbers
from bydore_pyro.report.table import Table
from bydore_pyro.report.thresholds import MOST_EPOCHS
from bydore_pyro.report.words import clean, count, number, percent

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = [
    "Length",
    "advice",
    "length_epochs_figure",
    "length_table",
    "length_weights_figure",
    "lengths_in",
    "read_often",
]

FOR_RUN = "%{meta.told}<br>a run of %{x:.3s} tokens: %{y:.4g}"
MOST_ROWS = 8  # domains in the table
LEAST_DRAWN = 1e-3  # epochs, on the logarithmic axis


@dataclass(frozen=True, kw_only=True)
class Length:
    """The weights for a run of one length; what its file does not tell is empty.

    Attributes:
        tokens: Of the run.
        weights: By domain.
        low: Lower ends of their intervals.
        high: Upper ends.
        epochs: How often the run reads each domain.
        unexplained: Share of what the target asks for that these weights leave, where known.
    """

    tokens: float
    weights: Mapping[str, float]
    low: Mapping[str, float]
    high: Mapping[str, float]
    epochs: Mapping[str, float]
    unexplained: float | None


def lengths_in(metrics: Mapping[str, Any]) -> list[Length]:
    """Returns the lengths that a run's metrics tell of, the shortest first; none of other runs."""
    lengths, found = metrics.get("lengths"), []
    for one in lengths if isinstance(lengths, list) else ():
        tokens = as_number(one.get("tokens")) if isinstance(one, dict) else None
        if tokens is not None and tokens > 0:
            columns = ("weights", "low", "high", "epochs")
            values = {column: named_numbers(one.get(column)) for column in columns}
            unexplained = as_number(one.get("unexplained"))
            found.append(Length(tokens=tokens, unexplained=unexplained, **values))
    return sorted(found, key=lambda one: one.tokens)


def read_often(epochs: Mapping[str, float]) -> dict[str, float]:
    """Returns the domains that are read more than four times, most often first."""
    most = sorted(epochs.items(), key=lambda item: -item[1])
    return {name: times for name, times in most if times > MOST_EPOCHS.good + 0.005}


def advice(
    tokens: float | None, epochs: Mapping[str, float], *, by_matching: bool, counted: bool
) -> str:
    """Returns a sentence on the text that a run reads too often, "" where there is none.

    Args:
        tokens: Of the run, where known.
        epochs: How often it reads each domain.
        by_matching: Whether a search by matching found the weights.
        counted: Whether it counted that repeated text teaches less (`--target_tokens`).
    """
    often = read_often(epochs)
    if not often:
        return ""
    run = "A run" if tokens is None else f"A run of {tokens:,.0f} tokens"
    listed = ", ".join(f"{clean(name)} {number(times, 1)} times" for name, times in often.items())
    told = f"{run} on these weights reads {listed}; "
    if counted:
        return told + "the weights count how little that teaches, --max_epochs caps it."
    if by_matching:
        length = "N" if tokens is None else f"{tokens:.12g}"
        told += f"with --target_tokens {length} the weights count how little that teaches, "
    return told + "--max_epochs caps it."


def length_table(lengths: list[Length]) -> Table:
    """Returns the largest weights by length, with epochs; and what each length leaves unexplained.

    A domain has a row, the largest first. Fewer than two lengths have none.
    """
    if len(lengths) < 2:
        return Table()
    largest = {name: max(one.weights.get(name, 0.0) for one in lengths)
               for name in lengths[0].weights}  # fmt: skip
    rows = []
    for name in sorted(largest, key=lambda name: -largest[name])[:MOST_ROWS]:
        cells = (
            f"{number(one.weights.get(name))} ({number(one.epochs.get(name), 1)} x)"
            for one in lengths
        )
        rows.append((clean(name), *cells))
    rows.append(("unexplained", *(percent(one.unexplained) for one in lengths)))
    return Table(
        header=("tokens of the run", *(count(one.tokens) for one in lengths)),
        rows=rows,
        caption="The largest weights by length, and how often the run reads each",
    )


def length_weights_figure(record: RunRecord, looks: Mapping[str, Look]) -> Figure | None:
    """Draws the weights over the lengths of runs, with their intervals; None of fewer than two."""
    lengths = lengths_in(record.metrics)
    traces = []
    for name in _drawn(lengths, looks):
        for one in lengths:
            if name in one.low and name in one.high:
                ends, shared = [one.low[name], one.high[name]], _shared(name, looks)
                traces.append(line_trace([one.tokens] * 2, ends, **shared, width=1))
        traces.append(_line(name, [one.weights.get(name, 0.0) for one in lengths], lengths, looks))
    return _over_lengths(traces, {"title": {"text": "weight"}, "rangemode": "tozero"})


def length_epochs_figure(record: RunRecord, looks: Mapping[str, Look]) -> Figure | None:
    """Draws how often runs read each domain over their lengths; None of fewer than two."""
    lengths = lengths_in(record.metrics)
    traces = []
    for name in _drawn(lengths, looks):
        times = [one.epochs.get(name, 0.0) for one in lengths]
        seen = [value if value >= LEAST_DRAWN else float("nan") for value in times]
        traces.append(_line(name, seen, lengths, looks))
    axis = {"title": {"text": "epochs"}, "type": "log", "dtick": 1}
    return _over_lengths(traces, axis)


def _drawn(lengths: list[Length], looks: Mapping[str, Look]) -> list[str]:
    """The domains that are drawn, by falling weight; none of fewer than two lengths."""
    if len(lengths) < 2:
        return []
    names = [name for name in lengths[-1].weights if name in looks]
    largest = {name: max(one.weights.get(name, 0.0) for one in lengths) for name in names}
    return sorted(names, key=lambda name: -largest[name])[:MOST_DRAWN]


def _shared(name: str, looks: Mapping[str, Look]) -> dict[str, Any]:
    look = looks[name]
    return {"keys": [look.key], "colour": look.colour, "text": escaped(name), "hover": FOR_RUN}


def _line(
    name: str, values: list[float], lengths: list[Length], looks: Mapping[str, Look]
) -> dict[str, Any]:
    tokens = [one.tokens for one in lengths]
    trace = line_trace(tokens, values, **_shared(name, looks), width=1.8, dash=looks[name].dash)
    marker = {"color": looks[name].colour, "size": 7}
    return trace | {"mode": "lines+markers", "marker": marker}


def _over_lengths(traces: list[dict[str, Any]], yaxis: Mapping[str, Any]) -> Figure | None:
    if not traces:
        return None
    xaxis = {"title": {"text": "tokens of the run"}, "type": "log"}
    return figure_of(traces, height=340, xaxis=xaxis, yaxis=yaxis)
