"""What a regression of finished runs tells of itself, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bydore_pyro.report.run_record import RunRecord, as_number, named_numbers
from bydore_pyro.report.table import Table
from bydore_pyro.report.words import number, percent

__all__ = ["regression_tables"]

MOST_ROWS = 20  # of given mixtures; the file holds all


def regression_tables(record: RunRecord) -> list[Table]:
    """Returns the tables that a fit on tables of runs left, as far as it did."""
    details = record.metrics.get("details")
    known = details if isinstance(details, dict) else {}
    tables = [
        _regressions(known.get("regressions")),
        _metrics(known.get("each_metric")),
        _scaled(known.get("scale_up")),
        _predictions(known.get("predictions")),
    ]
    return [table for table in tables if table.rows]


def _by_name(value: Any) -> list[tuple[str, dict[str, Any]]]:
    items = value.items() if isinstance(value, dict) else ()
    return [(str(name), row) for name, row in items if isinstance(row, dict)]


def _regressions(found: Any) -> Table:
    rows = []
    for kind, row in _by_name(found):
        one = named_numbers(row)
        rank, error = number(one.get("spearman_x100"), 1), number(one.get("rmse"), 4)
        rows.append(
            (kind, rank, error, percent(one.get("coverage")), number(one.get("seconds"), 1))
        )
    return Table(
        header=("regression", "Spearman x 100", "RMSE", "in 94 % intervals", "seconds a fit"),
        rows=rows,
        caption="Runs that were left out, a fifth at a time",
    )


def _metrics(found: Any) -> Table:
    rows = []
    for name, row in _by_name(found):
        one = named_numbers(row)
        rank, error = number(one.get("spearman_x100"), 1), number(one.get("rmse"), 4)
        losses = (number(one.get("weights"), 4), number(one.get("prior"), 4))
        shares = (percent(one.get("coverage")), percent(one.get("better_than_prior")))
        kind = str(row.get("regression", ""))
        rows.append((name, kind, rank, error, shares[0], *losses, shares[1]))
    header = ("metric", "regression", "Spearman x 100", "RMSE", "in 94 %", "these weights",
              "prior", "better than prior")  # fmt: skip
    return Table(header=header, rows=rows, caption="Every metric on its own")


def _scaled(found: Any) -> Table:
    one, rows = named_numbers(found), []
    if not one:
        return Table()
    for name, key in (("these weights", "weights"), ("prior", "prior")):
        predicted = found.get(key) if isinstance(found.get(key), dict) else {}
        ends = predicted.get("interval")
        values = (predicted.get("mean"), *(ends if isinstance(ends, list) else ()), None, None)
        rows.append((name, *(number(as_number(value), 4) for value in values[:3])))
    slope = one.get("slope")
    doubt = (
        " The scales do not agree: the proposal is not to be trusted there."
        if slope is not None and slope <= 0
        else ""
    )
    return Table(
        header=("a large run on", "predicted", "94 % from", "to"),
        rows=rows,
        caption=f"The large scale, by a line fitted to {number(one.get('runs'), 0)} of its runs: "
        f"rank correlation {number(one.get('spearman_x100'), 1)}, slope {number(slope, 3)}",
        note="A large run on these weights is below one on the prior with probability "
        f"{percent(one.get('probability'))}.{doubt}",
    )


def _predictions(found: Any) -> Table:
    given: Sequence[Any] = found if isinstance(found, list) else ()
    rows = []
    for row in (row for row in given[:MOST_ROWS] if isinstance(row, dict)):
        one = named_numbers(row)
        losses = (number(one.get(key), 4) for key in ("predicted", "low", "high"))
        shares = (percent(one.get(key)) for key in ("better_than_prior", "nearest_run"))
        rows.append((str(row.get("mixture")), number(one.get("rank"), 0), *losses, *shares))
    header = ("mixture", "rank", "predicted", "94 % from", "to", "better than prior",
              "tokens off the nearest run")  # fmt: skip
    more = len(given) - MOST_ROWS
    return Table(
        header=header,
        rows=rows,
        caption="Given mixtures",
        note=f"and {more} more in predictions.csv" if more > 0 else "",
    )
