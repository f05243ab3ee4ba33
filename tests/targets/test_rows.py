"""Files of rows as tasks: each kind is recognised by its columns, all are counted, and what can be
read in two ways is refused."""

from __future__ import annotations

import csv
import json
import math
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from mutations import replaced, require_one_line
from pyarrow import parquet
from task_rows import ANSWERS, ASKED, CHOICES, KINDS, PLACES, READ, RIGHT, arc, chat, olmes, sample
from tiny import write_lines

from bydore_pyro.errors import DataError
from bydore_pyro.targets.request import Task
from bydore_pyro.targets.rows import Columns, read_task, task_name

CASES = Path(__file__).parents[2].parent / "shared" / "cases" / "targets"
ASKED_AS = "Question: {}\nAnswer:"
SAID_AS = "User: {}\n\nAssistant:"
# By kind: what the first context is, or a part of it; whether choices are known.
CONTEXTS: dict[str, tuple[str, bool]] = {
    "trl": (ASKED[0], False),
    "trl_chat": (SAID_AS.format(ASKED[0]), False),
    "messages": ("System: Be brief.\n\n" + SAID_AS.format(ASKED[0]), False),
    "messages_and_text": (SAID_AS.format(ASKED[0]), False),
    "sharegpt": (SAID_AS.format(ASKED[0]), False),
    "alpaca": (SAID_AS.format(ASKED[0]), False),
    "continuation": (ASKED[0], False),
    "requests": (ASKED_AS.format(ASKED[0]), True),
    "samples_of_choices": (ASKED_AS.format(ASKED[0]), True),
    "samples_of_texts": (ASKED_AS.format(ASKED[0]), False),
    "arc": (ASKED_AS.format(ASKED[0]), True),
    "piqa": (ASKED_AS.format(ASKED[0]), True),
    "gsm8k": (ASKED_AS.format(ASKED[0]), False),
    "mbpp": ("Write a function that adds 0.\nassert f_0(1) == 1\n", False),
    "humaneval": ("def f_0(x):\n", False),
    "mmlu": (ASKED_AS.format(ASKED[0]), True),
    "hellaswag": (f"River: {ASKED[0]}. So", True),
    "boolq": (f"{READ} 0\n" + ASKED_AS.format("is the river deep"), True),
    "sciq": (f"{READ}\n" + ASKED_AS.format(ASKED[0]), True),
    "squad": (f"{READ} {ANSWERS[0]}\n" + ASKED_AS.format(ASKED[0]), False),
    "triviaqa": (ASKED_AS.format(ASKED[0]), False),
    "winogrande": ("The heron 0 met the fox since the heron", True),
    "openbookqa": ("The heron sleeps", True),
    "commonsenseqa": (ASKED_AS.format(ASKED[0]), True),
    "socialiqa": (f"{READ}\n" + ASKED_AS.format(ASKED[0]), True),
    "race": (f"{READ}\n" + ASKED_AS.format(ASKED[0]), True),
    "medmcqa": (ASKED_AS.format(ASKED[0]), True),
    "medqa": (ASKED_AS.format(ASKED[0]), True),
    "maths": (ASKED_AS.format(ASKED[0]), False),
}
SCORED: Mapping[str, list[str]] = {
    "gsm8k": [f" {one}\n#### {n}" for n, one in enumerate(ANSWERS)],
    "maths": [f" {one} So {n}." for n, one in enumerate(ANSWERS)],
    "mbpp": [row["code"] for row in KINDS["mbpp"]],
    "humaneval": [row["canonical_solution"] for row in KINDS["humaneval"]],
    "boolq": [" yes", " no", " yes"],
    "winogrande": [" was hungry."] * 3,
}


def read(tmp_path: Path, rows: list[dict[str, Any]], **given: Any) -> Task:
    """The task in rows, which is there."""
    task = read_task(write_lines(tmp_path / "river.jsonl", rows), **given)
    assert task is not None
    return task


def refused(tmp_path: Path, rows: list[dict[str, Any]], **given: Any) -> str:
    """What is said against rows; it is one line that names the file."""
    with pytest.raises(DataError) as caught:
        read_task(write_lines(tmp_path / "river.jsonl", rows), **given)
    assert str(tmp_path / "river.jsonl") in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_recognised_and_its_right_answers_are_scored(kind: str, tmp_path: Path) -> None:
    task = read(tmp_path, KINDS[kind])
    assert task.name == "river"
    assert task.requests[0].context == CONTEXTS[kind][0]
    assert [one.answers for one in task.requests] == [
        (one,) for one in SCORED.get(kind, [f" {answer}" for answer in ANSWERS])
    ]
    assert task.source.startswith(f"3 answers in {len(KINDS[kind])} rows: ")
    assert all(one.right == (0,) for one in task.requests)
    lines = [one.place for one in task.requests]
    assert lines == (
        [f"line {8 * n + 1}" for n in PLACES]
        if kind == "requests"
        else [f"line {n + 1}" for n in PLACES]
    )


@pytest.mark.parametrize("kind", KINDS)
def test_choices_are_all_kept_where_they_are_compared(kind: str, tmp_path: Path) -> None:
    if not CONTEXTS[kind][1]:
        assert "score=answer scores it, line 1" in refused(tmp_path, KINDS[kind], score="choice")
        return
    task = read(tmp_path, KINDS[kind], score="choice")
    assert task.score == "choice"
    for n, one in enumerate(task.requests):
        chosen = [one.answers[place].strip() for place in one.right]
        wanted = {"boolq": "no" if n == 1 else "yes", "winogrande": "heron fox"[6 * (n % 2) :][:5]}
        assert chosen[0].startswith(wanted.get(kind, ANSWERS[n]).strip())
        assert len(one.answers) == len({*one.answers}) > 1


def test_choices_with_contexts_of_their_own_share_what_is_alike(tmp_path: Path) -> None:
    one = read(tmp_path, KINDS["winogrande"], score="choice").requests[0]
    assert one.context == "The heron 0 met the fox since the "
    assert one.answers == ("heron was hungry.", "fox was hungry.")


def test_every_format_gives_the_same_task(tmp_path: Path) -> None:
    rows = KINDS["medmcqa"]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    (tmp_path / "a.json").write_text(json.dumps(rows))
    write_lines(tmp_path / "a.jsonl.gz", rows)
    for name, delimiter in (("a.csv", ","), ("a.tsv", "\t")):
        with (tmp_path / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0], delimiter=delimiter)
            writer.writeheader()
            writer.writerows(rows)
    found = [
        task
        for ending in ("parquet", "json", "jsonl.gz", "csv", "tsv")
        if (task := read_task(tmp_path / f"a.{ending}", score="choice"))
    ]
    assert len(found) == 5
    assert {tuple((r.context, r.answers, r.right) for r in one.requests) for one in found} == {
        tuple(
            (r.context, r.answers, r.right) for r in read(tmp_path, rows, score="choice").requests
        )
    }


def test_plain_text_is_none(tmp_path: Path) -> None:
    for rows in ([{"text": "a heron"}], [{"text": "a heron", "id": 3, "meta": {"question": "x"}}]):
        assert read_task(write_lines(tmp_path / "a.jsonl", rows)) is None
    (tmp_path / "a.txt").write_text("a heron")
    assert read_task(tmp_path / "a.txt") is None
    path = write_lines(tmp_path / "b.jsonl", KINDS["trl"])
    assert read_task(path, Columns(text="completion")) is None
    assert "found plain text, line 1" in refused(tmp_path, [{"text": "a"}], score="choice")


def test_a_column_of_text_beside_a_task_is_said_not_to_be_read(tmp_path: Path) -> None:
    rows = [{"text": "?", **row} for row in KINDS["trl"]]
    assert read(tmp_path, rows).source.endswith("; the column 'text' is not read")
    assert "not read" not in read(tmp_path, KINDS["mbpp"]).source


def test_a_text_beside_a_question_answers_it_unless_it_holds_it(tmp_path: Path) -> None:
    apart = [{"question": ASKED[n], "text": ANSWERS[n]} for n in PLACES]
    whole = [{"question": ASKED[n], "text": f"{ASKED[n]} {ANSWERS[n]}"} for n in PLACES]
    assert read(tmp_path, apart).requests[1].answers == (f" {ANSWERS[1]}",)
    assert read_task(write_lines(tmp_path / "a.jsonl", whole)) is None
    message = refused(tmp_path, [*apart[:1], *whole[1:]])
    assert "prompt_column=question,answer_column=text or text_column=text" in message
    assert message.endswith(f"line 2 of {tmp_path / 'river.jsonl'}")


def test_each_turn_of_the_assistant_is_scored(tmp_path: Path) -> None:
    both = [*chat(0), *chat(1)]
    task = read(tmp_path, [{"messages": both}, {"messages": chat(2)}])
    assert [one.answers[0] for one in task.requests] == [f" {one}" for one in ANSWERS]
    assert task.source.startswith("3 answers in 2 rows: the assistant's turns of 'messages'")
    assert task.requests[1].context == (
        f"User: {ASKED[0]}\n\nAssistant: {ANSWERS[0]}\n\nUser: {ASKED[1]}\n\nAssistant:"
    )


def test_columns_that_options_name(tmp_path: Path) -> None:
    rows = [{"meta": {"q": ASKED[n]}, "a": [ANSWERS[n], "No."], "text": "?"} for n in PLACES]
    task = read(tmp_path, rows, columns=Columns(prompt="meta.q", answer="a"))
    assert task.requests[2].context == ASKED[2]
    assert task.requests[2].answers == (f" {ANSWERS[2]}",)
    assert "a space between texts without one" in task.source
    assert "the first of several right answers" in task.source
    chats = [{"said": chat(n), "prompt": "?", "completion": "?"} for n in PLACES]
    assert read(tmp_path, chats, columns=Columns(answer="said")).requests[0].answers == (
        f" {ANSWERS[0]}",
    )
    for columns, message in (
        (
            Columns(prompt="q", answer="a"),
            "Expected a column 'q', found meta, a, text (prompt_colu",
        ),
        (Columns(answer="text"), "Expected messages in column 'text' without a prompt_column"),
        (Columns(prompt="meta", answer="a"), "Expected text in column 'meta', found dict, line 1"),
    ):
        assert refused(tmp_path, rows, columns=columns).startswith(message)


def test_a_column_that_options_name_chooses_among_choices_beside_it(tmp_path: Path) -> None:
    """Unless what it holds is no choice."""
    rows = [
        {"q": {"text": ASKED[n]}, "options": CHOICES[n], "key": RIGHT[n], "why": f"So. {n}"}
        for n in PLACES
    ]
    named = Columns(prompt="q.text", answer="key")
    task = read(tmp_path, rows, columns=named, score="choice")
    assert task.requests[1].context == ASKED[1]
    assert task.requests[1].answers == tuple(f" {one}" for one in CHOICES[1])
    assert [one.right for one in task.requests] == [(0,), (2,), (1,)]
    why = read(tmp_path, rows, columns=Columns(prompt="q.text", answer="why"))
    assert [one.answers for one in why.requests] == [(f" So. {n}",) for n in PLACES]
    del rows[0]
    assert "labels_from=0 or labels_from=1" in refused(tmp_path, rows, columns=named)
    from_one = replace(named, labels_from=1)
    assert read(tmp_path, rows, columns=from_one).requests[0].answers == (" A herring.",)


def test_columns_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="text_column or answer_column, found both"):
        Columns(text="a", answer="b")
    with pytest.raises(ValueError, match="answer_column beside prompt_column, found none"):
        Columns(prompt="a")


def test_a_file_that_is_both_is_refused_with_what_would_do(tmp_path: Path) -> None:
    rows = [{**KINDS["trl"][n], "messages": chat(n)} for n in PLACES]
    message = refused(tmp_path, rows)
    assert "found prompt, completion beside messages: " in message
    assert (
        "prompt_column=prompt,answer_column=completion or answer_column=messages, line 1" in message
    )
    assert read(tmp_path, rows, columns=Columns(answer="messages")).requests
    assert read(tmp_path, rows, columns=Columns(prompt="prompt", answer="completion")).requests


@pytest.mark.parametrize(
    "others", [[{"text": "a heron"}], [{"messages": chat(0)}], [{"prompt": "?", "text": "!"}]]
)
def test_rows_of_two_kinds_are_refused(others: list[dict[str, Any]], tmp_path: Path) -> None:
    message = refused(tmp_path, [*KINDS["trl"], *others])
    assert "prompt, completion in all rows, as in line 1" in message
    assert "put the two kinds into a file each, line 4 of" in message
    assert "in all rows" in refused(tmp_path, [*others, *KINDS["trl"]])


def test_columns_of_a_table_that_are_empty_in_a_row_decide_nothing(tmp_path: Path) -> None:
    """Of two kinds of rows a table has the columns of both."""
    parquet.write_table(
        pyarrow.Table.from_pylist([{**one, "messages": None} for one in KINDS["trl"]]),
        tmp_path / "a.parquet",
    )
    task = read_task(tmp_path / "a.parquet")
    assert task is not None
    assert len(task.requests) == 3
    rows = [{"question": "?", "A": "a", "B": "b", "C": None, "answer": n} for n in "AB"]
    for given in ([*rows, {**rows[0], "C": "c"}], [{**rows[0], "C": "c"}, *rows]):
        task = read(tmp_path, given, score="choice")
        assert sorted(len(one.answers) for one in task.requests) == [2, 2, 3]


def test_two_rows_of_one_id_are_refused_and_copies_are_not(tmp_path: Path) -> None:
    for kind in ("arc", "triviaqa", "mbpp", "squad"):
        first, second, third = KINDS[kind]
        name = next(iter({"id", "question_id", "task_id"} & first.keys()))
        message = refused(tmp_path, [first, third, {**second, name: first[name]}])
        assert f"Expected every {name} once" in message
        assert "in line 1 and again: remove one of them, or the column, line 3" in message
        assert len(read(tmp_path, [first, first, second]).requests) == 3  # `text_of` counts them


def test_a_request_of_olmes_that_stands_twice_is_refused(tmp_path: Path) -> None:
    rows = KINDS["requests"]
    message = refused(tmp_path, [*rows, rows[2]])
    assert "found 0 and 2 at line 3 and again: remove one of them, line 25 of" in message
    other = [{**one, "task_name": "sea"} for one in rows]
    assert len(read(tmp_path, [*rows, *other]).requests) == 6


def test_olmes_copies_without_their_question_are_dropped_and_counted(tmp_path: Path) -> None:
    task = read(tmp_path, KINDS["requests"])
    assert len(task.requests) == 3
    assert task.left_out == {"unconditional copies (doc_id from 1,000,000)": 12}
    missing = [one for one in KINDS["requests"] if one["idx"] != 2]
    assert "the row with idx 2, as label says, found 0, 1, 3 alone, line" in refused(
        tmp_path, missing
    )


def test_a_sample_of_other_filters_is_no_second_document(tmp_path: Path) -> None:
    rows = KINDS["samples_of_texts"]
    task = read(tmp_path, [*rows, *({**one, "filter": "strict"} for one in rows)])
    assert len(task.requests) == 3
    assert task.left_out == {"documents again, under other filters than 'none'": 3}
    assert "Expected each doc_id once, found 1 at line 2 and again" in refused(
        tmp_path, [*rows, rows[1]]
    )


def test_the_solution_is_scored_not_the_unit_tests(tmp_path: Path) -> None:
    asked = ("Write f.", {"until": ["x"]})
    doc = {"text": "Write f.", "code": "def f(): ...", "test_list": ["assert f"]}
    task = read(tmp_path, [sample(0, "assert f", asked, doc=doc)])
    assert task.requests[0].answers == (" def f(): ...",)
    assert task.source.endswith("the document's 'code', not its target")
    task = read(tmp_path, [sample(0, "['reeds', 'the reeds']", asked)])
    assert task.requests[0].answers == (" reeds",)
    assert task.source.endswith("the first of several right answers")


@pytest.mark.parametrize("kind", ["arc", "hellaswag", "winogrande", "sciq", "squad", "race"])
def test_rows_without_right_answers_are_counted_and_a_file_of_them_is_refused(
    kind: str, tmp_path: Path
) -> None:
    hidden = {
        "label": "-1",
        "answerKey": "",
        "answer": "",
        "correct_answer": "",
        "answers": {"text": []},
    }
    first, *others = KINDS[kind]
    without = {name: hidden.get(name, value) for name, value in first.items()}
    task = read(tmp_path, [*others, without])
    assert len(task.requests) == 2
    assert task.left_out == {"rows without a right answer, as of test splits": 1}
    for rows in ([without], [{name: None if name in hidden else v for name, v in first.items()}]):
        assert "take a split whose answers are known, line 1 of" in refused(tmp_path, rows)


def test_a_number_that_is_missing_is_no_answer(tmp_path: Path) -> None:
    """A table whose column holds numbers writes NaN."""
    path = tmp_path / "a.parquet"
    table = {"prompt": ["2 + 2 =", "3 + 3 ="], "completion": [4.0, math.nan]}
    parquet.write_table(pyarrow.table(table), path)
    task = read_task(path)
    assert task is not None
    assert [one.answers for one in task.requests] == [("4.0",)]
    assert [*task.left_out.values()] == [1]
    rows = [{"prompt": "1 / 0 =", "completion": math.inf}]
    assert "a number in column 'completion', found inf, line 1 of" in refused(tmp_path, rows)


def test_bad_completions_are_no_right_answers(tmp_path: Path) -> None:
    """TRL marks them where each completion stands alone."""
    rows = [{**row, "label": n != 1} for n, row in enumerate(KINDS["trl"])]
    task = read(tmp_path, rows)
    assert [one.place for one in task.requests] == ["line 1", "line 3"]
    assert [*task.left_out.values()] == [1]


def test_of_several_right_choices_the_first_is_scored_and_it_is_said(tmp_path: Path) -> None:
    rows = [{"question": ASKED[n], "choices": CHOICES[n], "answer": [RIGHT[n], 3]} for n in PLACES]
    task = read(tmp_path, rows)
    assert [one.answers for one in task.requests] == [(f" {one}",) for one in ANSWERS]
    assert task.source.endswith("; the first of several right answers")
    compared = read(tmp_path, rows, score="choice")
    assert compared.requests[1].right == (2, 3)
    assert "several" not in compared.source


def test_a_chat_without_the_assistant_is_refused_or_skipped(tmp_path: Path) -> None:
    rows = [{"messages": chat(0)}, {"messages": chat(1)[:1]}]
    assert "Expected a turn of the assistant" in refused(tmp_path, rows)
    assert refused(tmp_path, rows).endswith(f"line 2 of {tmp_path / 'river.jsonl'}")
    task = read(tmp_path, rows, on_error="skip")
    assert len(task.requests) == 1
    assert task.left_out == {"rows that could not be read": 1}


def test_a_broken_file_is_refused_or_skipped(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "river.jsonl", KINDS["trl"])
    path.write_bytes(path.read_bytes() + b'{"prompt": "')
    with pytest.raises(DataError, match=r"Expected a JSON object, found one that breaks .* line 4"):
        read_task(path)
    task = read_task(path, on_error="skip")
    assert task is not None
    assert task.left_out == {"rows that could not be read": 1}
    with pytest.raises(DataError, match="Expected a file, found none"):
        read_task(tmp_path / "none.jsonl")
    path.write_bytes(b"\n")
    for columns in (None, Columns(prompt="a", answer="b")):
        with pytest.raises(DataError, match=f"Expected rows, found none in {path}"):
            read_task(path, columns)


@pytest.mark.parametrize("kind", KINDS)
def test_whatever_a_row_holds_it_is_read_or_refused_in_one_line(kind: str, tmp_path: Path) -> None:
    draw, first, refusals = random.Random(kind), KINDS[kind][0], list[str]()
    path, names = tmp_path / "river.jsonl", list(first)
    named = Columns(prompt=names[0] if len(names) > 1 else None, answer=names[-1])
    for row in draw.choices([one for one in replaced(first) if isinstance(one, dict)], k=60):
        write_lines(path, [row, *KINDS[kind][1:]])
        try:
            read_task(path, draw.choice([None, named]), score=draw.choice(["answer", "choice"]))
        except DataError as error:
            refusals.append(str(error))
    assert refusals
    require_one_line(refusals, path)


def test_unknown_columns_are_refused_with_what_is_known(tmp_path: Path) -> None:
    message = refused(tmp_path, [{"frage": "?", "antwort": "!"}])
    assert "found frage, antwort: text_column, or prompt_column and answer_column" in message


def test_numbers_that_may_count_from_0_or_1_are_refused_unless_it_is_said(tmp_path: Path) -> None:
    rows = [
        {"question": ASKED[n], "choices": CHOICES[n], "answer": answer}
        for n, answer in enumerate([1, 3, 2])
    ]
    message = refused(tmp_path, rows)
    assert "found 1, which is a number from 0 or a number from 1" in message
    assert "labels_from=0 or labels_from=1" in message
    from_one = read(tmp_path, rows, columns=Columns(labels_from=1))
    assert [one.answers for one in from_one.requests] == [(f" {one}",) for one in ANSWERS]
    assert "labels read as a number from 1" in from_one.source
    rows[0]["answer"] = 0
    assert read(tmp_path, rows).requests[1].answers == (f" {CHOICES[1][3]}",)
    rows[0]["answer"] = 4
    assert read(tmp_path, rows).requests[1].answers == (f" {ANSWERS[1]}",)
    rows[1]["answer"] = 0
    assert "found 0, line 2" in refused(tmp_path, rows)


def test_a_file_names_its_task() -> None:
    for path, name in (
        ("a/gsm8k.jsonl", "gsm8k"),
        ("samples_arc_easy_2026-11-01T10-00-00.123456.jsonl", "arc_easy"),
        ("suite/arc_easy/rc_0shot/requests.jsonl.gz", "arc_easy_rc_0shot"),
        ("requests.jsonl", "requests"),
        ("a=b.jsonl", "a-b"),
    ):
        assert task_name(path) == name


@pytest.mark.skipif(not CASES.is_dir(), reason="the cases are not here")
def test_the_cases_are_read(tmp_path: Path) -> None:
    """What people have: 60 questions in every file but those of plain text."""
    plain = {"lambada", "short_long"}
    both = {"arc", "boolq", "hellaswag", "mmlu", "piqa", "requests", "arc_easy", "sciq"}
    found = {}
    for path in sorted(CASES.glob("*.jsonl*")):
        task = read_task(path)
        found[path.name.split(".")[0]] = task and len(task.requests)
        if task and task.name in both:
            with_choices = read_task(path, score="choice")
            assert with_choices is not None
            for one, every in zip(task.requests, with_choices.requests, strict=True):
                assert one.answers == tuple(every.answers[place] for place in every.right)
    assert len(found) == 23
    assert {name for name, count in found.items() if count is None} == plain
    assert {count for count in found.values() if count is not None} == {60}
    requests = read_task(CASES / "requests.jsonl.gz")
    assert requests is not None
    assert [*requests.left_out.values()] == [240]


def test_the_helpers_hold_what_they_say() -> None:
    assert [CHOICES[n].index(ANSWERS[n]) for n in PLACES] == RIGHT
    assert arc(1)["answerKey"] == "C"
    assert olmes(0, 3, 1_000_000)["request"]["context"] == "Answer:"
