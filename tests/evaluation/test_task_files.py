"""Task files that would run code are refused without running it; templates cannot reach Python."""

from __future__ import annotations

import configparser
import pickle
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from bydore_pyro.evaluation.config import EvaluationConfig
from bydore_pyro.evaluation.task_files import READERS, refuse_code
from bydore_pyro.evaluation.tasks import load_tasks
from bydore_pyro.utils.errors import DataError

PLAIN = """
task: plain
dataset_path: json
dataset_kwargs: {data_files: {test: questions.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{question}}"
doc_to_choice: "{{choices}}"
doc_to_target: label
metric_list:
  - metric: acc
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("task: bad\nprocess_docs: !function utils.process\n", "the tag '!function' in"),
        ("task: bad\nclass: !function utils.Task\n", "the tag '!function' in"),
        (
            "group: g\ntask:\n  - task: a\n    doc_to_text: !function u.f\n",
            "the tag '!function' in",
        ),
        ("task: bad\nx: !!python/object/apply:os.getcwd []\n", "python/object/apply:os.getcwd' in"),
        ("task: bad\nx: !!python/name:os.system\n", "python/name:os.system"),
        ("task: &a bad\n? !function u.f\n: 1\n", "the tag '!function' in"),
        ("task: bad\nmetric_list:\n  - metric: ./accuracy.py\n", "'./accuracy.py' in"),
        ("task: bad\nmetric_list:\n  - {metric: acc, hf_evaluate: true}\n", "'acc' in"),
        ("task: bad\nmetric_list: [acc_of_the_hub]\n", "'acc_of_the_hub' in"),
        ("task: bad\ngeneration_kwargs: {custom_generate: ./x}\n", "custom_generate in"),
        ("task: bad\nclass: somewhere.Task\n", "class in"),
        ("task: bad\nuse_prompt: ./prompts.yaml:one\n", "use_prompt in"),
        ("task: bad\nunsafe_code: true\n", "unsafe_code in"),
        ("%TAG !x! !func\n---\ntask: bad\nprocess_docs: !x!tion u.f\n", "the tag '!function' in"),
    ],
)
def test_code_is_refused(tmp_path: Path, text: str, found: str) -> None:
    write(tmp_path / "good.yaml", PLAIN)
    path = write(tmp_path / "deep" / "bad.yaml", text)
    with pytest.raises(DataError) as error:
        refuse_code(tmp_path)
    assert found in str(error.value)
    assert str(path) in str(error.value)
    assert "--allow_task_code" in str(error.value)


def test_a_reader_that_unpickles_is_refused(tmp_path: Path) -> None:
    """Some versions of the package datasets read `pandas` by unpickling."""

    class Evil:
        def __reduce__(self) -> tuple[Callable, tuple]:
            return open, (str(tmp_path / "ran"), "w")

    (tmp_path / "questions.pkl").write_bytes(pickle.dumps(Evil()))
    given = f"dataset_path: pandas\ndataset_kwargs: {{data_files: {tmp_path / 'questions.pkl'}}}"
    path = write(tmp_path / "bad.yaml", PLAIN.replace("dataset_path: json", given))
    with pytest.raises(
        DataError, match=r"dataset_path to be one of json, csv, .*found 'pandas' in"
    ):
        load_tasks(EvaluationConfig(tasks=["plain"], include_path=str(tmp_path), hub=True))
    assert not (tmp_path / "ran").exists()
    path.write_text(PLAIN)
    floor = configparser.ConfigParser()
    floor.read(Path(__file__).parents[2] / "setup.cfg")
    (needed,) = re.findall(r"^datasets>=(.*)$", floor["options"]["install_requires"], re.MULTILINE)
    # The first in which `pandas` refuses.
    assert [int(part) for part in needed.split(".")] >= [5, 2]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        *((f"dataset_path: {name}", f"'{name}'") for name in ("sql", "webdataset", "cache")),
        *((f"dataset_path: {name}", f"'{name}'") for name in ("./data", "/etc", "../x", "x/y/z")),
        (
            "dataset_kwargs: {data_files: {a: 'https://x.y/z.json'}}",
            "local files in dataset_kwargs",
        ),
        ("dataset_kwargs: {data_files: ['zip://a::b.zip']}", "local files in dataset_kwargs"),
        ("dataset_kwargs: {data_dir: 'hf://datasets/x/y'}", "local files in dataset_kwargs"),
    ],
)
def test_data_from_elsewhere_are_refused(tmp_path: Path, text: str, found: str) -> None:
    path = write(tmp_path / "bad.yaml", f"group: g\ntask:\n  - task: bad\n    {text}\n")
    for hub in (False, True):
        with pytest.raises(DataError) as error:
            refuse_code(tmp_path, hub=hub)
        assert found in str(error.value)
        assert str(path) in str(error.value)


def test_a_hub_s_data_are_for_those_who_ask(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "task: a\ndataset_path: someone/some-data.2\n")
    with pytest.raises(DataError, match=r"local data, found the hub's 'someone/some-data\.2' in"):
        refuse_code(tmp_path)
    refuse_code(tmp_path, hub=True)
    for name in READERS:
        write(tmp_path / "a.yaml", f"task: a\ndataset_path: {name}\n")
        refuse_code(tmp_path)


def test_nothing_is_run_by_looking(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    write(
        tmp_path / "tasks" / "utils.py", f"open({str(marker)!r}, 'w')\ndef process(x): return x\n"
    )
    write(tmp_path / "tasks" / "bad.yaml", "task: bad\nprocess_docs: !function utils.process\n")
    with pytest.raises(DataError, match="without code"):
        refuse_code(tmp_path / "tasks")
    assert not marker.exists()


def test_included_files_are_read_too(tmp_path: Path) -> None:
    """Wherever they lie and whatever they are called; lm-eval's own are trusted."""
    import lm_eval.tasks

    own = Path(lm_eval.tasks.__file__).parent / "hellaswag" / "hellaswag.yaml"
    assert "!function" in own.read_text()
    write(tmp_path / "tasks" / "mine.yaml", f"include: {own}\ntask: mine\n")
    refuse_code(tmp_path / "tasks")
    write(tmp_path / "outside.txt", "doc_to_text: !function utils.text\n")
    write(tmp_path / "between", "include: [outside.txt]\n")
    write(tmp_path / "tasks" / "more.yaml", "include: ../between\ntask: more\n")
    with pytest.raises(DataError, match=r"'!function' in .*outside\.txt"):
        refuse_code(tmp_path / "tasks")


def test_files_that_refer_to_themselves_end(tmp_path: Path) -> None:
    write(tmp_path / "a.yaml", "include: b.yaml\ntask: a\n")
    write(tmp_path / "b.yaml", "include: a.yaml\nlist: &again [1, *again]\n")
    refuse_code(tmp_path)


def test_what_is_no_folder_of_task_files(tmp_path: Path) -> None:
    for folder in (tmp_path / "none", tmp_path):
        with pytest.raises(DataError, match=rf"task files .* found none in {folder}$"):
            refuse_code(folder)
    write(tmp_path / "broken.yaml", "task: [1\n")
    with pytest.raises(DataError, match=r"a YAML file, found .*broken"):
        refuse_code(tmp_path)
    write(tmp_path / "broken.yaml", "include: missing.yaml\ntask: x\n")
    with pytest.raises(DataError, match=r"a YAML file, found .*missing\.yaml"):
        refuse_code(tmp_path)
