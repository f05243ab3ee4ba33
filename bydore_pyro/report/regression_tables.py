"""What a regression of finished runs tells of itself, as tables of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bydore_pyro.report.words import number, percent
from bydore_pyro.utils import visible

__all__ = ["columns", "regression_parts"]

MOST_ROWS = 20  # of given mixtures, in the text; the file holds all


def columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Returns a table as text, its first column to the left."""
    table = [[visible(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for first, *cells in table:
        right = (f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
        lines.append("  ".join([f"{first:<{widths[0]}}", *right]))
    return "\n" + "\n".join(lines)


def regression_parts(details: Mapping[str, Any]) -> list[str]:
    """Returns the tables and sentences that a fit on tables of runs left, as far as it did."""
    parts = []
    if rows := details.get("regressions"):
        parts.append(_regressions(rows, details["regression"]))
    if gain := _gain(details):
        parts.append(gain)
    if distance := details.get("distance"):
        parts.append(str(distance["words"]))
    if rows := details.get("each_metric"):
        parts.append(_metrics(rows))
    if scaled := details.get("scale_up"):
        parts.append(_scaled(scaled))
    if rows := details.get("predictions"):
        parts.append(_predictions(rows))
    return parts


def _regressions(rows: Mapping[str, Mapping[str, float]], chosen: str) -> str:
    cells = [
        [kind, number(row["spearman_x100"], 1), number(row["rmse"], 4), percent(row["coverage"]),
         number(row["seconds"], 1)]
        for kind, row in rows.items()
    ]  # fmt: skip
    header = ("regression", "Spearman x 100", "RMSE", "in 94 % intervals", "seconds a fit")
    how = "has the best rank correlation and was" if len(rows) > 1 else "was"
    return (
        f"{columns(header, cells)}\nFigures of runs that were left out, a fifth at a time: "
        f"{chosen} {how} taken."
    )


def _gain(details: Mapping[str, Any]) -> str:
    gain = details.get("gain_over_prior") or {}
    probability = gain.get("probability")
    if probability is None or "regressions" not in details:
        return ""
    return (
        f"These weights are predicted {number(gain['mean'], 4)} lower than the prior; "
        f"the probability that they are lower is {percent(probability)}."
    )


def _metrics(rows: Mapping[str, Mapping[str, Any]]) -> str:
    cells = [
        [name, row["regression"], _known(row.get("spearman_x100"), 1), _known(row.get("rmse"), 4),
         _share(row.get("coverage")), number(row["weights"], 4), number(row["prior"], 4),
         _share(row["better_than_prior"])]
        for name, row in rows.items()
    ]  # fmt: skip
    header = ("metric", "regression", "Spearman x 100", "RMSE", "in 94 %", "these weights",
              "prior", "better than prior")  # fmt: skip
    return columns(header, cells)


def _scaled(found: Mapping[str, Any]) -> str:
    cells = [
        [name, number(found[key]["mean"], 4), *(number(end, 4) for end in found[key]["interval"])]
        for name, key in (("these weights", "weights"), ("prior", "prior"))
    ]
    told = (
        f"\nThe large scale, by a line fitted to {found['runs']} of its runs (rank correlation "
        f"{number(found['spearman_x100'], 1)}, slope {number(found['slope'], 3)}):"
    )
    if found["slope"] <= 0:
        told += " the scales do not agree, so the proposal is not to be trusted there."
    return (
        f"{told}{columns(('a large run on', 'predicted', '94 % from', 'to'), cells)}\nThe "
        f"probability that a large run on these weights is below one on the prior: "
        f"{percent(found['probability'])}."
    )


def _predictions(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = [
        [str(row["mixture"]), str(row["rank"]), number(row["predicted"], 4),
         _known(row["low"], 4), _known(row["high"], 4), _share(row["better_than_prior"]),
         percent(row["nearest_run"])]
        for row in rows[:MOST_ROWS]
    ]  # fmt: skip
    header = ("mixture", "rank", "predicted", "94 % from", "to", "better than prior",
              "tokens off the nearest run")  # fmt: skip
    more = len(rows) - MOST_ROWS
    return columns(header, cells) + (f"\nand {more} more in predictions.csv" if more > 0 else "")


def _known(value: float | None, digits: int) -> str:
    return "" if value is None else number(value, digits)


def _share(value: float | None) -> str:
    return "" if value is None else percent(value)
