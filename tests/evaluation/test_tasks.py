"""Tasks by name and from folders, with their data or a word about where it is missing."""

from __future__ import annotations

import json
from pathlib import Path

import datasets
import huggingface_hub.constants
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

from bydore_pyro.evaluation.data import PILE13
from bydore_pyro.evaluation.scores import quiet, score_task, wrapped
from bydore_pyro.evaluation.tasks import EvaluationTask, load_tasks, network
from bydore_pyro.utils.errors import DataError


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
    ready = load_tasks(["pile13"], None, None, tmp_path)
    assert [task.label for task in ready] == list(PILE13)
    for task in ready:
        assert isinstance(task, EvaluationTask)
        benchmark = PILE13[task.label]
        assert task.task.task_name == benchmark.task
        assert (task.metric, task.num_fewshot) == (benchmark.metric, benchmark.num_fewshot)
        assert task.source is None
        assert task.data == str(tmp_path / benchmark.task)
        assert len(task.task.eval_docs) == 10
        # RACE takes its examples from the questions.
        assert len(list(task.task.fewshot_docs())) == (10 if benchmark.task == "race" else 6)


def test_names_of_the_paper_and_of_lm_eval(tmp_path: Path) -> None:
    write_benchmark(tmp_path, "piqa", examples=False)
    ready = load_tasks(["PIQA", "piqa"], [0], None, tmp_path)
    assert [(task.label, task.num_fewshot) for task in ready] == [("PIQA", (0,))]


def test_parquet_is_read(tmp_path: Path) -> None:
    import pandas

    (tmp_path / "race").mkdir()
    frame = pandas.DataFrame([question.row for question in questions_of("race")])
    frame.to_parquet(tmp_path / "race" / "test-00000-of-00001.parquet")
    (task,) = load_tasks(["race"], [0, 2], None, tmp_path)
    assert len(task.task.eval_docs) == 10


@pytest.mark.usefixtures("no_network")
def test_missing_data_of_all_tasks_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        load_tasks(["pile13"], None, None, None)
    text = str(error.value)
    assert "found none for 13 (ConnectionError: Couldn't reach 'lighteval/siqa'" in text
    for name, benchmark in PILE13.items():
        schema = SCHEMAS[benchmark.task]
        assert f"{benchmark.task}/{schema.questions}.jsonl" in text, name
        assert f"{benchmark.task}/{schema.examples}.jsonl" in text, name
        assert f"with the columns {', '.join(benchmark.columns)}" in text, name


@pytest.mark.usefixtures("no_network")
def test_missing_data_is_only_what_is_missing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_benchmark(data, "piqa", examples=False)
    write_benchmark(data, "copa")
    names = ["piqa", "copa", "sciq"]
    with pytest.raises(DataError) as error:
        load_tasks(names, None, None, data)
    assert f"found none for 2 ({data / 'piqa'} lacks some)" in str(error.value)
    assert f"into {data}, or" in str(error.value)
    assert f"(lacks train; {data / 'piqa'} holds validation.jsonl)" in str(error.value)
    assert f"(no folder sciq; {data} holds copa, piqa)" in str(error.value)
    assert "copa/" not in str(error.value)
    with pytest.raises(DataError, match=r"found none for 1 .*: sciq/test\.jsonl with"):
        load_tasks(names, [0], None, data)
    write_benchmark(data, "sciq")
    assert len(load_tasks(names, [0], None, data)) == 3


def test_an_unreachable_hub_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And not for half a minute, with retries, for every task."""
    tried = []

    class Session:
        def head(self, url: str, timeout: float) -> None:
            tried.append(timeout)
            if len(tried) < 2:
                raise ConnectionError("Couldn't reach it")

    def offline() -> set[bool]:
        return {datasets.config.HF_HUB_OFFLINE, huggingface_hub.constants.HF_HUB_OFFLINE}

    for module in (datasets.config, huggingface_hub.constants):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(huggingface_hub.utils, "get_session", Session)
    with network(allowed=True):
        assert offline() == {True}
    with network(allowed=True):
        assert offline() == {False}
        assert not datasets.config.HF_UPDATE_DOWNLOAD_COUNTS
    assert len(tried) == 2
    assert max(tried) < 5
    with network(allowed=False):
        assert offline() == {True}
    assert offline() == {False}
    assert len(tried) == 2
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)  # the user's own word
    with network(allowed=True):
        assert offline() == {True}
    assert len(tried) == 2


def test_wrong_values_are_refused_before_anything_is_scored(tmp_path: Path) -> None:
    """COPA's "0" and "1", the -1 of the hub's test split and a null scored in silence."""
    for label in ("0", -1, None, 2, 0.0, True):
        questions = write_benchmark(tmp_path, "copa")
        questions[6].row["label"] = label
        path = write_split(tmp_path, "copa", "validation", questions)
        message = rf"label = 0 or 1 in {path}, line 7, found {label!r}$"
        with pytest.raises(DataError, match=message):
            load_tasks(["copa"], [0], None, tmp_path)
    # An example's, too, where there are examples.
    write_benchmark(tmp_path, "copa")
    path = write_split(tmp_path, "copa", "train", [questions[0], questions[6]])
    load_tasks(["copa"], [0], None, tmp_path)
    with pytest.raises(DataError, match=rf"in {path}, line 2, found True$"):
        load_tasks(["copa"], [0, 1], None, tmp_path)


def test_wrong_values_of_a_hub_s_data_are_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [question.row for question in questions_of("copa")]
    rows[3]["label"] = -1
    found = datasets.DatasetDict(validation=datasets.Dataset.from_list(rows), train=[])
    monkeypatch.setattr(datasets, "load_dataset", lambda **_: found)
    message = r"label = 0 or 1 in aps/super_glue copa, validation, row 4, found -1$"
    with pytest.raises(DataError, match=message):
        load_tasks(["copa"], [0], None, None)


@pytest.mark.parametrize("label", [-1, 2, "other"])
def test_answers_that_are_no_choice_are_refused(tmp_path: Path, label: int | str) -> None:
    """In task files of the user as well: lm-eval would count a wrong answer."""
    data = write_task(tmp_path, "own", extra="num_fewshot: 1\n")
    rows = [json.loads(line) for line in data.read_text().splitlines()]
    rows = [{**row, "label": str(row["label"])} for row in rows]
    rows[2]["label"] = str(label)
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    message = (
        rf"of own that .* in {data}, found question 3: the answer '?{label}'? is none of the 2"
    )
    with pytest.raises(DataError, match=message):
        load_tasks(["own"], None, tmp_path, None)


def test_examples_are_counted_before_anything_is_scored(tmp_path: Path) -> None:
    """PIQA's six: one more is drawn than asked for, as the question itself could be among them."""
    write_benchmark(tmp_path, "piqa", count=4)
    (task,) = load_tasks(["piqa"], [5], None, tmp_path)
    with quiet() as log:
        model = wrapped(believing([], lambda place: True), character_tokenizer(), 3)
        assert score_task(model, task, None, 7, log)["questions"] == 4
    message = r"at least 7 rows in .*piqa, train to choose 6 examples of piqa from, found 6"
    with pytest.raises(DataError, match=message):
        load_tasks(["piqa"], [0, 6], None, tmp_path)


def test_questions_that_cannot_be_asked_are_named(tmp_path: Path) -> None:
    """MultiRC's template breaks on an answer with three quotes: the 13 are asked beforehand too."""
    questions = write_benchmark(tmp_path, "multirc")
    questions[4].row["answer"] = "'''"
    write_split(tmp_path, "multirc", "validation", questions)
    with pytest.raises(DataError, match=r"of multirc .*, validation, found question 5: Synt"):
        load_tasks(["multirc"], [0], None, tmp_path)


def test_the_hash_is_that_of_the_rows(tmp_path: Path) -> None:
    """Whatever kind of file they are in, and of those splits alone that are read."""
    import pandas

    write_benchmark(tmp_path / "a", "piqa")
    rows = [question.row for question in questions_of("piqa")]
    (tmp_path / "b" / "piqa").mkdir(parents=True)
    pandas.DataFrame(rows).to_parquet(tmp_path / "b" / "piqa" / "validation.parquet")
    hashes = [
        load_tasks(["piqa"], numbers, None, tmp_path / name)[0].data_sha256
        for name, numbers in (("a", [0]), ("b", [0]), ("a", [1]))
    ]
    assert hashes[0] == hashes[1] != hashes[2]
    rows[0]["goal"] += "."
    pandas.DataFrame(rows).to_parquet(tmp_path / "b" / "piqa" / "validation.parquet")
    assert load_tasks(["piqa"], [0], None, tmp_path / "b")[0].data_sha256 != hashes[0]


def test_task_files_of_the_user(tmp_path: Path) -> None:
    folder = tmp_path / "tasks"
    write_task(folder, "own_one")
    write_task(folder, "own_two", extra="num_fewshot: 0\n")
    write_task(folder, "own_three", extra="num_fewshot: 2\n")
    names = ["own_one", "own_two", "own_three"]
    one, two, three = load_tasks(names, None, folder, None)
    assert (one.label, one.metric, one.data) == ("own_one", None, "json")
    assert one.source == str(folder / "own_one.yaml")
    assert (one.num_fewshot, two.num_fewshot, three.num_fewshot) == ((0,), (0,), (2,))
    # lm-eval gives no examples to a task that says 0.
    given = load_tasks(names, [1, 2, 1], folder, None)
    assert [task.num_fewshot for task in given] == [(1, 2), (0,), (1, 2)]


@pytest.mark.slow
def test_tags_groups_and_all_of_lm_eval_s_own(tmp_path: Path) -> None:
    """What is not among the 13 is found by reading all of lm-eval's files."""
    folder = tmp_path / "tasks"
    write_task(folder, "own_one")
    write_task(folder, "own_two")
    (folder / "group.yaml").write_text("group: own_group\ntask: [own_one]\n")
    names = ["own_group", "mine", "own_one"]
    ready = load_tasks(names, None, folder, None)
    assert [task.label for task in ready] == ["own_one", "own_two"]
    # A path is no name: it would go round the check of --include_path.
    path = str(folder / "own_one.yaml")
    with pytest.raises(DataError) as error:
        load_tasks(["helaswag", "arc_challenge", path], None, None, None)
    assert str(error.value).startswith("Expected tasks of lm-eval or of --include_path, found ")
    assert "'helaswag' (did you mean " in str(error.value)
    assert "hellaswag" in str(error.value)
    assert "arc_challenge" not in str(error.value)
    assert path in str(error.value)


def test_a_task_file_may_replace_a_benchmark_and_is_named(tmp_path: Path) -> None:
    write_task(tmp_path / "tasks", "piqa")
    (task,) = load_tasks(["piqa"], [0], tmp_path / "tasks", None)
    assert task.label == "PIQA"
    assert task.source == str(tmp_path / "tasks" / "piqa.yaml")


def test_code_in_task_files_runs_only_where_allowed(tmp_path: Path) -> None:
    folder, marker = tmp_path / "tasks", tmp_path / "ran"
    write_task(folder, "own", extra="process_docs: !function own_code.process\n")
    (folder / "own_code.py").write_text(
        f"open({str(marker)!r}, 'w').close()\ndef process(docs): return docs.select(range(2))\n"
    )
    with pytest.raises(DataError, match=r"without code, found !function own_code\.process in"):
        load_tasks(["own"], None, folder, None)
    assert not marker.exists()
    (task,) = load_tasks(["own"], None, folder, None, allow_code=True)
    assert marker.exists()
    assert len(task.task.eval_docs) == 2


def test_tasks_that_cannot_be_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "tasks"
    data = write_task(folder, "own", text="{{nothing}}")
    with pytest.raises(DataError, match="can load, found own: UndefinedError: 'nothing'"):
        load_tasks(["own"], None, folder, None)
    data.unlink()
    with pytest.raises(DataError, match=rf"can load, found own: FileNotFoundError.*{data}"):
        load_tasks(["own"], None, folder, None)
    with pytest.raises(DataError, match="a folder of data, found"):
        load_tasks(["piqa"], None, None, tmp_path / "none")
    # A line in the middle that is no JSON.
    path = write_split(tmp_path / "data", "piqa", "validation", questions_of("piqa"))
    path.write_text(path.read_text() + "{nothing\n")
    with pytest.raises(DataError, match=r"JSON object in .*validation\.jsonl, line 11, found none"):
        load_tasks(["piqa"], [0], None, tmp_path / "data")
