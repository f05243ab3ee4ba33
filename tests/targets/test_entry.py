"""Entries of --validation: what each form says, that it can be written back, and what cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bydore_pyro.errors import DataError
from bydore_pyro.targets.entry import Entry, entries_of
from bydore_pyro.targets.rows import Columns


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("web", {"name": "web"}),
        ("web/law=.3", {"name": "web/law", "share": 0.3}),
        ("a,b=2", {"name": "a,b", "share": 2}),
        ("a=b.jsonl", {"name": "a-b", "file": "a=b.jsonl"}),
        ("x/a=b.jsonl=.3", {"name": "a-b", "file": "x/a=b.jsonl", "share": 0.3}),
        ("notes.txt=3e-1", {"name": "notes", "file": "notes.txt", "share": 0.3}),
        ("q.parquet,text_column=a.b", {"name": "q", "file": "q.parquet", "text_column": "a.b"}),
        (
            "q.csv,prompt_column=q,answer_column=a=.3",
            {
                "name": "q",
                "file": "q.csv",
                "prompt_column": "q",
                "answer_column": "a",
                "share": 0.3,
            },
        ),
        (
            "q.jsonl,name=exam,labels_from=1,score=choice",
            {
                "name": "exam",
                "file": "q.jsonl",
                "labels_from": 1,
                "score": "choice",
            },
        ),
        (
            "samples_arc_2026-11-01T10-00-00.1.jsonl",
            {"name": "arc", "file": "samples_arc_2026-11-01T10-00-00.1.jsonl"},
        ),
        ("task:mmlu", {"name": "mmlu", "task": "mmlu"}),
        ("task:arc_easy=.2", {"name": "arc_easy", "task": "arc_easy", "share": 0.2}),
        ("task:gsm8k,shots=5=.2", {"name": "gsm8k", "task": "gsm8k", "shots": 5, "share": 0.2}),
        ("task:mmlu,shots=0", {"name": "mmlu", "task": "mmlu", "shots": 0}),
        ("task:mmlu,score=choice", {"name": "mmlu", "task": "mmlu", "score": "choice"}),
        ("task:mmlu,name=m", {"name": "m", "task": "mmlu"}),
    ],
)
def test_an_entry_is_read_and_written_back(text: str, said: dict[str, Any]) -> None:
    entry = Entry.of(text)
    assert entry == Entry(**said)
    assert Entry.of(str(entry)) == entry
    assert entries_of(text) == [entry]


def test_a_column_with_an_equals_sign_is_written_with_its_share() -> None:
    entry = Entry(name="q", file="q.csv", answer_column="a=3", prompt_column="b=4")
    assert str(entry) == "q.csv,prompt_column=b=4,answer_column=a=3=1"
    assert Entry.of(str(entry)) == entry


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("web=0", "Expected a share above 0 behind the last '=', found 'web=0'"),
        ("web=nan", "Expected a share above 0 behind"),
        ("web=much", "Expected a share above 0 behind"),
        ("q.csv,answer_column=a=b", "Expected a share above 0 behind"),
        ("q.csv,colum=a", "Expected options of a target .* found 'colum' in 'q.csv,colum=a'"),
        ("task:mmlu,seed=3", "found 'seed' in"),
        ("q.csv,text_column=", "Expected a value for text_column, found nothing"),
        ("q.csv,name=a,name=b", "Expected a value for name, found it twice"),
        (
            "web,score=choice",
            "Expected a file of rows or a task with score, found the target 'web'",
        ),
        ("web,text_column=a", "Expected a file of rows with text_column, found the target 'web'"),
        ("a.txt,text_column=a", "Expected a file of rows with text_column, found the target 'a'"),
        (
            "a.txt,score=choice",
            "Expected a file of rows or a task with score, found the target 'a'",
        ),
        ("q.csv,shots=3", "Expected a task with shots, found the target 'q' without"),
        ("task:mmlu,answer_column=a", "Expected a file of rows with answer_column, found the targ"),
        ("task:mmlu,shots=many", "Expected a whole number as shots, found 'many'"),
        ("task:mmlu,score=best", "Expected score=answer or score=choice for the target 'mmlu'"),
        ("q.csv,labels_from=2", "Expected labels_from=0 or 1 for the target 'q', found 2"),
        ("q.csv,prompt_column=a", "Expected answer_column beside prompt_column, found none"),
        (
            "q.csv,text_column=a,answer_column=b",
            "Expected text_column or answer_column, found both",
        ),
        ("q.csv,text_column=a,score=choice", "Expected text_column or score=choice for the target"),
        ("task:", "Expected a name after task:, found none in 'task:'"),
        ("", "Expected a domain's name"),
        ("web,name=other", "Expected a file or a task with a name, found 'web,name=other'"),
        ("t.yaml=.3", "Expected a list of targets without options and share, .* 't.yaml=.3'"),
        ("t.yml,score=choice", "Expected a list of targets without options and share"),
        ("q.csv,prompt_column=a,answer_column=a", "Expected two columns, found 'a' as both"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        Entry.of(text)
    assert "\n" not in str(caught.value)


def test_values_that_no_text_can_say_are_refused_too() -> None:
    with pytest.raises(ValueError, match="a file or a task for the target 'a', found both"):
        Entry(name="a", file="a.csv", task="a")
    with pytest.raises(ValueError, match="Expected shots >= 0 for the target 'a', found -1"):
        Entry(name="a", task="a", shots=-1)
    with pytest.raises(ValueError, match="Expected a share above 0 for the target 'a', found inf"):
        Entry(name="a", share=float("inf"))


def test_columns_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = Entry.of("q.csv,prompt_column=a,answer_column=b,labels_from=0")
    assert entry.columns == Columns(prompt="a", answer="b", labels_from=0)
    monkeypatch.chdir(tmp_path)
    assert entry.anywhere().file == str(tmp_path / "q.csv")
    assert Entry.of("web").anywhere() == Entry.of("web")
    assert Entry.of("s3://b/q.csv").anywhere().file == "s3://b/q.csv"


LISTED = """
targets:
  exam: {file: exam.jsonl, share: 0.3, score: choice}
  gsm: {file: ../gsm8k.csv, prompt_column: question, answer_column: answer}
  code: {task: mbpp, shots: 3}
  docs:
"""
AS_JSON = """ {"targets": {"exam": {"file": "exam.jsonl", "share": 0.3, "score": "choice"},
  "gsm": {"file": "../gsm8k.csv", "prompt_column": "question", "answer_column": "answer"},
  "code": {"task": "mbpp", "shots": 3}, "docs": null}}"""


@pytest.mark.parametrize(("name", "text"), [("t.yaml", LISTED), ("t.json", AS_JSON)])
def test_a_list_names_targets_beside_it(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    exam, gsm, code, docs = entries_of(str(tmp_path / name))
    assert exam == Entry(name="exam", file=str(tmp_path / "exam.jsonl"), share=0.3, score="choice")
    assert gsm.file == f"{tmp_path}/../gsm8k.csv"
    assert gsm.columns == Columns(prompt="question", answer="answer")
    assert code == Entry(name="code", task="mbpp", shots=3)
    assert docs == Entry(name="docs")
    for entry in (exam, gsm, code, docs):  # a run can do without the list
        assert Entry.of(str(entry)) == entry


def test_a_file_of_rows_in_json_is_no_list(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"targets": 1}]')
    assert entries_of(str(tmp_path / "a.json"))[0].file == str(tmp_path / "a.json")
    assert entries_of("missing.json")[0].file == "missing.json"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("domains: {a: a.jsonl}", "found domains .a list of domains belongs to --data; here each"),
        ("- a", "Expected 'targets:' with names, found no mapping"),
        ("targets: {}", "Expected 'targets:' with names, found targets in"),
        ("targets: {a: {}}\nseed: 1", "Expected 'targets:' with names, found targets, seed in"),
        (
            "targets: {a: {files: a.jsonl}}",
            "with some of file, task, share, .* found files for 'a'",
        ),
        ("targets: {a: a.jsonl}", "found 'a.jsonl' for 'a' in"),
        ("targets: {1: {task: a}}", "Expected a name in words .* for 1 in"),
        ("targets: {a: {share: much}}", "Expected a number as share of 'a', found 'much' in"),
        ("targets: {a: {task: a, shots: true}}", "Expected a number as shots of 'a', found True"),
        ("targets: {a: {task: 3}}", "Expected text as task of 'a', found 3 in"),
        ("targets: {a: {file: a.md}}", "Expected a file of rows or of text .* found a.md in"),
        ("targets: {a: {score: choice}}", "Expected a file of rows or a task with score, .* in"),
        ("targets: {a: {}, a: {}}", "Expected every name once, found 'a' twice in"),
        ("targets: [", "Expected a list of targets, found"),
        ("targets: {a.csv: {share: 2}}", "Expected file: or task: in the target 'a.csv'"),
        ("targets: {'task:a': {share: 2}}", "Expected file: or task: in the target 'task:a'"),
        ("targets: {a: {task: ''}}", "Expected the name of a task for the target 'a', found none"),
        ("targets: {a: {task: 'a,shots=3'}}", "Expected no ',WORD=' in what names a target"),
        (
            "targets: {a: {file: a.csv, prompt_column: 'a,name=b', answer_column: c}}",
            "Expected no ',WORD=' in what names a target, found .*a.csv,",
        ),
        (f"targets: {{a: {{share: 1{'0' * 400}}}}}", "Expected a share above 0 for the target 'a'"),
    ],
)
def test_a_list_that_cannot_be_is_refused_by_name(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.yml"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        entries_of(str(path))
    assert str(path) in str(caught.value)
    with pytest.raises(DataError, match=r"Expected a list of targets, found .*No such file"):
        entries_of(str(tmp_path / "none.yaml"))
