"""What an evaluation found as text, beside the paper's scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bydore_pyro.evaluation.data import PILE13
from bydore_pyro.mixture import average_score, benchmark_scores, misprinted_averages

__all__ = ["average_of", "paper_scores", "score_line", "scores_table"]


def average_of(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """Returns the mean score of the paper's benchmarks among the tasks, in percent.

    Its standard error is ``sqrt(sum_k e_k^2) / K`` for K benchmarks: their questions are
    independent. None where there is no such benchmark, or one has no score.
    """
    ours = _in_the_paper(tasks)
    if not ours or any(result["score"] is None for result in ours.values()):
        return None
    errors = [result["standard_error"] for result in ours.values()]
    whole = None not in errors
    return {
        "score": average_score({label: result["score"] for label, result in ours.items()}),
        "standard_error": math.hypot(*errors) / len(errors) if whole else None,
        "tasks": len(ours),
    }


def paper_scores(tasks: Mapping[str, Mapping[str, Any]], cases: Sequence[int]) -> dict[str, Any]:
    """Returns the paper's scores on the same benchmarks by case and method, and their averages."""
    found: dict[str, Any] = {}
    labels = _in_the_paper(tasks)
    for case in cases if labels else ():
        scores = {
            method: {label: of_method[label] for label in labels}
            for method, of_method in benchmark_scores(case).items()
        }
        averages = {method: average_score(of_method) for method, of_method in scores.items()}
        found[f"case{case}"] = {"scores": scores, "averages": averages}
    return found


def scores_table(scores: Mapping[str, Any]) -> str:
    """Returns what `evaluate_model` found as text, beside the paper's cases that were asked for.

    All averages are computed from the rows shown; a line says where the paper prints another one,
    and one which scores were not found as the paper's were.
    """
    tasks = scores["tasks"]
    ours = _in_the_paper(tasks)
    asked = [int(name.removeprefix("case")) for name in scores["paper"]]
    cases: list[int | None] = [*asked] or [None]
    lines = [line for case in cases if ours for line in _case_lines(case, scores, ours)]
    different = [label for label, result in ours.items() if not _as_in_the_paper(label, result)]
    if different and asked:
        lines.append(
            "\nNot found as the paper's scores were (lm-eval's own task and all its questions, the "
            f"mean over 0 to 5 examples): {', '.join(different)}."
        )
    others = {label: result for label, result in tasks.items() if label not in ours}
    if others:
        width = max(len("other tasks"), *map(len, others))
        lines.append(f"\n{'other tasks':<{width}}  {'metric':<14}{'model':>15}  questions")
        lines += [
            f"{label:<{width}}  {r['metric']:<14}{_with_error(r):>15}  {r['questions']:>9,}"
            for label, r in others.items()
        ]
    for label, result in tasks.items():
        if result["requests_cut"]:
            lines.append(
                f"\n{label}: at least {result['requests_cut']:,} of {result['requests']:,} "
                "requests did not fit the model's context and lost their beginning."
            )
    return "\n".join(lines)


def _case_lines(
    case: int | None, scores: Mapping[str, Any], ours: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """Returns the table beside one of the paper's cases, or beside none."""
    paper = scores["paper"].get(f"case{case}", {"averages": {}})
    methods = list(paper["averages"])
    beside = "" if case is None else f", beside Case {case}"
    lines = [_row(f"\npercent{beside}", "model", methods, extra=1)]
    for label, result in ours.items():
        theirs = [f"{paper['scores'][method][label]:.2f}" for method in methods]
        lines.append(_row(f"{label} ({result['metric']})", _with_error(result), theirs))
    theirs = [f"{paper['averages'][method]:.2f}" for method in methods]
    average = scores["average"] or {"score": None, "standard_error": None}
    lines.append(_row(f"average of {len(ours)}", _with_error(average), theirs))
    if case is not None and len(ours) == len(PILE13):
        lines += [
            f"{method}: the paper prints an average of {printed:.2f}, its rows give {computed:.2f}."
            for method, (printed, computed) in misprinted_averages(case).items()
        ]
    return lines


def _row(first: str, second: str, others: Sequence[str], extra: int = 0) -> str:
    return f"{first:<{24 + extra}}{second:>15}" + "".join(f"{text:>11}" for text in others)


def _with_error(result: Mapping[str, Any]) -> str:
    """Returns a score and its standard error as text."""
    score, error = (
        "none" if result[key] is None else f"{result[key]:.2f}"
        for key in ("score", "standard_error")
    )
    return f"{score} ± {error}"


def _in_the_paper(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Returns the tasks that are the paper's benchmarks, scored by accuracy."""
    return {
        label: result
        for label, result in tasks.items()
        if label in PILE13 and result["unit"] == "percent"
    }


def _as_in_the_paper(label: str, result: Mapping[str, Any]) -> bool:
    """Whether a score was found as the paper's was."""
    benchmark = PILE13[label]
    return (
        result["source"] is None
        and result["metric"] == benchmark.metric
        and result["questions"] == benchmark.questions
        and {*result["num_fewshot"]} == {*benchmark.num_fewshot}
    )


def score_line(label: str, result: Mapping[str, Any]) -> str:
    """Returns one task's score as a line of text."""
    unit = " %" if result["unit"] == "percent" else ""
    line = f"{label}: {result['metric']} {_with_error(result)}{unit}, "
    return line + f"{result['questions']:,} questions"
