"""All 13 benchmarks end to end, with a model whose accuracy is known beforehand."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import torch
from benchmark_data import (
    SCHEMAS,
    KnownAnswers,
    believing,
    character_tokenizer,
    questions_of,
    save_model,
    write_benchmark,
    write_split,
)
from pyarrow import parquet
from safetensors.torch import load_file, save_file

from bydore_pyro.errors import DataError
from bydore_pyro.evaluation.config import PILE13, EvaluationConfig
from bydore_pyro.evaluation.evaluate import average_of, evaluate_model, load_model

COUNT = 10
NAMES = {task: name for task, (name, *_) in PILE13.items()}


def scores_of(model: Any, data: Path | None, *tasks: str, **options: Any) -> dict[str, Any]:
    """Scores a model without examples, if nothing else is said."""
    given = {"num_fewshot": [0], "data_dir": None if data is None else str(data), **options}
    config = EvaluationConfig(tasks=list(tasks), **given)
    return evaluate_model(model, character_tokenizer(), config)


def right_of(task: str) -> int:
    """How many of ten questions the model is right about: not the same in every benchmark."""
    return 2 + list(PILE13).index(task) % 8


@pytest.fixture(scope="module")
def thirteen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, KnownAnswers]:
    """Data of all benchmarks, and a model that knows some of their answers."""
    folder, beliefs = tmp_path_factory.mktemp("data"), KnownAnswers([])
    for task in PILE13:
        questions = write_benchmark(folder, task, COUNT)
        known = believing(questions, lambda place, task=task: place < right_of(task))
        beliefs.beliefs |= known.beliefs
    return folder, beliefs


def test_all_thirteen_with_known_answers(thirteen: tuple[Path, KnownAnswers]) -> None:
    folder, model = thirteen
    scores = scores_of(model, folder, "pile13", num_fewshot=[0, 1])
    assert list(scores) == list(NAMES.values())
    for task, name in NAMES.items():
        share, result = right_of(task) / COUNT, scores[name]
        assert result["score"] == pytest.approx(100 * share), name
        expected = 100 * math.sqrt(share * (1 - share) / (COUNT - 1))
        assert result["standard_error"] == pytest.approx(expected), name
        assert result["runs"] == {"0": result["score"], "1": result["score"]}, name
        assert (result["task"], result["questions"]) == (task, COUNT)
    shares = [right_of(task) / COUNT for task in PILE13]
    error = 100 * math.sqrt(sum(p * (1 - p) / (COUNT - 1) for p in shares)) / 13
    expected_average = {"score": 100 * sum(shares) / 13, "standard_error": error}
    assert average_of(scores) == pytest.approx(expected_average)
    normalised = {name for name, result in scores.items() if result["metric"] == "acc_norm"}
    assert normalised == {"HellaSwag", "PIQA", "OpenBookQA", "SciQ", "ARC-Easy", "LogiQA"}


def test_scores_are_lm_eval_s_own_to_the_last_digit(
    thirteen: tuple[Path, KnownAnswers], tmp_path: Path
) -> None:
    """With its own reader of files and its own choice of examples."""
    import lm_eval
    from lm_eval.models.huggingface import HFLM

    model, tokenizer = load_model(save_model(tmp_path / "model"), "cpu")
    config = EvaluationConfig(data_dir=str(thirteen[0]), num_fewshot=[2], limit=6)
    ours = evaluate_model(model, tokenizer, config)
    root, members = Path(lm_eval.tasks.__file__).parent, []
    for task, (_, _, *splits) in PILE13.items():
        files = {split: f"{thirteen[0]}/{task}/{split}.jsonl" for split in splits}
        kwargs = {"data_files": files, "cache_dir": str(tmp_path / "cache")}
        own = {"dataset_path": "json", "dataset_name": None, "dataset_kwargs": kwargs}
        members.append({"task": task, **own})
    theirs = lm_eval.simple_evaluate(
        HFLM(pretrained=model, tokenizer=tokenizer, batch_size=16),
        tasks=[{"group": "all", "task": members}],
        task_manager=lm_eval.tasks.TaskManager(
            include_defaults=False,
            include_path=[root / folder for _, folder, *_ in PILE13.values()],
        ),
        num_fewshot=2,
        limit=6,
        bootstrap_iters=0,
    )["results"]
    for task, name in NAMES.items():
        metric = ours[name]["metric"]
        assert ours[name]["score"] == 100 * theirs[task][f"{metric},none"], name
    assert len({result["score"] for result in ours.values()}) > 3


def test_a_task_is_scored_once_per_number_of_examples(tmp_path: Path) -> None:
    """A belief about a prompt that an example precedes holds with examples alone.

    The runs ask the same questions and are not independent: the error is that of each question's
    mean over runs.
    """
    questions = write_benchmark(tmp_path, "arc_easy", count=8)
    known = believing(questions, lambda place: place < 6)
    prompt, answer = questions[6].asked[questions[6].gold]
    known.beliefs[f"\n\n{prompt}"] = [(answer, 0.99)]
    given = {"num_fewshot": [0, 1, 3], "batch_size": 3}
    found = scores_of(known, tmp_path, "arc_easy", **given)["ARC-Easy"]
    assert found["runs"] == {"0": 75.0, "1": 87.5, "3": 87.5}
    assert found["score"] == pytest.approx((75 + 87.5 + 87.5) / 3)
    by_question = torch.tensor([1.0] * 6 + [2 / 3, 0.0])
    assert found["standard_error"] == pytest.approx(100 * by_question.std().item() / math.sqrt(8))
    part = scores_of(known, tmp_path, "arc_easy", limit=4, **given)["ARC-Easy"]
    assert (part["score"], part["questions"]) == (100.0, 4)


def test_tasks_that_were_scored_are_not_scored_again(thirteen: tuple[Path, KnownAnswers]) -> None:
    tasks = ["hellaswag", "piqa", "copa"]
    config = EvaluationConfig(tasks=tasks, data_dir=str(thirteen[0]), num_fewshot=[0, 2])
    whole = evaluate_model(thirteen[1], character_tokenizer(), config)
    states: list[dict] = []

    def stop(tasks: dict) -> None:
        states.append(dict(tasks))
        if len(tasks) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate_model(thirteen[1], character_tokenizer(), config, keep=stop)
    kept = json.loads(json.dumps(states[-1], allow_nan=False))
    seen: list[list[str]] = []
    again = evaluate_model(
        thirteen[1], character_tokenizer(), config, kept, lambda tasks: seen.append(list(tasks))
    )
    assert again == whole
    assert seen == [["HellaSwag", "PIQA", "COPA"]]


# By task and column: what the hub's data does not hold.
WRONG: dict[tuple[str, str], list[Any]] = {
    ("social_iqa", "label"): ["0", "4", "A", ""],
    ("hellaswag", "label"): ["4", "-1", "", "a"],
    ("piqa", "label"): [-1, 2, None],
    ("openbookqa", "answerKey"): ["E", "", "1"],
    ("lambada_standard", "text"): [None],
    ("sciq", "support"): [None],
    ("arc_easy", "answerKey"): [" 1", "A"],
    ("copa", "question"): ["Cause", "because"],
    ("copa", "label"): [-1, 2, None],
    ("race", "problems"): ["[]", "__import__('os').getcwd()", "[" * 10_000],
    ("logiqa", "label"): ["A", "e", ""],
    ("qqp", "label"): [-1, 2],
    ("winogrande", "answer"): ["", "0", "3"],
    ("multirc", "label"): [-1, 2],
}


@pytest.mark.parametrize(("task", "column"), WRONG)
def test_wrong_values_are_refused_before_anything_is_scored(
    task: str, column: str, tmp_path: Path
) -> None:
    """By file and row: lm-eval would score COPA's -1 and a null in silence."""
    write_benchmark(tmp_path, "social_iqa")
    for value in WRONG[task, column]:
        questions = questions_of(task, 3)
        questions[1].row[column] = value
        split = SCHEMAS[task].questions
        write_split(tmp_path, task, split, questions)
        with pytest.raises(DataError) as error:
            scores_of(KnownAnswers([]), tmp_path, "social_iqa", task)
        assert f"data of {task} " in str(error.value), value
        places = (f"{task}/{split}, row 2, found:", f"in {tmp_path}/{task}, found:")
        assert any(place in str(error.value) for place in places), value


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", ""),
        ('{"goal": "x"}\n["goal"]\n', "/validation.jsonl, line 2"),
        ("\xff\xfe", "/validation.jsonl, line 1"),
    ],
)
def test_files_that_are_no_data(tmp_path: Path, text: str, where: str) -> None:
    path = write_split(tmp_path, "piqa", "validation", [])
    path.write_text(text, encoding="latin-1")
    with pytest.raises(DataError, match=f"^Expected data of piqa .*{where}, found:"):
        scores_of(KnownAnswers([]), tmp_path, "piqa")
    path.rename(path.with_suffix(".parquet"))
    with pytest.raises(DataError, match=r"in .*piqa/validation, found:"):
        scores_of(KnownAnswers([]), tmp_path, "piqa")


def test_a_split_may_be_in_parts_as_on_the_hub(tmp_path: Path) -> None:
    questions = write_benchmark(tmp_path, "piqa", COUNT)
    model = believing(questions, lambda place: place < 6)
    whole = scores_of(model, tmp_path, "piqa")
    path, rows = tmp_path / "piqa" / "validation.jsonl", [one.row for one in questions]
    path.unlink()
    for number in (0, 1):
        part = pyarrow.Table.from_pylist(rows[5 * number : 5 * number + 5])
        parquet.write_table(part, path.with_name(f"validation-0000{number}-of-00002.parquet"))
    assert scores_of(model, tmp_path, "piqa") == whole


def test_folders_that_are_no_models(tmp_path: Path) -> None:
    """Weights that miss a part or are NaN, too few tokens, a cut file, and pickles."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"^Expected a model's folder .*/empty, found:"):
        load_model(tmp_path / "empty")
    with pytest.raises(DataError, match="50 tokens, fewer than the tokenizer's 101"):
        load_model(save_model(tmp_path / "small", vocabulary=50))
    file = save_model(tmp_path / "model") / "model.safetensors"
    weights = load_file(file)
    name = next(n for n in weights if n.endswith("down_proj.weight"))
    save_file({**weights, name: weights[name] * float("nan")}, file, {"format": "pt"})
    with pytest.raises(DataError, match=f"NaN or infinity in {name}"):
        load_model(file.parent)
    weights.pop(name)
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(DataError, match=f"no weights for {name}"):
        load_model(file.parent)
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(DataError, match="a model's folder"):
        load_model(file.parent)
    file.unlink()
    torch.save({}, file.with_name("pytorch_model.bin"))  # a pickle can run code and is not read
    with pytest.raises(DataError, match=r"no file named model\.safetensors found in"):
        load_model(file.parent)


def test_code_beside_a_model_is_not_run(tmp_path: Path) -> None:
    folder, marker = save_model(tmp_path / "model"), tmp_path / "ran"
    (folder / "evil.py").write_text(f"open({str(marker)!r}, 'w')\nclass Config: ...\n")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Config"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(DataError, match=r"a model's folder .*contains custom code"):
        load_model(folder)
    assert not marker.exists()
