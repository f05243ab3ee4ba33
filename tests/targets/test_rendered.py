"""Requests that an evaluation wrote, read back; what is not scored is counted or refused."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from task_rows import KINDS, arc, olmes, sample

from bydore_pyro.errors import DataError
from bydore_pyro.targets.rendered import olmes_questions, sample_questions

ASKED = ("Who?", {"until": ["\n"]})


def placed(rows: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(f"line {n}", row) for n, row in enumerate(rows, 1)]


def right_of(*rows: dict[str, Any]) -> list[tuple[int, ...] | None]:
    return [one.right for _, one in sample_questions(placed([*rows]), Counter())]


def test_a_document_of_olmes_has_its_choices_by_their_number() -> None:
    rows = [olmes(1, m, 7) for m in (3, 0, 2, 1)]
    ((place, one),) = olmes_questions(placed(rows), Counter())
    assert place == "line 2"
    assert one.right == (2,)
    assert one.offered[2][1] == " An iron key."


@pytest.mark.parametrize("label", [None, "the gold text", ["the", "gold"]])
def test_a_label_that_is_no_number_leaves_the_only_row(label: Any) -> None:
    rows = [{**olmes(0, 0, 0), "label": label}]
    ((_, one),) = olmes_questions(placed(rows), Counter())
    assert one.right == (0,)
    with pytest.raises(DataError, match="Expected a number as label of 2 choices, found"):
        olmes_questions(placed([*rows, {**olmes(0, 1, 0), "label": label}]), Counter())


def test_a_label_of_a_table_is_a_number() -> None:
    rows = [{**olmes(0, m, 0), "label": 1.0} for m in range(2)]
    assert olmes_questions(placed(rows), Counter())[0][1].right == (1,)
    with pytest.raises(DataError, match="the row with idx 1, as label says, found 0 alone, line 1"):
        olmes_questions(placed(rows[:1]), Counter())


def test_two_labels_of_one_document_are_refused() -> None:
    rows = [{**olmes(0, m, 0), "label": m} for m in range(2)]
    with pytest.raises(DataError, match="in all its rows, found 0 at line 1 and 1, line 2"):
        olmes_questions(placed(rows), Counter())


def test_a_request_that_is_no_text_is_named_by_its_row() -> None:
    row = {**olmes(0, 0, 0), "request": {"context": ["Who?"], "continuation": " Jan"}}
    with pytest.raises(DataError, match=r"in column 'request\.context', found list, line 1"):
        olmes_questions(placed([row]), Counter())


def test_requests_without_a_gold_answer_are_refused() -> None:
    row = {**olmes(0, 0, 0), "request": {"context": "Who?", "stop_sequences": []}}
    with pytest.raises(DataError, match=r"a context and a continuation, found none: .*, line 1"):
        olmes_questions(placed([row]), Counter())
    with pytest.raises(DataError, match="as doc_id and idx, found 'a' and 0, line 1"):
        olmes_questions(placed([{**row, "doc_id": "a"}]), Counter())


def test_targets_of_samples_are_numbers_or_texts() -> None:
    """lm-eval writes each as text."""
    choices = [("Who?", " Jan"), ("Who?", " Marta"), ("Who?", " 0")]
    for target, right in (("1", (1,)), ("[0, 1]", (0, 1)), ("Marta", (1,)), (1, (1,))):
        assert right_of(sample(0, target, *choices)) == [right]  # type: ignore[arg-type]
    for target in ("0", "7", "Eva", "[0, 7]"):  # "0" is the first and the last
        with pytest.raises(DataError, match="the number or the text of one of 3 choices, found"):
            right_of(sample(0, target, *choices))
    doc = {"question": "Who?", "choices": ["Jan", "Marta", "0"], "answer": "C"}
    assert right_of(sample(0, "0", *choices, doc=doc)) == [(2,)]


def test_older_samples_hold_lists() -> None:
    new = KINDS["samples_of_choices"][1]
    old = {**new, "arguments": [[*one.values()] for one in new["arguments"].values()], "target": 2}
    assert right_of(old) == right_of(new) == [(2,)]


def test_contexts_that_differ_are_told_apart_by_the_document() -> None:
    behind = " was hungry."
    pairs = [(f"The heron met the fox since {one}", behind) for one in ("the heron", "the fox")]
    (row,) = KINDS["winogrande"][1:2]
    assert right_of(sample(0, behind.strip(), *pairs, doc=row)) == [(1,)]
    assert right_of(sample(0, "x", *(("?", f" {n}") for n in range(4)), doc=arc(1))) == [(2,)]


def test_choices_without_their_question_are_dropped_and_counted() -> None:
    choices = [("Who?", " Jan"), ("Who?", " Marta")]
    left_out: Counter[str] = Counter()
    row = sample(0, "1", *choices, *(("", answer) for _, answer in choices))
    ((_, one),) = sample_questions(placed([row]), left_out)
    assert one.offered == tuple(choices)
    assert left_out == {"choices without their question, of acc_mutual_info": 2}


def test_a_single_continuation_is_the_answer() -> None:
    assert right_of(sample(0, "Jan", ("Who?", " Jan"))) == [(0,)]


def test_a_space_stands_before_an_answer_that_is_generated() -> None:
    for context, scored in (("Who?", " Jan"), ("Who?\n", "Jan")):
        row = sample(0, "Jan", (context, {"until": []}))
        ((_, one),) = sample_questions(placed([row]), Counter())
        assert one.offered == ((context, scored),)


def test_samples_that_cannot_be_scored_are_refused() -> None:
    for row, message in (
        (sample(0, "x", ("A whole text.",)), "found a text alone, as of loglikelihood_rolling"),
        (sample(0, "[]", ASKED), r"Expected the right answer as target, found '\[\]', line 1"),
        (sample(0, " ", ASKED), "Expected the right answer as target, found ' ', line 1"),
        (
            {**sample(0, "x"), "arguments": "?"},
            "Expected the arguments of requests, found '[?]', l",
        ),
        ({**sample(0, "x"), "arguments": {"gen_args_0": 3}}, "Expected the arguments of requests"),
        (sample(0, "0", ("Who?", " Jan"), ("Who?",)), "found one alone, line 1"),
        (sample(0, "x", ASKED, doc_id=[1]), r"Expected a number as doc_id, found \[1\], line 1"),
    ):
        with pytest.raises(DataError, match=message):
            sample_questions(placed([row]), Counter())
