"""What surrounds lm-eval: no network, no code of task files, no noise."""

from __future__ import annotations

import configparser
import logging
import pickle
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import datasets
import huggingface_hub.constants
import lm_eval.tasks
import pytest
from benchmark_data import write_task

from bydore_pyro.evaluation.guard import guarded, quiet
from bydore_pyro.evaluation.tasks import EvaluationConfig, load_tasks
from bydore_pyro.utils.errors import DataError


@pytest.fixture(autouse=True)
def _few_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all of lm-eval's files are read, which takes seconds."""
    few = partial(lm_eval.tasks.TaskManager, include_defaults=False)
    monkeypatch.setattr(
        lm_eval.tasks, "TaskManager", lambda include_path, **_: few(None, include_path)
    )


def load(folder: Path, name: str = "bad") -> None:
    """Loads a task file of the user, whose code may not run."""
    with guarded(hub=False):
        load_tasks(EvaluationConfig(tasks=[name], include_path=str(folder)))


def test_the_network_is_asked_only_where_the_user_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = (datasets.config, huggingface_hub.constants)
    for module in modules:
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", False)
    for hub in (False, True):
        with guarded(hub=hub):
            assert {module.HF_HUB_OFFLINE for module in modules} == {not hub}
            assert not datasets.config.HF_UPDATE_DOWNLOAD_COUNTS  # a request that nobody asked for
    assert {module.HF_HUB_OFFLINE for module in modules} == {False}


def test_quiet_shows_one_warning(capfd: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("lm_eval")
    before = logger.propagate, list(logger.handlers)
    with quiet():
        for length in (9, 10):
            logging.getLogger("lm_eval.models.huggingface").warning(
                f"Combined length of context ({length}) exceeds model's maximum length (8)."
            )
        logging.getLogger("lm_eval.api.task").warning("something else")
        print("a progress bar", file=sys.stderr)
    assert (logger.propagate, list(logger.handlers)) == before
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == "Combined length of context (9) exceeds model's maximum length (8).\n"


def test_templates_cannot_reach_python() -> None:
    from jinja2.exceptions import SecurityError, UndefinedError
    from lm_eval.utils import apply_template

    escape = "{{ question.__class__.__mro__[1].__subclasses__() | length }}"
    assert int(apply_template(escape, {"question": "x"})) > 100  # what lm-eval alone allows
    with guarded(hub=False):
        with pytest.raises(SecurityError):
            apply_template(escape, {"question": "x"})
        with pytest.raises(SecurityError):
            apply_template("{{ cycler.__init__.__globals__.os }}", {})
        with pytest.raises(UndefinedError):
            apply_template("{{ nothing }}", {})
        assert apply_template("{{ a.split(' ')[:-1] | join('-') }}\n", {"a": "b c d"}) == "b-c\n"
        assert apply_template("{{ a | regex_replace('b', 'x') }}", {"a": "abb"}) == "axx"
    assert int(apply_template(escape, {"question": "x"})) > 100


@pytest.mark.parametrize(
    ("extra", "found"),
    [
        ("process_docs: !function utils.process\n", "code, found !function utils.process in"),
        ("class: !function utils.Task\n", "code, found !function utils.Task in"),
        ("x: [&a {b: !function os.getcwd}]\n", "code, found !function os.getcwd in"),
        ("class: utils.Task\n", "can load, found bad (TypeError: 'str' object is not callable"),
        ("x: !!python/object/apply:os.getcwd []\n", "can load, found bad (missing"),
        ("x: !!python/name:os.system\n", "can load, found bad (missing"),
        ("metric_list:\n  - metric: ./accuracy.py\n", "the metric './accuracy.py'"),
        ("metric_list:\n  - {metric: acc, hf_evaluate: true}\n", "the metric 'acc'"),
        ("use_prompt: ./prompts.yaml:one\n", ", found use_prompt in bad"),
        ("generation_kwargs: {custom_generate: ./x}\n", ", found custom_generate in bad"),
        ("include: ../outside\n", "code, found !function utils.process in"),
    ],
)
def test_code_is_refused(tmp_path: Path, extra: str, found: str) -> None:
    """Wherever it stands: in a file, in one that it includes, in a group's member."""
    folder, marker = tmp_path / "tasks", tmp_path / "ran"
    write_task(folder, "bad")
    text = (folder / "bad.yaml").read_text()
    if "metric_list" in extra:
        text = text.replace("metric_list:\n  - metric: acc\n", "")
    (folder / "bad.yaml").write_text(text + extra)
    (tmp_path / "outside").write_text("process_docs: !function utils.process\n")
    (folder / "group.yaml").write_text("group: all\ntask:\n  - bad\n")
    code = f"open({str(marker)!r}, 'w').close()\nprocess = Task = None\n"
    for place in (folder, tmp_path):
        (place / "utils.py").write_text(code)
    for name in ("bad", "all"):
        with pytest.raises(DataError) as error:
            load(folder, name)
        assert found in str(error.value) or name == "all"
    assert not marker.exists()


def test_lm_eval_s_own_code_is_trusted(tmp_path: Path) -> None:
    own = Path(lm_eval.tasks.__file__).parent / "super_glue" / "copa" / "default.yaml"
    assert "!function" in own.read_text()
    splits = "training_split: null\nvalidation_split: null\n"
    write_task(tmp_path, "mine", extra=f"include: {own}\n{splits}")
    load(tmp_path, "mine")


def test_a_reader_that_unpickles_is_refused(tmp_path: Path) -> None:
    """Some versions of the package datasets read `pandas` by unpickling."""

    class Evil:
        def __reduce__(self) -> tuple[Callable, tuple]:
            return open, (str(tmp_path / "ran"), "w")

    write_task(tmp_path, "bad")
    path = tmp_path / "bad.yaml"
    (tmp_path / "bad.jsonl").write_bytes(pickle.dumps(Evil()))
    path.write_text(path.read_text().replace("dataset_path: json", "dataset_path: pandas"))
    with pytest.raises(DataError, match=r"local data .json, csv, .*the dataset_path 'pandas'"):
        load(tmp_path)
    assert not (tmp_path / "ran").exists()
    floor = configparser.ConfigParser()
    floor.read(Path(__file__).parents[2] / "setup.cfg")
    (needed,) = re.findall(r"^datasets>=(.*)$", floor["options"]["install_requires"], re.MULTILINE)
    # The first in which `pandas` refuses.
    assert [int(part) for part in needed.split(".")] >= [5, 2]


@pytest.mark.parametrize(
    "data",
    [
        *("sql", "webdataset", "cache", "./data", "/etc", "../x", "x/y/z"),
        "json\ndataset_kwargs: {data_files: {a: 'https://x.y/z.json'}}",
        "json\ndataset_kwargs: {data_files: ['zip://a::b.zip']}",
        "json\ndataset_kwargs: {data_dir: 'hf://datasets/x/y'}",
    ],
)
def test_data_from_elsewhere_are_refused(tmp_path: Path, data: str) -> None:
    task = f"task: bad\noutput_type: multiple_choice\ntest_split: a\ndataset_path: {data}\n"
    (tmp_path / "bad.yaml").write_text(task)
    with pytest.raises(DataError, match=r"local data .json, csv.*, found the dataset_path"):
        load(tmp_path)
