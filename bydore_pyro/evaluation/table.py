"""What an evaluation found as text, beside the paper's scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bydore_pyro.evaluation.benchmarks import PILE13
from bydore_pyro.mixture import average_score, benchmark_scores

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
    import pandas

    tasks, ours = scores["tasks"], _in_the_paper(scores["tasks"])
    average = f"average of {len(ours)}"
    rows = {label: _cells(result) for label, result in ours.items()}
    if ours:
        rows[average] = {"model": _with_error(scores["average"] or {})}
    rows |= {label: _cells(result) for label, result in tasks.items() if label not in ours}
    model = pandas.DataFrame.from_dict(rows, orient="index")
    beside = {"": model}
    for case, paper in scores["paper"].items():
        theirs = pandas.DataFrame(paper["scores"])
        theirs.loc[average] = paper["averages"]
        beside[f", beside Case {case.removeprefix('case')}"] = model.join(
            theirs.map("{:.2f}".format)
        )
    if len(beside) > 1:
        beside.pop("")
    lines = [f"\npercent{case}\n{frame.to_string(na_rep='')}" for case, frame in beside.items()]
    different = [label for label, result in ours.items() if not _as_in_the_paper(label, result)]
    if different and scores["paper"]:
        lines.append(
            "Not found as the paper's scores were (lm-eval's own task and all its questions, the "
            f"mean over 0 to 5 examples): {', '.join(different)}."
        )
    lines += [
        f"{label}: at least {result['requests_cut']:,} of {result['requests']:,} requests did not "
        "fit the model's context and lost their beginning."
        for label, result in tasks.items()
        if result["requests_cut"]
    ]
    return "\n".join(lines)


def _cells(result: Mapping[str, Any]) -> dict[str, str]:
    cells = {"metric": result["metric"], "model": _with_error(result)}
    return {**cells, "questions": f"{result['questions']:,}"}


def _with_error(result: Mapping[str, Any]) -> str:
    """Returns a score and its standard error as text."""
    values = [result.get(key) for key in ("score", "standard_error")]
    return " ± ".join("none" if value is None else f"{value:.2f}" for value in values)


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
