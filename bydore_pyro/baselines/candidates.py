"""Mixtures that a user gives, scored and ranked by a regression of finished runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bydore_pyro.baselines.csv_table import CsvTable
from bydore_pyro.baselines.proposal import gain_over, nearest_run
from bydore_pyro.baselines.regression import Regression, interval_of_run
from bydore_pyro.baselines.runs_table import on_simplex
from bydore_pyro.baselines.scale_up import ScaledUp
from bydore_pyro.utils import DataError

__all__ = ["COLUMNS", "read_mixtures", "score_mixtures"]

COLUMNS = ("rank", "mixture", "predicted", "low", "high", "better_than_prior", "nearest_run")
NAMES = ("mixture", "name", "run", "run_id", "index")


def read_mixtures(path: Path, domains: Sequence[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """Reads mixtures, a row each: a column that names them and a column a domain.

    The name stands in `mixture`, `name`, `run`, `run_id` or `index`; other columns are ignored.

    Returns:
        The names and the weights ``(S, K)``, each row on the simplex.

    Raises:
        DataError: When the file cannot be read, a domain is missing, or a row is no mixture.
    """
    table = CsvTable(path, *NAMES)
    missing = [name for name in domains if name not in table.columns]
    if missing:
        raise DataError(
            f"Expected a column for each of the runs' domains in {path}, found none for "
            f"'{missing[0]}'"
        )
    return tuple(table.runs), on_simplex(table, domains)


def score_mixtures(
    model: Regression | ScaledUp,
    names: Sequence[str],
    weights: np.ndarray,
    prior: np.ndarray,
    runs: np.ndarray,
) -> list[dict[str, Any]]:
    """Returns a row a mixture, the least predicted loss first.

    Args:
        model: What predicts.
        names: Of the mixtures, ``S``.
        weights: Of the mixtures ``(S, K)``.
        prior: The natural mixture ``(K,)``.
        runs: Of the runs ``(N, K)``: `nearest_run` is the share of tokens that the nearest one has
            elsewhere.

    Returns:
        Rows of `COLUMNS`; `better_than_prior` is a probability. What is unknown is None.
    """
    predicted = model.predict(weights)
    if isinstance(model, ScaledUp):
        ends = model.predict_interval(weights)
    else:
        ends = interval_of_run(model, weights)
    rows: list[dict[str, Any]] = []
    for rank, place in enumerate(np.argsort(predicted, kind="stable").tolist()):
        one = weights[place]
        better = (
            model.gain(one, prior)[1]
            if isinstance(model, ScaledUp)
            else gain_over(model, one, prior).get("probability")
        )
        known = [end if np.isfinite(end) else None for end in ends[place].tolist()]
        values = (rank + 1, names[place], float(predicted[place]), *known, better,
                  nearest_run(one, runs)[1])  # fmt: skip
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows
