"""Tasks by name and from folders, with their data or a word about where it is missing."""

from __future__ import annotations

from pathlib import Path

import datasets
import huggingface_hub.constants
import pytest
from benchmark_data import SCHEMAS, questions_of, write_benchmark, write_split, write_task

from bydore_pyro.errors import DataError
from bydore_pyro.evaluation_data import PILE13
from bydore_pyro.evaluation_tasks import EvaluationTask, load_tasks


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
    assert "copa" not in str(error.value)
    with pytest.raises(DataError, match=r"found none for 1 .*: sciq/test\.jsonl with"):
        load_tasks(names, [0], None, data)
    write_benchmark(data, "sciq")
    assert len(load_tasks(names, [0], None, data)) == 3


def test_an_unreachable_hub_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def unreachable(*_: object, **__: object) -> None:
        tried.append(datasets.config.HF_HUB_OFFLINE)
        raise ConnectionError("Couldn't reach it")

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(DataError, match="found none for 3"):
        load_tasks(["piqa", "copa", "sciq"], None, None, None)
    assert tried == [False, True, True]
    assert datasets.config.HF_HUB_OFFLINE is False


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
    with pytest.raises(DataError, match="can load, found own: FileNotFoundError"):
        load_tasks(["own"], None, folder, None)
    with pytest.raises(DataError, match="a folder of data, found"):
        load_tasks(["piqa"], None, None, tmp_path / "none")
    # A line in the middle that is no JSON.
    path = write_split(tmp_path / "data", "piqa", "validation", questions_of("piqa"))
    path.write_text(path.read_text() + "{nothing\n")
    with pytest.raises(DataError, match="can load, found piqa: "):
        load_tasks(["piqa"], [0], None, tmp_path / "data")
