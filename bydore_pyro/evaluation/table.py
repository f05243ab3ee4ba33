"""What an evaluation found as text, beside the paper's scores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bydore_pyro.evaluation.benchmarks import PILE13
from bydore_pyro.mixture import average_score, benchmark_scores

__all__ = ["average_of", "score_line", "scores_table"]


def average_of(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """Returns the mean score of the paper's benchmarks among the tasks, in percent.

    Its standard error is ``sqrt(sum_k e_k^2) / K`` for K benchmarks: their questions are
    independent. None where there is no such benchmark.
    """
    ours = {label: result for label, result in tasks.items() if label in PILE13}
    if not ours:
        return None
    errors = [result["standard_error"] for result in ours.values()]
    return {
        "score": average_score({label: result["score"] for label, result in ours.items()}),
        "standard_error": None if None in errors else math.hypot(*errors) / len(errors),
        "tasks": len(ours),
    }


def scores_table(scores: Mapping[str, Any]) -> str:
    """Returns what `evaluate_model` found as text, beside the paper's cases that were asked for.

    All averages are computed from the rows shown.
    """
    import pandas

    ours = [label for label in scores["tasks"] if label in PILE13]
    rows = {
        label: {
            "metric": result["metric"],
            "model": _with_error(result),
            "questions": f"{result['questions']:,}",
        }
        for label, result in scores["tasks"].items()
    }
    if ours:
        rows[f"average of {len(ours)}"] = {"model": _with_error(scores["average"])}
    model = pandas.DataFrame.from_dict(rows, orient="index")
    cases = scores["config"]["cases"] if ours else []
    if not cases:
        return f"\n{model.to_string(na_rep='')}"
    lines = []
    for case in cases:
        paper = pandas.DataFrame(benchmark_scores(case)).loc[ours]
        paper.loc[f"average of {len(ours)}"] = paper.mean()
        beside = model.join(paper.map("{:.2f}".format))
        lines.append(f"\nbeside Case {case} of the paper\n{beside.to_string(na_rep='')}")
    lines.append("The paper's scores: all questions, mean over 0 to 5 examples, in percent.")
    return "\n".join(lines)


def _with_error(result: Mapping[str, Any]) -> str:
    """Returns a score and its standard error as text."""
    error = result["standard_error"]
    return f"{result['score']:.2f}" + ("" if error is None else f" ± {error:.2f}")


def score_line(label: str, result: Mapping[str, Any]) -> str:
    """Returns one task's score as a line of text."""
    return f"{label}: {result['metric']} {_with_error(result)}, {result['questions']:,} questions"
