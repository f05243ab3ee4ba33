"""Any task or group of lm-eval as questions and answers, written out by lm-eval itself.

Of a task with choices the answers are the choices, as lm-eval asks for them. Of a generative task
lm-eval has no answer to score: it rates what a model writes, by the last number or by unit tests.
There the answer is what lm-eval shows as a solution in an example of the task.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from bydore_pyro.errors import DataError, expecting
from bydore_pyro.targets.harness import (
    HarnessTask,
    members_of,
    open_task,
    quiet_lm_eval,
    templates_kept,
)
from bydore_pyro.targets.request import Request, Score, Task, bordered

#: Columns of solutions where lm-eval's target is unit tests.
SOLUTIONS = ("canonical_solution",)
# So many questions do not have the same answer by chance. DROP's are its columns' names.
ALIKE = 10


def tasks_of(
    name: str,
    *,
    shots: int = 0,
    score: Score | None = "answer",
    data_dir: str | None = None,
    hub: bool = False,
    judged: bool = False,
    most: int | None = None,
) -> list[Task]:
    """Returns the tasks that a name of lm-eval stands for: its own, or those of a group.

    Questions come from the validation split, else from the training split: never from the split on
    which models are scored, unless they are `judged`.

    Args:
        name: A task, group or tag of lm-eval.
        shots: Examples before each question, chosen as lm-eval does.
        score: Whether the right answer is scored, or its share among all choices; None for choices
            where a task has them.
        data_dir: Folder with TASK/SPLIT.jsonl or .parquet, with the columns of the hub's data.
        hub: Fetch from the hub what `data_dir` does not hold.
        judged: Take the split on which lm-eval scores models.
        most: Take so many questions of each task, spread over the split. Default: all.

    Raises:
        DataError: When lm-eval is not installed or does not know the name; a task has no choices to
            score, no answers to show, or all of its data is scored; data is not there, or is not
            what lm-eval can ask (names the question).
    """
    if shots < 0 or (most is not None and most < 1):
        raise ValueError(f"Expected shots >= 0 and most >= 1, actual {shots} and {most}")
    members = members_of(name)
    opened = (
        open_task(one, changes, shots=shots, data_dir=data_dir, hub=hub, judged=judged)
        for one, changes in members.items()
    )
    with templates_kept():
        return [_rendered(one, score, most) for one in opened]


def _rendered(opened: HarnessTask, score: Score | None, most: int | None) -> Task:
    """Writes out all questions of a task."""
    task, name, kind = opened.task, opened.name, opened.task.OUTPUT_TYPE
    if kind == "loglikelihood_rolling":
        raise DataError(
            f"Expected a task of questions, found '{name}' of lm-eval, which scores whole texts: "
            "give the file of its texts instead"
        )
    if score is None:
        score = "choice" if kind == "multiple_choice" and not task.multiple_input else "answer"
    if score == "choice" and kind != "multiple_choice":
        raise DataError(
            f"Expected a task with choices for score=choice, found '{name}' of lm-eval, which has "
            "none: score=answer takes it"
        )
    if score == "choice" and task.multiple_input:
        raise DataError(
            f"Expected choices of one question for score=choice, found '{name}' of lm-eval, whose "
            "choices stand before one and the same answer: score=answer takes it"
        )
    with quiet_lm_eval():
        documents = task.eval_docs
    total = len(documents)
    places = np.unique(np.linspace(0, total - 1, min(most or total, total)).round().astype(int))
    requests = []
    flags = _shown_as_example(opened, documents[0]) if kind == "generate_until" else {}
    for place in places.tolist():
        where = f"{opened.place}, split {opened.split}, question {place + 1}"
        with expecting(f"Expected questions of {name} that lm-eval can ask in {where}, found:"):
            with quiet_lm_eval():
                context, answers, right = _request(opened, documents[place], flags)
            if score == "answer":
                answers, right = (answers[right[0]],), (0,)
            if not all(answers):
                raise ValueError("an empty answer")
            requests.append(bordered(Request(context, answers, right, where)))
    alike = len({request.answers for request in requests}) == 1
    if _is_generative(opened) and len(requests) >= ALIKE and alike:
        raise DataError(
            f"Expected answers that differ, found {requests[0].answers[0]!r:.60} for all "
            f"{len(requests)} questions of {name} in {opened.place}: lm-eval does not show its "
            "solutions"
        )
    left = {"not among those that are read": total - len(places)} if total > len(places) else {}
    return Task(
        name=name,
        requests=tuple(requests),
        score=score,
        source=_source(opened),
        split=opened.split,
        shots=opened.examples,
        left_out=left,
    )


def _source(opened: HarnessTask) -> str:
    from importlib.metadata import version

    what = "; its answers are those of its examples" if _is_generative(opened) else ""
    return f"lm-eval {version('lm-eval')}, on {opened.place}{what}"


def _is_generative(opened: HarnessTask) -> bool:
    return opened.task.OUTPUT_TYPE == "generate_until"


def _request(
    opened: HarnessTask, document: Mapping[str, Any], flags: Mapping[str, Any]
) -> tuple[str, tuple[str, ...], tuple[int, ...]]:
    """Returns a question, its answers, and which of them are right."""
    task = opened.task
    prefix = task.doc_to_prefix(document)
    context = task.fewshot_context(document, opened.examples, gen_prefix=prefix)
    if _is_generative(opened):
        return context, (_solution(opened, document, flags, prefix),), (0,)
    _require_no_null(opened, document)
    asked = task.construct_requests(document, context, metadata=(opened.name, 0, 1))
    if task.OUTPUT_TYPE == "loglikelihood":
        return *asked.args[:1], (asked.args[1],), (0,)
    right = right_choices(task, document)
    if task.multiple_input:  # questions that differ, with one and the same answer
        return asked[right[0]].args[0], (asked[right[0]].args[1],), (0,)
    return context, tuple(one.args[1] for one in asked), right


def right_choices(task: Any, document: Mapping[str, Any]) -> tuple[int, ...]:
    """Returns the places of a question's right choices.

    Args:
        task: lm-eval's, with choices.
        document: A row of its data.

    Raises:
        ValueError: When there is none, or lm-eval would take it for another in silence.
    """
    label = document.get("label", 0)
    if label in (-1, None) or (task.task_name == "copa" and label not in (0, 1)):
        raise ValueError(f"the label {label!r}, which lm-eval would take for another")
    choices = task.doc_to_choice(document)
    target = task.doc_to_text(document) if task.multiple_input else task.doc_to_target(document)
    found = []
    for one in target if isinstance(target, list) else [target]:
        place = choices.index(one) if isinstance(one, str) and one in choices else one
        if not isinstance(place, int) or not 0 <= place < len(choices):
            raise ValueError(f"the answer {one!r:.100}, none of the {len(choices)} choices")
        found.append(int(place))
    if not found:
        raise ValueError("no right answer")
    return tuple(found)


def _solution(
    opened: HarnessTask,
    document: Mapping[str, Any],
    flags: Mapping[str, Any],
    prefix: str | None,
) -> str:
    """Returns the solution of a generative task's question: what stands behind the question where
    lm-eval shows it as an example."""
    if opened.config.get("unsafe_code") and not flags:
        for column in SOLUTIONS:
            if isinstance(document.get(column), str):
                return document[column]
        raise ValueError(f"unit tests as its answer, and no column {' or '.join(SOLUTIONS)}")
    task, shown = opened.task, {**document, **flags}
    _require_no_null(opened, document)
    settings = task.fewshot_cfg
    question = task.doc_to_text(document)
    choices = settings.doc_to_choice and task.doc_to_choice(shown, settings.doc_to_choice)
    delimiter = settings.target_delimiter
    if settings.doc_to_target:
        answer = task.doc_to_target(shown, settings.doc_to_target)
    else:  # the task is a class, whose answers may begin with a space
        answer = task.doc_to_target(shown)
        delimiter = "" if str(answer)[:1].isspace() else delimiter
    if isinstance(answer, int | float) and not choices:
        answer = str(answer)
    parts = {"gen_prefix": prefix, "tgt_delim": delimiter, "few_delim": ""}
    asked, whole = (
        "".join(message.to_text() for message in task.build_qa_turn(q=question, **more, **parts))
        for more in ({}, {"c": choices, "a": answer})
    )
    if not whole.startswith(asked):
        raise ValueError("an example that does not begin with its question")
    return whole[len(asked) :]


def _require_no_null(opened: HarnessTask, document: Mapping[str, Any]) -> None:
    """Raises where a column of the question or of the answer is empty: it would read "None"."""
    for key in ("doc_to_text", "doc_to_target"):
        template = opened.config.get(key)
        if not isinstance(template, str) or "none" in template:
            continue
        for column in _columns(template):
            if column in document and document[column] is None:
                raise ValueError(f"no value in the column '{column}'")


@cache
def _columns(template: str) -> set[str]:
    """Returns the columns that a template, or the name of a column, stands for."""
    from jinja2 import Environment, meta

    if "{" not in template:
        return {template}
    return meta.find_undeclared_variables(Environment().parse(template))


def _shown_as_example(opened: HarnessTask, document: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the columns by which lm-eval's own examples are told from documents, such as
    `is_fewshot` of MBPP: with them a document shows its solution, without them what rates it.

    Raises:
        DataError: When examples have solutions in columns that documents do not have.
    """
    from jinja2 import Environment, nodes

    template = opened.task.fewshot_cfg.doc_to_target
    if not isinstance(template, str) or "{" not in template:
        return {}
    tree = Environment().parse(template)
    tests = [test.node for test in tree.find_all(nodes.Test) if test.name.endswith("defined")]
    asked = {node.name for node in tests if isinstance(node, nodes.Name)}
    shown = {node.name for node in tree.find_all(nodes.Name) if not any(node is t for t in tests)}
    if asked & {*document} and (missing := sorted(shown - {*document})):
        raise DataError(
            f"Expected a task whose data has solutions, found '{opened.name}' of lm-eval: its "
            f"own examples have them in {missing[0]!r}, its data has the last answer alone: take a "
            "related task, or a file of questions and answers"
        )
    return dict.fromkeys(asked - shown - {*document}, "1")
