"""Figures that others published: the Pile's domains and weights, and the paper's benchmark scores.

Where each file comes from, and what is wrong with it, stands in the `README.md` beside this file.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

__all__ = [
    "PileDomain",
    "average_score",
    "benchmark_scores",
    "misprinted_averages",
    "pile_domains",
    "pile_weights",
    "printed_averages",
    "printed_flops",
]

CASES = (1, 2)
AVERAGE, FLOPS = "Overall Avg", "FLOPs cost"  # the rows of the tables that are no tasks
METHODS = {"Doremi": "DoReMi", "Ours": "ByDoRe"}  # as they are called elsewhere
ROUNDING = 0.005  # of an average that is printed with two decimals


@dataclass(frozen=True, kw_only=True)
class PileDomain:
    """A domain of the Pile.

    Args:
        component: Its name in the paper's table.
        size_gib: Size of its text in GiB, before any domain is repeated.
        description: What it is.
    """

    component: str
    size_gib: float
    description: str


def pile_domains() -> dict[str, PileDomain]:
    """Returns the 17 domains of the Pile that are still public, by short name, largest first."""
    return {
        row["domain"]: PileDomain(
            component=row["component"],
            size_gib=float(row["size_gib"]),
            description=row["description"],
        )
        for row in _rows("pile_domains.csv")
    }


def pile_weights() -> dict[str, dict[str, float]]:
    """Returns the Pile's published weights: column, then domain's short name, then weight.

    The columns are `human`, `doremi`, `regmix` and `token_share`. They are as published, and the
    first two sum to 0.787 and 0.815: what the five withdrawn domains had is missing.
    """
    rows = _rows("pile_weights.csv")
    columns = [column for column in rows[0] if column != "domain"]
    return {column: {row["domain"]: float(row[column]) for row in rows} for column in columns}


def benchmark_scores(case: int) -> dict[str, dict[str, float]]:
    """Returns the paper's scores of 1B models: method, then task, then score in percent.

    Args:
        case: 1 (all 17 domains) or 2 (trained on GitHub and Enron Emails).

    Raises:
        ValueError: When there is no such case.
    """
    scores: dict[str, dict[str, float]] = {}
    for task, row in _table(case).items():
        if task not in (AVERAGE, FLOPS):
            for method, score in row.items():
                scores.setdefault(method, {})[task] = float(score)
    return scores


def average_score(scores: Mapping[str, float]) -> float:
    """Returns the mean over tasks of a method's scores, in their unit.

    Raises:
        ValueError: When there are none.
    """
    if not scores:
        raise ValueError("Expected scores of at least one task, found none")
    return math.fsum(scores.values()) / len(scores)


def printed_averages(case: int) -> dict[str, float]:
    """Returns the averages that the paper prints, in percent, by method; some are wrong.

    Raises:
        ValueError: When there is no such case.
    """
    return {method: float(score) for method, score in _table(case)[AVERAGE].items()}


def misprinted_averages(case: int) -> dict[str, tuple[float, float]]:
    """Returns the averages that the paper's own rows do not give: method, then (printed, computed).

    Case 1 prints 48.50 for ByDoRe where its rows give 48.14, less than the 48.22 of RegMix. Case 2
    prints 35.45 for AutoScale and 38.18 for DoReMi, where the rows give 35.30 and 38.17.

    Raises:
        ValueError: When there is no such case.
    """
    computed = {method: average_score(scores) for method, scores in benchmark_scores(case).items()}
    return {
        method: (printed, computed[method])
        for method, printed in printed_averages(case).items()
        if abs(printed - computed[method]) > ROUNDING + 1e-9
    }


def printed_flops(case: int) -> dict[str, float]:
    """Returns the FLOPs that the paper prints for finding the weights, by method that searches.

    Raises:
        ValueError: When there is no such case.
    """
    return {method: float(flops) for method, flops in _table(case)[FLOPS].items() if flops != "-"}


def _table(case: int) -> dict[str, dict[str, str]]:
    """Returns a case's table: row, then method, then what is printed."""
    if case not in CASES:
        raise ValueError(f"Expected case 1 or 2, actual {case!r}")
    return {
        row["Task"]: {METHODS.get(m, m): text for m, text in row.items() if m != "Task"}
        for row in _rows(f"case{case}.csv")
    }


def _rows(name: str) -> list[dict[str, str]]:
    text = resources.files(__name__).joinpath(name).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))
