"""Tasks by name and from folders; all that their data hold is checked before any scoring."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub.constants
import lm_eval.tasks
import pytest
from benchmark_data import SCHEMAS, questions_of, write_benchmark, write_split, write_task

from bydore_pyro.evaluation.guard import guarded
from bydore_pyro.evaluation.tasks import (
    BY_TASK,
    FOLDERS,
    NUM_FEWSHOT,
    PILE13,
    EvaluationConfig,
    load_tasks,
)
from bydore_pyro.mixture.published import benchmark_scores
from bydore_pyro.utils.errors import DataError

LISTED = {"text": ["x", "y"], "label": ["A", "B"]}
PROBLEM = {"question": "?", "answer": "D", "options": ["p", "q", "r", "s"]}
# By task and column: what is as good as what benchmark_data writes, and what is not.
OTHERS: dict[tuple[str, str], tuple[list[Any], list[Any]]] = {
    ("social_iqa", "label"): (["1", 3], ["0", "4", 0, "A", ""]),
    ("hellaswag", "label"): (["0", 3], ["4", -1, "", "a"]),
    ("piqa", "label"): ([0, 1], ["0", -1, 2]),
    ("openbookqa", "answerKey"): (["A", " A"], ["E", "", 0, "1"]),
    ("openbookqa", "choices"): (
        [{"text": ["x"] * 5, "label": list("ABCDE")}],
        [["x", "y"], {"text": ["x", "y"]}, {**LISTED, "text": "xy"}],
    ),
    ("lambada_standard", "text"): (["a b"], [None]),
    ("sciq", "support"): (["", 'a "b" \\'], [None]),
    ("arc_easy", "answerKey"): (["1"], [" 1", 1, "A"]),
    ("copa", "question"): (["cause", "effect"], ["Cause", "because", 0]),
    ("copa", "label"): ([0, 1], ["0", "1", -1, 2, True, None]),
    ("copa", "choice1"): (["x"], [""]),
    ("race", "problems"): (
        [str([PROBLEM])],
        [
            [PROBLEM],
            "[]",
            "__import__('os').getcwd()",
            "[" * 10_000,
            str([{**PROBLEM, "answer": "E"}]),
            str([{**PROBLEM, "options": ["p", "q", "r"]}]),
            str([{**PROBLEM, "answer": "E"}, PROBLEM]),
        ],
    ),
    ("logiqa", "label"): (["a", "d ", "c"], ["A", "e", 0, "", "ab"]),
    ("logiqa", "options"): ([["a"] * 4], ["abcd", ["a"]]),
    ("qqp", "label"): ([0, 1], [-1, "1", 2]),
    ("winogrande", "answer"): (["1", "2"], ["", "0", "3", 1]),
    ("winogrande", "sentence"): (["a _ b"], ["a b"]),
    ("multirc", "label"): ([0, 1], [-1, "0"]),
}


def load(
    names: Sequence[str],
    num_fewshot: Sequence[int] | None = None,
    *,
    include: Path | None = None,
    data: Path | None = None,
) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Loads tasks as `bydore evaluate` is told to."""
    config = EvaluationConfig(
        tasks=list(names),
        num_fewshot=None if num_fewshot is None else list(num_fewshot),
        include_path=None if include is None else str(include),
        data_dir=None if data is None else str(data),
    )
    with guarded(hub=False):
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
    assert list(ready) == list(PILE13)
    for label, (task, about) in ready.items():
        assert task.task_name == PILE13[label]
        assert about["num_fewshot"] == list(NUM_FEWSHOT)
        assert f"{tmp_path}/{task.task_name}/{SCHEMAS[task.task_name].questions}" in about["data"]
        assert len(task.eval_docs) == 10
        # RACE takes its examples from the questions.
        assert len(list(task.fewshot_docs())) == (10 if label == "RACE" else 6)


@pytest.mark.usefixtures("no_network")
def test_missing_data_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"found social_iqa .ConnectionError: Couldn't reach 'ligh"):
        load(["pile13"])
    write_benchmark(tmp_path, "piqa", examples=False)
    names = ["PIQA", "piqa", "sciq"]
    with pytest.raises(DataError, match=r"found piqa \(missing: 'train'\): put TASK/SPLIT\.jsonl"):
        load(names, data=tmp_path)
    with pytest.raises(DataError, match=r"found sciq \(ConnectionError.*reach 'allenai/sciq' on"):
        load(names, [0], data=tmp_path)
    write_benchmark(tmp_path, "sciq")
    ready = load(names, [0], data=tmp_path)
    assert [(label, about["num_fewshot"]) for label, (_, about) in ready.items()] == [
        ("PIQA", [0]),
        ("SciQ", [0]),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\n", "corresponds to no data"),
        ("goal,sol1\n", "JSON parse error: Invalid value. in row 0"),
        ('{"goal": "x"}\n\n["goal"]\n', "in row 1"),
        ("3\n", "in row 0"),
        ("[" * 100_000, "depth limit"),
        ("\xff\xfe", "JSON parse error"),
        ('{"more": 1}\n{"more": ["a"]}\n', "a column of dates or of several types"),
        ('{"more": ["2020-01-01"]}\n', "a column of dates or of several types"),
    ],
)
def test_files_that_are_no_data(tmp_path: Path, text: str, message: str) -> None:
    """What datasets reads as more than text is refused: its text would not be the file's."""
    (tmp_path / "piqa").mkdir()
    path = tmp_path / "piqa" / "validation.jsonl"
    row = {"goal": "x", "sol1": "a", "sol2": "b", "label": 1}
    text = text.replace('{"more"', json.dumps(row)[:-1] + ', "more"')
    path.write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match=f"found piqa .*{message}"):
        load(["piqa"], [0], data=tmp_path)
    path.rename(path.with_suffix(".parquet"))
    with pytest.raises(DataError, match=r"found piqa \(ArrowInvalid: Parquet"):
        load(["piqa"], [0], data=tmp_path)


def test_wrong_values_of_the_examples_are_refused_too(tmp_path: Path) -> None:
    """Where there are examples; by line, or by what lm-eval makes of them."""
    questions = write_benchmark(tmp_path, "copa")
    questions[6].row["label"] = -1
    path = write_split(tmp_path, "copa", "train", questions[5:7])
    load(["copa"], [0], data=tmp_path)
    with pytest.raises(DataError, match=rf"{path}.*, found example 2: .*label is -1$"):
        load(["copa"], [0, 1], data=tmp_path)
    questions = write_benchmark(tmp_path, "arc_easy")
    questions[6].row["answerKey"] = "E"
    write_split(tmp_path, "arc_easy", "train", questions[5:7])
    with pytest.raises(DataError, match=r"train\.jsonl.*, found example 2: ValueError: 'E' is"):
        load(["arc_easy"], [1], data=tmp_path)


def test_wrong_values_of_a_hub_s_data_are_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [question.row for question in questions_of("copa")]
    rows[3]["label"] = -1
    rows_ = datasets.Dataset.from_list(rows)
    found = datasets.DatasetDict(validation=rows_, train=rows_)
    monkeypatch.setattr(datasets, "load_dataset", lambda **_: found)
    message = r"of copa .* in aps/super_glue, found question 4: ValueError: the label is -1$"
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
    message = rf"of own that .*{data}.*, found question 3: .*answer '?{label}'? is none of the 2"
    with pytest.raises(DataError, match=message):
        load(["own"], include=tmp_path)


def test_the_first_answer_too_is_looked_for_among_the_choices(tmp_path: Path) -> None:
    """lm-eval looks it up when it loads the task, and raises an IndexError."""
    data = write_task(tmp_path, "own")
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    rows[0]["label"] = 7
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match=r"own that lm-eval can ask, found none, or an .*first"):
        load(["own"], include=tmp_path)


def test_examples_are_counted_before_anything_is_scored(tmp_path: Path) -> None:
    """PIQA's six: one more is drawn than asked for, as the question itself could be among them."""
    write_benchmark(tmp_path, "piqa", count=4)
    load(["piqa"], [5], data=tmp_path)
    with pytest.raises(DataError, match=r"found piqa \(ValueError: Sample larger than population"):
        load(["piqa"], [0, 6], data=tmp_path)


def test_questions_that_cannot_be_asked_are_named(tmp_path: Path) -> None:
    """MultiRC's template breaks on an answer with three quotes: the 13 are asked beforehand too."""
    questions = write_benchmark(tmp_path, "multirc")
    questions[4].row["answer"] = "'''"
    write_split(tmp_path, "multirc", "validation", questions)
    with pytest.raises(
        DataError, match=r"of multirc .*validation\.jsonl.*, found question 5: Synt"
    ):
        load(["multirc"], [0], data=tmp_path)


def test_the_hash_is_that_of_the_rows(tmp_path: Path) -> None:
    """Whatever kind of file they are in, and of those splits alone that are read."""
    import pandas

    write_benchmark(tmp_path / "a", "piqa")
    rows = [question.row for question in questions_of("piqa")]
    (tmp_path / "b" / "piqa").mkdir(parents=True)
    pandas.DataFrame(rows).to_parquet(tmp_path / "b" / "piqa" / "validation.parquet")
    hashes = [
        load(["piqa"], numbers, data=tmp_path / name)["PIQA"][1]["data_sha256"]
        for name, numbers in (("a", [0]), ("b", [0]), ("a", [1]))
    ]
    assert hashes[0] == hashes[1] != hashes[2]
    rows[0]["goal"] += "."
    pandas.DataFrame(rows).to_parquet(tmp_path / "b" / "piqa" / "validation.parquet")
    again = load(["piqa"], [0], data=tmp_path / "b")["PIQA"][1]["data_sha256"]
    assert again not in hashes


def test_task_files_of_the_user(tmp_path: Path) -> None:
    folder = tmp_path / "tasks"
    write_task(folder, "one")
    write_task(folder, "two", extra="num_fewshot: 0\n")
    write_task(folder, "three", extra="num_fewshot: 2\n")
    names = ["one", "two", "three"]
    own = {label: about["num_fewshot"] for label, (_, about) in load(names, include=folder).items()}
    assert own == {"one": [0], "two": [0], "three": [2]}
    # lm-eval gives no examples to a task that says 0.
    given = load(names, [1, 2, 1], include=folder)
    assert [about["num_fewshot"] for _, about in given.values()] == [[1, 2], [0], [1, 2]]
    assert str(folder / "one.jsonl") in given["one"][1]["data"]


def test_tags_groups_and_all_of_lm_eval_s_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not among the 13 is looked for in all of lm-eval's files, which takes a minute."""
    read, manager = [], lm_eval.tasks.TaskManager

    def few(include_path: list[Path], *, include_defaults: bool = True) -> Any:
        read.append(include_defaults)
        return manager(include_defaults=False, include_path=include_path)

    monkeypatch.setattr(lm_eval.tasks, "TaskManager", few)
    write_task(tmp_path, "own_one")
    write_task(tmp_path, "own_two")
    (tmp_path / "group.yaml").write_text("group: own_group\ntask: [own_one]\n")
    assert [*load(["own_one"], include=tmp_path)] == ["own_one"]
    assert read == [False]
    assert [*load(["own_group", "mine", "own_one"], include=tmp_path)] == ["own_one", "own_two"]
    assert read == [False, False, True]
    with pytest.raises(DataError, match=r"found helaswag \(missing: .*is not a registered task"):
        load(["helaswag", "own_one"], include=tmp_path)


def test_a_benchmark_is_lm_eval_s_own(tmp_path: Path) -> None:
    write_task(tmp_path / "tasks", "piqa")
    write_benchmark(tmp_path, "piqa")
    ready = load(["piqa"], [0], include=tmp_path / "tasks", data=tmp_path)
    assert ready["PIQA"][0].config.doc_to_text == "Question: {{goal}}\nAnswer:"


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


def test_benchmarks_are_the_paper_s() -> None:
    assert {*PILE13} == {*benchmark_scores(1)["Human"]}
    assert list(PILE13)[:3] == ["Social IQA", "HellaSwag", "PIQA"]
    assert {*BY_TASK} == {*SCHEMAS} == {task for task, _ in OTHERS}


def test_metric_is_normalised_accuracy_where_lm_eval_has_it() -> None:
    root = Path(lm_eval.tasks.__file__).parent
    manager = lm_eval.tasks.TaskManager(
        include_defaults=False, include_path=[root / FOLDERS.get(t, t) for t in BY_TASK]
    )
    normalised = set()
    for name, task in PILE13.items():
        definition = manager.task_index[task].cfg or {}
        metrics = {entry["metric"] for entry in definition["metric_list"]}
        assert metrics & {"acc", "acc_norm"}
        if "acc_norm" in metrics:
            normalised.add(name)
    assert normalised == {"HellaSwag", "PIQA", "OpenBookQA", "SciQ", "ARC-Easy", "LogiQA"}


@pytest.mark.parametrize(
    ("name", "questions"), [("COPA", 100), ("OpenBookQA", 500), ("LogiQA", 651)]
)
def test_the_paper_s_scores_are_means_over_six_runs(name: str, questions: int) -> None:
    """Where questions are few, two decimals tell how many runs a mean is over."""
    scores = [of[name] for case in (1, 2) for of in benchmark_scores(case).values()]

    def explained(runs: int) -> int:
        answers = questions * runs
        nearest = [100 * round(score / 100 * answers) / answers for score in scores]
        return sum(abs(a - b) < 0.00501 for a, b in zip(nearest, scores, strict=True))

    assert explained(6) == len(scores) == 13
    assert max(explained(runs) for runs in (1, 2, 4, 5)) <= 5


@pytest.mark.parametrize("task", SCHEMAS)
def test_no_column_is_null(task: str, tmp_path: Path) -> None:
    questions = questions_of(task, 2)
    for column in questions[0].row:
        changed = {**questions[1].row, column: None}
        (tmp_path / task).mkdir(exist_ok=True)
        path = tmp_path / task / f"{SCHEMAS[task].questions}.jsonl"
        path.write_text(f"{json.dumps(questions[0].row)}\n{json.dumps(changed)}\n")
        named = rf"question 2: ValueError: a null|found {task} \("
        with pytest.raises(DataError, match=named):
            load([task], [0], data=tmp_path)


@pytest.mark.parametrize(("task", "column"), OTHERS)
def test_wrong_values_are_refused_before_anything_is_scored(
    task: str, column: str, tmp_path: Path
) -> None:
    """By file and row; COPA's "0" and "1", the -1 of the hub's test split and a null scored."""
    questions = questions_of(task, 3)
    for value in OTHERS[task, column][0]:
        questions[1].row[column] = value
        write_split(tmp_path, task, SCHEMAS[task].questions, questions[1:2])
        load([task], [0], data=tmp_path)
    for value in OTHERS[task, column][1]:
        questions[1].row[column] = value
        path = write_split(tmp_path, task, SCHEMAS[task].questions, questions)
        with pytest.raises(DataError) as error:
            load([task], [0], data=tmp_path)
        by_question = f"{path}.*, found question 2: "
        assert re.search(f"{by_question}|found {task} \\(", str(error.value)), value
        assert len(str(error.value)) < 700


def test_the_page_on_formats_tells_every_column(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    for name, task in PILE13.items():
        schema = SCHEMAS[task]
        splits = " ".join(f"`{s}`" for s in dict.fromkeys((schema.questions, schema.examples)))
        (columns,) = re.findall(rf"^\| {name} \| `{task}` \| {splits} \| (.*) \|$", page, re.M)
        (example,) = re.findall(rf"^{task}/{schema.questions}\.jsonl: (.*)$", page, re.MULTILINE)
        assert all(f"`{column}`" in columns for column in json.loads(example))
        (tmp_path / task).mkdir()
        (tmp_path / task / f"{schema.questions}.jsonl").write_text(example)
    load(["pile13"], [0], data=tmp_path)


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"num_fewshot": [-1]}, {"cases": [3]}])
def test_options_are_checked(wrong: dict) -> None:
    with pytest.raises(ValueError, match=f"Expected {next(iter(wrong))} "):
        EvaluationConfig(**wrong)
