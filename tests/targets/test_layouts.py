"""Layouts: which columns make which, and which wins where one is part of another."""

from __future__ import annotations

import pytest
from task_rows import KINDS

from bydore_pyro.errors import DataError
from bydore_pyro.targets.labels import Question
from bydore_pyro.targets.layouts import Layout, asked, layouts_of, of_choices, of_columns, text


@pytest.mark.parametrize(
    ("columns", "keys"),
    [
        ("question answer", ["question answer"]),
        ("question answer id subject level", ["question answer"]),
        ("question choices answer", ["question choices answer"]),
        ("question options answer answer_idx", ["question options answer"]),
        ("question A B C D answer", ["question A B C D answer"]),
        ("question option1 option2 option3 label", ["question option1 option2 option3 label"]),
        ("problem solution answer", ["problem solution"]),
        ("instruction input output text", ["instruction output"]),
        ("prompt prompt_id messages", ["messages"]),
        ("system_prompt question response", ["question response"]),
        ("instruction context response category", ["instruction response"]),
        ("question passage label idx", ["question passage label"]),
        ("text", []),
        ("question", []),
        ("prompt text", []),
        ("premise hypothesis label", []),
        ("premise choice1 choice2 question label", []),
        ("text label", []),
        ("problem solution messages", ["messages", "problem solution"]),
        ("prompt completion response", ["prompt completion", "prompt response"]),
    ],
)
def test_columns_make_a_layout(columns: str, keys: list[str]) -> None:
    assert [" ".join(one.keys) for one in layouts_of(columns.split())] == keys


def test_every_layout_says_what_it_reads() -> None:
    for rows in KINDS.values():
        layout: Layout
        for layout in layouts_of(rows[0]):
            assert len(layout.read(rows[0])) == 1
            assert any(key in layout.what for key in layout.keys)


def test_choices_that_are_missing_in_a_row_are_none() -> None:
    (layout,) = layouts_of(["question", "A", "B", "C", "answer"])
    row = {"question": "Who?", "A": "Marta", "B": "Jan", "C": None, "answer": "B"}
    (found,) = layout.read(row)
    assert found.choices == ("Marta", "Jan")
    assert found.marks == ("A", "B")
    (found,) = layout.read({**row, "C": ""})
    assert found.choices == ("Marta", "Jan")
    with pytest.raises(DataError, match="Expected text in column 'A', found NoneType"):
        layout.read({**row, "B": None, "C": "Eva"})
    with pytest.raises(DataError, match="two or more choices in column 'A', found 0 of them"):
        layout.read({**row, "A": None, "B": ""})


def test_truth_in_words_is_yes_or_no_beside_a_passage_alone() -> None:
    """Tables hold no truth values."""
    (layout,) = layouts_of(["question", "passage", "answer"])
    row = {"question": "is it", "passage": "It is.", "answer": "True"}
    context = "It is.\nQuestion: is it\nAnswer:"
    assert layout.read(row) == [Question(((context, " no"), (context, " yes")), label=1)]
    (found,) = layout.read({**row, "answer": "Truly"})
    assert found.offered == ((context, " Truly"),)


def test_rows_that_do_not_hold_what_their_columns_say_are_refused() -> None:
    for columns, row, message in (
        ("question choices answer", ["?", "abc", 0], "two or more choices in column 'choices', fo"),
        ("question choices answer", ["?", ["a"], 0], "found 1 of them"),
        ("question choices answer", ["?", ["a", {}], 0], "text in column 'choices', found dict"),
        ("question answer", [["?"], "!"], "Expected text in column 'question', found list"),
        ("sentence option1 option2 answer", ["No gap", "a", "b", "1"], "Expected a gap '_' in col"),
    ):
        names = columns.split()
        (layout,) = layouts_of(names)
        with pytest.raises(DataError, match=message):
            layout.read(dict(zip(names, row, strict=True)))


def test_a_space_is_put_between_texts_without_one_where_options_name_the_columns() -> None:
    layout = of_columns("q", "a")
    for prompt, answer, scored in (
        ("Who?", "Jan", " Jan"),
        ("Who? ", "Jan", "Jan"),
        ("Who?", "\nJan", "\nJan"),
        ("", "Jan", "Jan"),
    ):
        assert layout.read({"q": prompt, "a": answer})[0].offered == ((prompt, scored),)
    assert layout.read({"q": "Who?", "a": 7})[0].offered == (("Who?", " 7"),)
    assert layout.read({"q": "Who?", "a": None}) == []


def test_choices_beside_columns_that_options_name() -> None:
    assert of_choices("q", "key", ["q", "key", "text"]) is None
    assert of_choices("q", "options", ["q", "options"]) is None
    layout = of_choices("q", "key", ["q", "optionA", "optionB", "key"])
    assert layout is not None
    (found,) = layout.read({"q": "Who?", "optionA": "Jan", "optionB": "Marta", "key": "B"})
    assert found.offered == (("Who?", " Jan"), ("Who?", " Marta"))
    assert (found.label, found.marks) == ("B", ("A", "B"))


def test_a_question_is_rendered_below_what_is_read_before_it() -> None:
    assert asked("Who?") == "Question: Who?\nAnswer:"
    assert asked("Who?", "Long ago.\n") == "Long ago.\nQuestion: Who?\nAnswer:"
    assert [text(one, "a") for one in ("b", 3, 0.5)] == ["b", "3", "0.5"]
    for value in (True, None, ["b"]):
        with pytest.raises(DataError, match="Expected text in column 'a', found"):
            text(value, "a")
