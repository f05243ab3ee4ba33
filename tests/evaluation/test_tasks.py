"""Tasks by name and from folders, with their data or a word about where it is missing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub.constants
import lm_eval.tasks
import pytest
from benchmark_data import (
    SCHEMAS,
    believing,
    character_tokenizer,
    questions_of,
    write_benchmark,
    write_split,
    write_task,
)
from lm_eval.models.huggingface import HFLM

from bydore_pyro.evaluation.benchmarks import PILE13
from bydore_pyro.evaluation.config import EvaluationConfig
from bydore_pyro.evaluation.scores import score_task
from bydore_pyro.evaluation.surroundings import guarded
from bydore_pyro.evaluation.tasks import EvaluationTask, load_tasks, needed_splits, read_file
from bydore_pyro.utils.errors import DataError


def load(
    names: Sequence[str],
    num_fewshot: Sequence[int] | None = None,
    *,
    include: Path | None = None,
    data: Path | None = None,
    **more: Any,
) -> list[EvaluationTask]:
    """Loads tasks as `bydore evaluate` is told to."""
    config = EvaluationConfig(
        tasks=list(names),
        num_fewshot=None if num_fewshot is None else list(num_fewshot),
        include_path=None if include is None else str(include),
        data_dir=None if data is None else str(data),
        **more,
    )
    with guarded(hub=False, code=include is None or config.allow_task_code):
        return load_tasks(config)


@pytest.fixture
def no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing to be had from a hub, nor from this machine's cache of one."""
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")


def test_local_data_for_all_thirteen(tmp_path: Path) -> None:
    for task in SCHEMAS:
        write_benchmark(tmp_path, task)
    ready = load(["pile13"], data=tmp_path)
    assert [task.label for task in ready] == list(PILE13)
    for task in ready:
        assert isinstance(task, EvaluationTask)
        benchmark = PILE13[task.label]
        assert task.task.task_name == benchmark.task
        assert task.num_fewshot == (0, 1, 2, 3, 4, 5)
        assert task.data == str(tmp_path / benchmark.task)
        assert len(task.task.eval_docs) == 10
        # RACE takes its examples from the questions.
        assert len(list(task.task.fewshot_docs())) == (10 if benchmark.task == "race" else 6)


@pytest.mark.usefixtures("no_network")
def test_missing_data_is_told_at_once_and_only_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        load(["pile13"])
    assert "social_iqa (ConnectionError: Couldn't reach 'lighteval/siqa'" in str(error.value)
    for benchmark in PILE13.values():
        schema = SCHEMAS[benchmark.task]
        assert f"{benchmark.task}/{schema.questions}.jsonl" in str(error.value)
        assert f"{benchmark.task}/{schema.examples}.jsonl" in str(error.value)
    write_benchmark(tmp_path, "piqa", examples=False)
    write_benchmark(tmp_path, "copa")
    names = ["PIQA", "piqa", "copa", "sciq"]
    with pytest.raises(DataError) as error:
        load(names, data=tmp_path)
    assert (
        f"piqa (FileNotFoundError: [Errno 2] No such file or directory: '{tmp_path / 'piqa'}"
        in (str(error.value))
    )
    assert "sciq/test.jsonl and sciq/train.jsonl of allenai/sciq" in str(error.value)
    assert "copa" not in str(error.value)
    with pytest.raises(DataError, match=r"found sciq .*; sciq/test\.jsonl of allenai/sciq\): put"):
        load(names, [0], data=tmp_path)
    write_benchmark(tmp_path, "sciq")
    ready = load(names, [0], data=tmp_path)
    assert [(task.label, task.num_fewshot) for task in ready] == [
        ("PIQA", (0,)),
        ("COPA", (0,)),
        ("SciQ", (0,)),
    ]


def test_splits_are_those_that_lm_eval_reads() -> None:
    own = {"validation_split": "dev", "fewshot_split": "shots", "training_split": "train"}
    assert needed_splits(own, [0]) == ["dev"]
    assert needed_splits(own, [0, 1]) == ["dev", "shots"]
    assert needed_splits({"group": "g", "task": ["a"]}, [1]) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\n", r"rows in .*a\.jsonl, found none"),
        ("goal,sol1\n", r"in .*a\.jsonl, line 1, found JSONDecodeError: Expecting value"),
        ('{"goal": "x"}\n\n["goal"]\n', "line 3, found ValueError"),
        ("3\n", "line 1, found TypeError"),
        ("[" * 100_000, "line 1, found RecursionError"),
        ("\xff\xfe", "line 1, found "),
        (
            '{"more": 1}\n{"more": ["a"]}\n',
            r"of one type a column, in .*, line 2, found Arr",
        ),
    ],
)
def test_files_that_are_no_data(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match=message):
        read_file(path)
    with pytest.raises(DataError, match=r"in .*a\.parquet, found ArrowInvalid"):
        read_file(path.rename(tmp_path / "a.parquet"))
    with pytest.raises(FileNotFoundError):
        read_file(path)


def test_wrong_values_of_the_examples_are_refused_too(tmp_path: Path) -> None:
    """Where there are examples; by line, or by what lm-eval makes of them."""
    questions = write_benchmark(tmp_path, "copa")
    questions[6].row["label"] = -1
    path = write_split(tmp_path, "copa", "train", questions[5:7])
    load(["copa"], [0], data=tmp_path)
    with pytest.raises(DataError, match=rf"label = 0\|1 \(JSON\) in {path}, row 2, found -1$"):
        load(["copa"], [0, 1], data=tmp_path)
    questions = write_benchmark(tmp_path, "arc_easy")
    questions[6].row["answerKey"] = "E"
    write_split(tmp_path, "arc_easy", "train", questions[5:7])
    with pytest.raises(DataError, match=r"train\.jsonl, found example 2: ValueError: 'E' is"):
        load(["arc_easy"], [1], data=tmp_path)


def test_wrong_values_of_a_hub_s_data_are_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [question.row for question in questions_of("copa")]
    rows[3]["label"] = -1
    found = datasets.DatasetDict(validation=datasets.Dataset.from_list(rows), train=[])
    monkeypatch.setattr(datasets, "load_dataset", lambda **_: found)
    message = r"label = 0\|1 \(JSON\) in aps/super_glue copa, validation, row 4, found -1$"
    with pytest.raises(DataError, match=message):
        load(["copa"], [0])


@pytest.mark.parametrize("label", [-1, 2, "other"])
def test_answers_that_are_no_choice_are_refused(tmp_path: Path, label: int | str) -> None:
    """In task files of the user as well: lm-eval would count a wrong answer."""
    data = write_task(tmp_path, "own", extra="num_fewshot: 1\n")
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    rows = [{**row, "label": str(row["label"])} for row in rows]
    rows[2]["label"] = str(label)
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    message = rf"of own that .*{data}.*, found question 3: the answer '?{label}'? is none of the 2"
    with pytest.raises(DataError, match=message):
        load(["own"], include=tmp_path)


def test_examples_are_counted_before_anything_is_scored(tmp_path: Path) -> None:
    """PIQA's six: one more is drawn than asked for, as the question itself could be among them."""
    write_benchmark(tmp_path, "piqa", count=4)
    (task,) = load(["piqa"], [5], data=tmp_path)
    known = believing([], lambda place: True)
    model = HFLM(pretrained=known, tokenizer=character_tokenizer(), batch_size=3)
    assert score_task(model, task, None)["questions"] == 4
    message = r"at least 7 rows in .*train\.jsonl to choose 6 examples of piqa from, found 6"
    with pytest.raises(DataError, match=message):
        load(["piqa"], [0, 6], data=tmp_path)


def test_questions_that_cannot_be_asked_are_named(tmp_path: Path) -> None:
    """MultiRC's template breaks on an answer with three quotes: the 13 are asked beforehand too."""
    questions = write_benchmark(tmp_path, "multirc")
    questions[4].row["answer"] = "'''"
    write_split(tmp_path, "multirc", "validation", questions)
    with pytest.raises(DataError, match=r"of multirc .*validation\.jsonl, found question 5: Synt"):
        load(["multirc"], [0], data=tmp_path)


def test_the_hash_is_that_of_the_rows(tmp_path: Path) -> None:
    """Whatever kind of file they are in, and of those splits alone that are read."""
    import pandas

    write_benchmark(tmp_path / "a", "piqa")
    rows = [question.row for question in questions_of("piqa")]
    (tmp_path / "b" / "piqa").mkdir(parents=True)
    pandas.DataFrame(rows).to_parquet(tmp_path / "b" / "piqa" / "validation.parquet")
    hashes = [
        load(["piqa"], numbers, data=tmp_path / name)[0].data_sha256
        for name, numbers in (("a", [0]), ("b", [0]), ("a", [1]))
    ]
    assert hashes[0] == hashes[1] != hashes[2]
    rows[0]["goal"] += "."
    pandas.DataFrame(rows).to_parquet(tmp_path / "b" / "piqa" / "validation.parquet")
    assert load(["piqa"], [0], data=tmp_path / "b")[0].data_sha256 != hashes[0]


def test_task_files_of_the_user(tmp_path: Path) -> None:
    folder = tmp_path / "tasks"
    write_task(folder, "own_one")
    write_task(folder, "own_two", extra="num_fewshot: 0\n")
    write_task(folder, "own_three", extra="num_fewshot: 2\n")
    names = ["own_one", "own_two", "own_three"]
    one, two, three = load(names, include=folder)
    assert one.label == "own_one"
    assert str(folder / "own_one.jsonl") in one.data
    assert (one.num_fewshot, two.num_fewshot, three.num_fewshot) == ((0,), (0,), (2,))
    # lm-eval gives no examples to a task that says 0.
    given = load(names, [1, 2, 1], include=folder)
    assert [task.num_fewshot for task in given] == [(1, 2), (0,), (1, 2)]


def test_tags_groups_and_all_of_lm_eval_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not among the 13 is looked for in all of lm-eval's files, which takes seconds."""
    read, manager = [], lm_eval.tasks.TaskManager

    def few(include_path: list[Path], *, include_defaults: bool = True) -> Any:
        read.append(include_defaults)
        return manager(include_defaults=False, include_path=include_path)

    monkeypatch.setattr(lm_eval.tasks, "TaskManager", few)
    write_task(tmp_path, "own_one")
    write_task(tmp_path, "own_two")
    (tmp_path / "group.yaml").write_text("group: own_group\ntask: [own_one]\n")
    assert [task.label for task in load(["own_one"], include=tmp_path)] == ["own_one"]
    assert read == [False]
    ready = load(["own_group", "mine", "own_one"], include=tmp_path)
    assert [task.label for task in ready] == ["own_one", "own_two"]
    assert read == [False, False, True]
    # A path is no name: it would go round the check of --include_path.
    path = str(tmp_path / "own_one.yaml")
    with pytest.raises(DataError, match=rf"or of --include_path, found helaswag, {path}$"):
        load(["helaswag", "own_one", path], include=tmp_path)


def test_a_benchmark_is_lm_eval_s_own(tmp_path: Path) -> None:
    write_task(tmp_path / "tasks", "piqa")
    write_benchmark(tmp_path, "piqa")
    (task,) = load(["piqa"], [0], include=tmp_path / "tasks", data=tmp_path)
    assert task.task.config.doc_to_text == "Question: {{goal}}\nAnswer:"


def test_code_in_task_files_runs_only_where_allowed(tmp_path: Path) -> None:
    folder, marker = tmp_path / "tasks", tmp_path / "ran"
    write_task(folder, "own", extra="process_docs: !function own_code.process\n")
    (folder / "own_code.py").write_text(
        f"open({str(marker)!r}, 'w').close()\ndef process(docs): return docs.select(range(2))\n"
    )
    with pytest.raises(DataError, match=r"without code, found !function own_code\.process in"):
        load(["own"], include=folder)
    assert not marker.exists()
    (task,) = load(["own"], include=folder, allow_task_code=True)
    assert marker.exists()
    assert len(task.task.eval_docs) == 2


def test_tasks_that_cannot_be_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "tasks"
    data = write_task(folder, "own", text="{{nothing}}")
    with pytest.raises(DataError, match=r"can load, found own \(UndefinedError: 'nothing'"):
        load(["own"], include=folder)
    data.unlink()
    with pytest.raises(DataError, match=rf"can load, found own \(FileNotFoundError.*{data}"):
        load(["own"], include=folder)
    with pytest.raises(DataError, match="Expected a folder, found"):
        load(["piqa"], data=tmp_path / "none")
