"""Data from folders, by the splits that lm-eval reads, or a word about what is missing."""

from __future__ import annotations

import re
from pathlib import Path

import lm_eval.tasks
import pandas
import pytest
from benchmark_data import SCHEMAS, questions_of, write_benchmark, write_split

from bydore_pyro.evaluation.benchmarks import PILE13
from bydore_pyro.evaluation.local_data import local_data, missing_data, needed_splits
from bydore_pyro.utils.errors import DataError

ROOT = Path(lm_eval.tasks.__file__).parent


@pytest.fixture(scope="module")
def definitions() -> dict[str, dict]:
    """lm-eval's definitions of the 13."""
    folders = [ROOT / benchmark.folder for benchmark in PILE13.values()]
    manager = lm_eval.tasks.TaskManager(include_defaults=False, include_path=folders)
    return {b.task: manager.task_index[b.task].cfg or {} for b in PILE13.values()}


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
        folder, split = tmp_path / task, schema.questions
        questions = write_benchmark(tmp_path, task, count=3)
        found = local_data(task, definitions[task], [split], folder)
        assert found["custom_dataset"](version=1)[split].to_list() == [q.row for q in questions]
        # No other split is opened.
        config = {**definitions[task], **found}
        assert {config[k] for k in config if k.endswith("_split") and config[k]} == {split}
        with pytest.raises(FileNotFoundError, match="lacks dev"):
            local_data(task, definitions[task], [split, "dev"], folder)


def test_parquet_in_numbered_parts(tmp_path: Path, definitions: dict) -> None:
    """As the hub stores it, in a folder whose name looks like a pattern."""
    folder = tmp_path / "[a]" / "piqa"
    folder.mkdir(parents=True)
    frame = pandas.DataFrame([question.row for question in questions_of("piqa")])
    for part in range(2):
        frame.to_parquet(folder / f"validation-0000{part}-of-00002.parquet")
    found = local_data("piqa", definitions["piqa"], ["validation"], folder)
    assert found["custom_dataset"]()["validation"].to_list() == 2 * frame.to_dict("records")
    wrong = folder / "validation-00001-of-00002.parquet"
    frame.assign(label=[0] * 6 + [-1] + [1] * 3).to_parquet(wrong)
    message = rf"label = 0 or 1 in {re.escape(str(wrong))}, row 7, found -1$"
    with pytest.raises(DataError, match=message):
        local_data("piqa", definitions["piqa"], ["validation"], folder)
    wrong.write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"parquet in .*, found none"):
        local_data("piqa", definitions["piqa"], ["validation"], folder)
    write_split(tmp_path / "[a]", "piqa", "validation", questions_of("piqa"))
    with pytest.raises(DataError, match=r"as \.jsonl or as \.parquet in .*piqa, found both"):
        local_data("piqa", definitions["piqa"], ["validation"], folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n\n", "questions in .*, found none"),
        ("goal,sol1\n", r"JSON object in .*piqa/validation\.jsonl, line 1, found none: Expecting"),
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
    with pytest.raises(DataError, match=r"a single task .* found the group mmlu"):
        local_data("mmlu", {"group": "mmlu"}, [], path.parent)


def test_rows_need_not_have_the_same_columns(tmp_path: Path) -> None:
    """Of tasks other than the paper's: what is missing is null, as the package datasets has it."""
    (tmp_path / "test.jsonl").write_text('{"a": 1}\n\n{"b": "x"}\n')
    found = local_data("own", {"test_split": "test"}, ["test"], tmp_path)
    rows = [{"a": 1, "b": None}, {"a": None, "b": "x"}]
    assert found["custom_dataset"]()["test"].to_list() == rows


def test_missing_data_is_named_with_its_place(tmp_path: Path, definitions: dict) -> None:
    nowhere = tmp_path / "nowhere"
    assert missing_data("openbookqa", definitions["openbookqa"], ["test", "train"], nowhere) == (
        "openbookqa/test.jsonl and openbookqa/train.jsonl with the columns question_stem, choices, "
        "answerKey (on the hub: allenai/openbookqa main)"
    )
    assert missing_data("mmlu", {"group": "mmlu"}, [], nowhere) == "mmlu"
    found = missing_data("own", {}, ["test"], tmp_path)
    assert found == f"own/test.jsonl ({tmp_path} holds nothing)"
    (tmp_path / "own").mkdir()
    for name in ("test.json", "train.jsonl", "a", "b", "c", "d"):
        (tmp_path / "own" / name).touch()
    found = missing_data("own", {}, ["test"], tmp_path)
    assert found == f"own/test.jsonl ({tmp_path / 'own'} holds a, b, c, d, test.json and more)"
