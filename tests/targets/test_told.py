"""What a user reads of a task: counts, what is lost, where it is trained on, and what is noisy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bydore_pyro import data, files
from bydore_pyro.targets.request import Request, Task, requests_sha256
from bydore_pyro.targets.scored import Cuts, Scored
from bydore_pyro.targets.told import (
    SEVERAL,
    Told,
    lines_of,
    lines_of_all,
    texts_of,
    told_of,
    without_examples,
)


def task_of(count: int = 300, **fields: object) -> Task:
    requests = tuple(
        Request(f"Question {i}: what is left?", (f" answer number {i}", " nothing at all"))
        for i in range(count)
    )
    given = {"name": "exam", "requests": requests[:count], "score": "choice", "split": "validation"}
    return Task(**{"source": f"{count} rows", "shots": 0, **given, **fields})


def text_of(sizes: list[list[int]], right: list[bool] | None = None) -> data.Text:
    """Documents of four tokens of which two are the answer, of so many bytes, and the end."""
    flat = [size for question in sizes for size in question]
    ends = 5 * np.arange(1, len(flat) + 1)
    each = np.zeros((len(flat), 5), int)
    each[:, 2] = [size - 1 for size in flat]
    each[:, 3] = 1
    answers = data.Answers(
        starts=ends - 3,
        sizes=each.ravel(),
        questions=np.repeat(np.arange(len(sizes)), [len(question) for question in sizes]),
        right=None if right is None else np.array(right),
    )
    return data.Text(np.zeros(len(each) * 5, "<u2"), ends, answers=answers)


def overlap_of(**standing: list[int]) -> data.Overlap:
    """Of 300 questions, of which 290 were compared."""
    places = {name: np.isin(np.arange(300), own) for name, own in standing.items()}
    return data.Overlap({"exam": places}, {"exam": np.arange(300) < 290}, {})


def told(
    task: Task,
    text: data.Text,
    *,
    contexts: int = 0,
    answers: int = 0,
    overlap: data.Overlap | None = None,
    dropped: bool = False,
) -> Told:
    scored = Scored(text, {}, task.left_out, requests_sha256(task.requests))
    cut = Cuts(int(text.questions[-1]) + 1, contexts, answers, 9)
    found = told_of(task, scored, cut, overlap, dropped=dropped)
    assert found.requests_sha256 == scored.requests_sha256
    return found


def test_a_task_that_is_well_has_no_cautions() -> None:
    task = task_of(requests=tuple(Request(f"Say {i}:", (f" {i} is a word",)) for i in range(300)))
    found = told(task, text_of([[20]] * 100 + [[41]] * 200))
    assert found.cautions == ()
    assert (found.questions, found.answer_bytes) == (300, 34.0)
    assert lines_of("exam", found) == [
        "target 'exam': 300 questions, split validation, 0 shots, right answers of 34.0 bytes on "
        "average, scored by the share of the right choice (300 rows)"
    ]


def test_what_is_cut_left_out_and_trained_on_is_reported() -> None:
    found = told(
        task_of(score="answer", split=None, shots=1, left_out={"unconditional copies": 1200}),
        text_of([[15]] * 300),
        contexts=12,
        answers=2,
        overlap=overlap_of(web=[1, 2], wiki=[2, 3, 4], law=[]),
    )
    assert found.standing == {"wiki": 3, "web": 2, "law": 0}
    assert (found.compared, found.standing_in_any) == (290, 4)
    assert lines_of("exam", found)[:4] == [
        "target 'exam': 300 questions, 1 shot, right answers of 15.0 bytes on average (300 rows)",
        "target 'exam': 12 questions lose their beginning and 2 lose the beginning of an answer, "
        "to fit in a sequence; a larger --sequence_length keeps more",
        "target 'exam': left out: 1,200 unconditional copies",
        "target 'exam': 4 of 290 questions (10 are too short to compare) also stand in the "
        "training text: 3 in 'wiki', 2 in 'web', 0 in 'law'; --drop_copies leaves out the training "
        "documents that contain them",
    ]
    dropped = told(task_of(), text_of([[15]] * 300), overlap=overlap_of(web=[7]), dropped=True)
    assert lines_of("exam", dropped)[1].endswith(
        "1 in 'web'; the training documents that contain them are left out"
    )
    none = told(task_of(), text_of([[15]] * 300), overlap=overlap_of())
    assert "none of 290 questions" in lines_of("exam", none)[1]


@pytest.mark.parametrize(
    ("questions", "size", "answers", "caution"),
    [
        (199, 20, ("a", "b", "c"), "it has 199 answers. The mean of fewer than 200 is noisy"),
        (200, 20, ("a", "b", "c"), None),
        (300, 20, ("a", "b"), "it has two possible answers"),
        (300, 9, ("a", "b", "c"), "its answers have 9.0 bytes on average"),
        (300, 10, ("a", "b", "c"), None),
    ],
)
def test_noisy_tasks_say_why(
    questions: int, size: int, answers: tuple[str, ...], caution: str | None
) -> None:
    requests = tuple(Request(f"{i}", answers, (i % 2,)) for i in range(questions))
    sizes = [[size, *[99] * (len(answers) - 1)]] * questions
    right = [True, *[False] * (len(answers) - 1)] * questions
    found = told(task_of(requests=requests), text_of(sizes, right))
    assert found.answer_bytes == size, "of right answers alone"
    assert [one.startswith(caution or "") for one in found.cautions] == [True] * (
        caution is not None
    )
    lines = lines_of("exam", found)[1:]
    assert all(line.startswith("warning: target 'exam': ") for line in lines)
    assert len(lines) == len(found.cautions)


def test_the_same_two_right_answers_make_a_binary_task() -> None:
    requests = tuple(Request(f"{i}?", ((" yes", " no")[i % 2],)) for i in range(300))
    found = told(task_of(requests=requests), text_of([[4]] * 300))
    assert [one.split(".")[0] for one in found.cautions] == [
        "it has two possible answers",
        "its answers have 4",
    ]
    few = told(task_of(requests=requests[:2]), text_of([[40]] * 2))
    assert [one[:12] for one in few.cautions] == ["it has 2 ans"]


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    found = told(
        task_of(left_out={"empty": 3}), text_of([[5.0]] * 300), overlap=overlap_of(web=[1])
    )
    path = tmp_path / "told.json"
    path.write_text(json.dumps(files.plain(found)), encoding="utf-8")
    assert files.read_as(Told, path) == found
    assert lines_of("exam", files.read_as(Told, path)) == lines_of("exam", found)


def test_examples_before_a_question_are_not_compared() -> None:
    """With an instruction before them, and where an example is two paragraphs."""
    shot = "Question: {}?\nAnswer: {}\n\n"
    shots = "".join(shot.format(i, i) for i in range(5))
    for before in ("", "Answer the questions.\n\n"):
        context = f"{before}{shots}Question: who?\nAnswer:"
        task = task_of(requests=(Request(context, (" me", " you"), (1,), "row 1"),), shots=5)
        assert without_examples(task).requests == (
            Request("Question: who?\nAnswer:", (" me", " you"), (1,), "row 1"),
        )
    double = "Passage {}.\n\nQuestion {}?\n\n"
    context = "".join(double.format(i, i) for i in range(4)).rstrip() + "\n\n"
    found = without_examples(task_of(requests=(Request(context, ("x",)),), shots=3))
    assert found.requests[0].context == "Passage 3.\n\nQuestion 3?\n\n"
    plain = task_of(shots=None)
    assert without_examples(plain) is plain


def test_texts_are_questions_with_their_right_answers() -> None:
    requests = (Request("Shot\n\nQ 1", (" a", " b"), (1, 0)), Request("Shot\n\nQ 2", (" c", " d")))
    assert texts_of(task_of(requests=requests, shots=1)) == ["Q 1 b", "Q 2 c"]
    assert texts_of(task_of(requests=requests))[0] == "Shot\n\nQ 1 b"


def test_of_many_tasks_each_has_one_line() -> None:
    well = task_of(requests=tuple(Request(f"{i}?", (" right",)) for i in range(300)))
    one = told(well, text_of([[15]] * 300), contexts=12, overlap=overlap_of(web=[1, 2]))
    few = told(well, text_of([[4]] * 60))
    many = {f"exam{number}": one for number in range(SEVERAL)}
    assert lines_of_all(many) == [line for name in many for line in lines_of(name, one)]
    lines = lines_of_all({**many, "short": few})
    assert len(lines) == SEVERAL + 1 + 2 + 2
    assert lines[0].startswith("target 'exam0': 300 questions, split validation")
    assert (
        "; 12 questions lose their beginning; 2 also stand in training text (300 rows)" in lines[0]
    )
    assert lines[-4:] == [
        "a larger --sequence_length keeps more of the questions that are cut",
        "--drop_copies leaves out the training documents that contain questions",
        "warning: the loss of targets with fewer than 200 answers is noisy: 'short'",
        "warning: the loss of targets with answers of fewer than 10 bytes on average is noisy: "
        "'short'",
    ]
