"""The 13 benchmarks as lm-eval defines them, and data from folders."""

from __future__ import annotations

import os
import re
from pathlib import Path

import lm_eval.tasks
import pandas
import pytest
from benchmark_data import SCHEMAS, questions_of, write_benchmark, write_split

from bydore_pyro.evaluation.data import (
    PILE13,
    Benchmark,
    local_data,
    missing_data,
    needed_splits,
    wanted_files,
)
from bydore_pyro.mixture.published import benchmark_scores
from bydore_pyro.utils.errors import DataError

ROOT = Path(lm_eval.tasks.__file__).parent


@pytest.fixture(scope="module")
def definitions() -> dict[str, dict]:
    """lm-eval's definitions of the 13."""
    folders = [ROOT / benchmark.folder for benchmark in PILE13.values()]
    manager = lm_eval.tasks.TaskManager(include_defaults=False, include_path=folders)
    return {b.task: manager.task_index[b.task].cfg or {} for b in PILE13.values()}


def test_benchmarks_are_the_paper_s() -> None:
    assert {*PILE13} == {*benchmark_scores(1)["Human"]}
    assert list(PILE13)[:3] == ["Social IQA", "HellaSwag", "PIQA"]
    assert all(isinstance(benchmark, Benchmark) for benchmark in PILE13.values())
    assert all(b.num_fewshot == (0, 1, 2, 3, 4, 5) for b in PILE13.values())
    assert {b.task for b in PILE13.values()} == {*SCHEMAS}


def test_metric_is_normalised_accuracy_where_lm_eval_has_it(definitions: dict) -> None:
    normalised = set()
    for name, benchmark in PILE13.items():
        metrics = {entry["metric"] for entry in definitions[benchmark.task]["metric_list"]}
        assert benchmark.metric == ("acc_norm" if "acc_norm" in metrics else "acc")
        assert benchmark.metric in metrics
        if benchmark.metric == "acc_norm":
            normalised.add(name)
    assert normalised == {"HellaSwag", "PIQA", "OpenBookQA", "SciQ", "ARC-Easy", "LogiQA"}


@pytest.mark.parametrize(
    ("name", "questions"), [("COPA", 100), ("OpenBookQA", 500), ("LogiQA", 651)]
)
def test_the_paper_s_scores_are_means_over_six_runs(name: str, questions: int) -> None:
    """Where questions are few, two decimals tell how many runs a mean is over."""
    assert PILE13[name].questions == questions
    scores = [of[name] for case in (1, 2) for of in benchmark_scores(case).values()]

    def explained(runs: int) -> int:
        answers = questions * runs
        nearest = [100 * round(score / 100 * answers) / answers for score in scores]
        return sum(abs(a - b) < 0.00501 for a, b in zip(nearest, scores, strict=True))

    assert explained(6) == len(scores) == 13
    assert max(explained(runs) for runs in (1, 2, 4, 5)) <= 5


def test_splits_are_those_that_lm_eval_reads(definitions: dict) -> None:
    for task, schema in SCHEMAS.items():
        assert needed_splits(definitions[task], [0]) == [schema.questions]
        both = list(dict.fromkeys([schema.questions, schema.examples]))
        assert needed_splits(definitions[task], [0, 3]) == both
    assert needed_splits({"group": "g", "task": ["a"]}, [0]) == []
    own = {"validation_split": "dev", "fewshot_split": "shots", "training_split": "train"}
    assert needed_splits(own, [1]) == ["dev", "shots"]


def test_local_data_replaces_the_hub_s(tmp_path: Path, definitions: dict) -> None:
    for task, schema in SCHEMAS.items():
        folder = tmp_path / task
        questions = write_benchmark(tmp_path, task, count=3)
        split = schema.questions
        found = local_data(task, definitions[task], [split], folder)
        assert found is not None
        assert found["dataset_kwargs"] is None
        assert found["custom_dataset"](version=1)[split].to_list() == [q.row for q in questions]
        # No other split is opened.
        config = {**definitions[task], **found}
        assert {config[k] for k in config if k.endswith("_split") and config[k]} == {split}
        assert local_data(task, definitions[task], [split, "dev"], folder) is None


def test_parquet_in_numbered_parts(tmp_path: Path, definitions: dict) -> None:
    """As the hub stores it, in a folder whose name looks like a pattern."""
    folder = tmp_path / "[a]" / "piqa"
    folder.mkdir(parents=True)
    frame = pandas.DataFrame([question.row for question in questions_of("piqa")])
    for part in range(2):
        frame.to_parquet(folder / f"validation-0000{part}-of-00002.parquet")
    found = local_data("piqa", definitions["piqa"], ["validation"], folder)
    assert found is not None
    assert found["custom_dataset"]()["validation"].to_list() == 2 * frame.to_dict("records")
    write_split(tmp_path / "[a]", "piqa", "train", questions_of("piqa"))
    with pytest.raises(DataError, match=r"either \.jsonl or \.parquet files in .*piqa, found both"):
        local_data("piqa", definitions["piqa"], ["validation", "train"], folder)
    wrong = folder / "validation-00001-of-00002.parquet"
    frame.drop(columns="goal").to_parquet(wrong)
    with pytest.raises(DataError, match=r"columns goal, sol1, sol2, label in .*, found sol1, sol2"):
        local_data("piqa", definitions["piqa"], ["validation"], folder)
    frame.assign(label=[0] * 6 + [-1] + [1] * 3).to_parquet(wrong)
    message = rf"label = 0 or 1 in {re.escape(str(wrong))}, row 7, found -1$"
    with pytest.raises(DataError, match=message):
        local_data("piqa", definitions["piqa"], ["validation"], folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "questions in .*, found none"),
        ("\n\n", "questions in .*, found none"),
        ("goal,sol1\n", r"JSON object in .*piqa/validation\.jsonl, line 1, found none: Expecting"),
        ("3\n", "JSON object in .*, line 1, found 3$"),
        ('\n[{"goal": "x"}]\n', "JSON object in .*, line 2, found a list$"),
        ("[" * 100_000, "JSON object in .*, line 1, found none"),
        ("\xff\xfe", "JSON object in .*, line 1, found none"),
        (
            '{"goal": "x", "sol1": "y"}\n',
            "columns goal, sol1, sol2, label in .*, line 1, found goal, sol1$",
        ),
        (
            '{"goal": "x", "sol1": "y", "sol2": "z", "label": 0, "more": 1}\n'
            '{"goal": "x", "sol1": "y", "sol2": "z", "label": 0, "more": ["a"]}\n',
            "values of one type in each column of .*, found others",
        ),
    ],
)
def test_files_that_are_no_data(tmp_path: Path, definitions: dict, text: str, message: str) -> None:
    path = write_split(tmp_path, "piqa", "validation", [])
    path.write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match=message):
        local_data("piqa", definitions["piqa"], ["validation"], path.parent)
    if not text:
        (path.parent / "train.parquet").write_bytes(b"PAR1")
        with pytest.raises(DataError, match=r"parquet in .*, found none"):
            local_data("piqa", definitions["piqa"], ["train"], path.parent)
        with pytest.raises(DataError, match=r"a single task .* found a group, mmlu"):
            local_data("mmlu", {"group": "mmlu"}, [], path.parent)


def test_rows_need_not_have_the_same_columns(tmp_path: Path) -> None:
    """Of tasks other than the paper's: what is missing is null, as the package datasets has it."""
    (tmp_path / "test.jsonl").write_text('{"a": 1}\n\n{"b": "x"}\n')
    found = local_data("own", {"test_split": "test"}, ["test"], tmp_path)
    assert found is not None
    assert found["custom_dataset"]()["test"].to_list() == [
        {"a": 1, "b": None},
        {"a": None, "b": "x"},
    ]


def test_missing_data_is_named_with_its_place(tmp_path: Path, definitions: dict) -> None:
    files = wanted_files("openbookqa", definitions["openbookqa"], ["test", "train"])
    assert files == (
        "openbookqa/test.jsonl and openbookqa/train.jsonl with the columns question_stem, choices, "
        "answerKey (on the hub: allenai/openbookqa main)"
    )
    assert wanted_files("mmlu", {"group": "mmlu"}, []) == "mmlu"
    assert wanted_files("own", {}, ["test"]) == "own/test.jsonl"
    found = wanted_files("own", {}, ["test"], tmp_path)
    assert found == f"own/test.jsonl (no folder own; {tmp_path} holds nothing)"
    (tmp_path / "own").mkdir()
    for name in ("test.json", "train.jsonl", "a", "b", "c", "d"):
        (tmp_path / "own" / name).touch()
    os.mkfifo(tmp_path / "own" / "test.jsonl")  # it would be waited for
    found = wanted_files("own", {}, ["test", "train"], tmp_path)
    held = f"{tmp_path / 'own'} holds a, b, c, d, test.json and more"
    assert found == f"own/test.jsonl and own/train.jsonl (lacks test; {held})"
    text = missing_data([files, "x"], "no network", None)
    assert "found none for 2 (no network)" in text
    assert "give it with --data_dir" in text
    assert files in text
    assert "--num_fewshot 0 needs the first of two alone" in text
    assert "--num_fewshot" not in missing_data(["sciq/test.jsonl"], "no network", None)
    assert "into here, or fetch them by --hub" in missing_data([files], "x", Path("here"))
