"""All 13 benchmarks end to end, with a model whose accuracy is known beforehand."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmark_data import (
    SCHEMAS,
    KnownAnswers,
    believing,
    character_tokenizer,
    questions_of,
    write_benchmark,
    write_split,
    write_task,
)
from lm_eval.api.metrics import mean_stderr
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

from bydore_pyro.evaluation.evaluate import average_of, evaluate_model, load_model, scores_table
from bydore_pyro.evaluation.tasks import FOLDERS, PILE13, EvaluationConfig
from bydore_pyro.mixture.published import benchmark_scores
from bydore_pyro.utils.errors import DataError

COUNT = 10


def right_of(name: str) -> int:
    """How many of ten questions the model is right about: not the same in every benchmark."""
    return 2 + list(PILE13).index(name) % 8


@pytest.fixture(scope="module")
def thirteen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, KnownAnswers]:
    """Data of all benchmarks, and a model that knows some of their answers."""
    folder, beliefs = tmp_path_factory.mktemp("data"), KnownAnswers([])
    for name, task in PILE13.items():
        questions = write_benchmark(folder, task, COUNT)
        known = believing(questions, lambda place, name=name: place < right_of(name))
        beliefs.beliefs |= known.beliefs
    return folder, beliefs


def test_all_thirteen_with_known_answers(thirteen: tuple[Path, KnownAnswers]) -> None:
    folder, model = thirteen
    kept: list[list[str]] = []
    # One example, too: every number of examples is one run.
    config = EvaluationConfig(data_dir=str(folder), num_fewshot=[0, 1], cases=[2])
    scores = evaluate_model(model, character_tokenizer(), config, keep=lambda t: kept.append([*t]))
    assert list(scores) == list(PILE13)
    for name, result in scores.items():
        share = right_of(name) / COUNT
        assert result["score"] == pytest.approx(100 * share), name
        expected = 100 * math.sqrt(share * (1 - share) / (COUNT - 1))
        assert result["standard_error"] == pytest.approx(expected), name
        runs = [100 * run[f"{result['metric']},none"] for run in result["runs"].values()]
        assert runs == [result["score"]] * 2, name
        assert [*result["runs"]] == ["0", "1"]
        assert result["metric"] in ("acc", "acc_norm")
        assert result["questions"] == COUNT
        assert f"{folder}/{PILE13[name]}/" in result["data"]
        assert len(result["data_sha256"]) == 64
    shares = [right_of(name) / COUNT for name in PILE13]
    average = average_of(scores)
    assert average
    assert average["score"] == pytest.approx(100 * sum(shares) / 13)
    error = 100 * math.sqrt(sum(p * (1 - p) / (COUNT - 1) for p in shares)) / 13
    assert average["standard_error"] == pytest.approx(error)
    assert average["questions"] == 130
    assert kept[-1] == list(PILE13)
    assert [len(tasks) for tasks in kept] == list(range(1, 14))
    json.dumps(scores, allow_nan=False)


def test_scores_are_lm_eval_s_own_to_the_last_digit(
    thirteen: tuple[Path, KnownAnswers], tmp_path: Path
) -> None:
    """With its own reader of files, and templates that are compiled for every question."""
    import lm_eval
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    folder, _ = thirteen
    model, tokenizer = load_model(save_model(tmp_path / "model"), "cpu")
    config = EvaluationConfig(data_dir=str(folder), num_fewshot=[2], limit=6)
    ours = evaluate_model(model, tokenizer, config)
    root = Path(lm_eval.tasks.__file__).parent
    manager = TaskManager(
        include_defaults=False, include_path=[root / FOLDERS.get(t, t) for t in PILE13.values()]
    )
    members = []
    for task in PILE13.values():
        schema = SCHEMAS[task]
        files = {s: f"{folder}/{task}/{s}.jsonl" for s in {schema.questions, schema.examples}}
        names = (manager.task_index[task].cfg or {}).items()
        idle = {k: None for k, v in names if k.endswith("_split") and v and v not in files}
        kwargs = {"data_files": files, "cache_dir": str(tmp_path / "cache")}
        own = {"dataset_path": "json", "dataset_name": None, "dataset_kwargs": kwargs}
        members.append({"task": task, **own, **idle})
    theirs = lm_eval.simple_evaluate(
        HFLM(pretrained=model, tokenizer=tokenizer, batch_size=16),
        tasks=[{"group": "all", "task": members}],
        task_manager=manager,
        num_fewshot=2,
        limit=6,
        bootstrap_iters=0,
    )["results"]
    for name, task in PILE13.items():
        expected = 100 * theirs[task][f"{ours[name]['metric']},none"]
        assert ours[name]["score"] == expected, name
        assert ours[name]["runs"]["2"].items() <= theirs[task].items()
    assert "perplexity,none" in ours["LAMBADA"]["runs"]["2"]
    assert len({result["score"] for result in ours.values()}) > 3


def test_nothing_is_scored_where_a_later_task_cannot_be(
    thirteen: tuple[Path, KnownAnswers], tmp_path: Path
) -> None:
    """A wrong label of the last task, or too few examples: told before the first is scored."""
    kept: list[dict] = []
    write_benchmark(tmp_path, "copa")
    write_split(tmp_path, "copa", "train", questions_of("copa", 9, first=500))
    questions = write_benchmark(tmp_path, "piqa")
    config = EvaluationConfig(tasks=["COPA", "PIQA"], data_dir=str(tmp_path), num_fewshot=[0, 6])
    with pytest.raises(DataError, match=r"found piqa \(ValueError: Sample larger than population"):
        evaluate_model(thirteen[1], character_tokenizer(), config, keep=kept.append)
    questions[-1].row["label"] = -1
    path = write_split(tmp_path, "piqa", "validation", questions)
    config = dataclasses.replace(config, num_fewshot=[0])
    with pytest.raises(DataError, match=rf"{path}.*, found question 10: .*the answer -1 is none"):
        evaluate_model(thirteen[1], character_tokenizer(), config, keep=kept.append)
    assert kept == []


def test_tasks_that_were_scored_are_not_scored_again(
    thirteen: tuple[Path, KnownAnswers], tmp_path: Path
) -> None:
    """Unless their data have changed."""
    _, model = thirteen
    data, names = tmp_path / "data", ["COPA", "PIQA", "SciQ"]
    for name in names:
        write_benchmark(data, PILE13[name])
    config = EvaluationConfig(tasks=names, data_dir=str(data), num_fewshot=[0, 2], limit=5)
    whole = evaluate_model(model, character_tokenizer(), config)
    states: list[dict] = []

    def stop(tasks: dict) -> None:
        states.append(dict(tasks))
        if len(tasks) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate_model(model, character_tokenizer(), config, keep=stop)
    assert [list(state) for state in states] == [["COPA"], ["COPA", "PIQA"]]
    kept, scored = json.loads(json.dumps(states[-1])), []

    def go_on() -> dict[str, Any]:
        scored.clear()
        keep = lambda tasks: scored.append(list(tasks)[-1])  # noqa: E731
        return evaluate_model(model, character_tokenizer(), config, kept, keep)

    assert go_on() == whole
    assert scored == ["SciQ"]
    write_benchmark(data, "piqa", count=4)
    assert go_on()["PIQA"]["questions"] == 4
    assert scored == ["PIQA", "SciQ"]


def test_normalised_accuracy_is_reported_where_lm_eval_has_it(tmp_path: Path) -> None:
    """A long answer of likely characters loses to a short one in sum, and wins by character."""
    names = ["PIQA", "HellaSwag", "Social IQA"]
    beliefs = []
    for name in names:
        task = PILE13[name]
        long, short = "the one that is right", "no"
        questions = [
            SCHEMAS[task].make(i, 0, [long, short, "neither", "nor that"]) for i in range(100, 104)
        ]
        write_split(tmp_path, task, SCHEMAS[task].questions, questions)
        for question in questions:
            prompt, right = question.asked[0]
            beliefs += [(prompt, right, 0.45), (prompt, question.asked[1][1], 0.3)]
    config = EvaluationConfig(tasks=names, data_dir=str(tmp_path), num_fewshot=[0])
    tasks = evaluate_model(KnownAnswers(beliefs), character_tokenizer(), config)
    for name in ("PIQA", "HellaSwag"):
        assert (tasks[name]["metric"], tasks[name]["score"]) == ("acc_norm", 100.0)
        assert tasks[name]["runs"] == {"0": {"acc,none": 0.0, "acc_norm,none": 1.0}}
    assert (tasks["Social IQA"]["metric"], tasks["Social IQA"]["score"]) == ("acc", 0.0)


def test_lm_eval_s_multirc_takes_no_for_the_answer_to_a_correct_one() -> None:
    """Label 1 is a correct answer: the paper's scores have this, too."""
    question = questions_of("multirc", 2)[1]
    assert question.row["label"] == 1
    assert question.asked[question.gold][1].endswith("? no")


def test_the_first_questions_and_a_seed(thirteen: tuple[Path, KnownAnswers]) -> None:
    folder, model = thirteen
    config = EvaluationConfig(
        tasks=["race", "COPA"], data_dir=str(folder), num_fewshot=[2], limit=9, batch_size=1
    )
    first, second = (evaluate_model(model, character_tokenizer(), config) for _ in range(2))
    assert first == second
    # RACE is the ninth benchmark: right about the first 2 of 10 questions; COPA about 9.
    assert first["RACE"]["score"] == pytest.approx(200 / 9)
    assert first["COPA"]["score"] == 100.0
    assert first["COPA"]["standard_error"] == 0.0


def test_task_files_of_the_user_with_other_metrics(tmp_path: Path) -> None:
    """A task by its own file: perplexity is no percentage; templates stay in the sandbox."""
    folder = tmp_path / "tasks"
    write_task(folder, "own")
    (folder / "loss.yaml").write_text(
        "include: own.yaml\ntask: loss\noutput_type: loglikelihood\n"
        "doc_to_target: ' {{choices[0]}}'\n"
        "metric_list:\n  - {metric: perplexity, aggregation: perplexity, higher_is_better: false}\n"
    )
    model = KnownAnswers([(f"n {i}", " amber", 0.5) for i in range(4)])
    config = EvaluationConfig(tasks=["own", "loss"], include_path=str(folder))
    scores = evaluate_model(model, character_tokenizer(), config)
    own, loss = scores["own"], scores["loss"]
    assert (own["score"], own["num_fewshot"]) == (50.0, [0])
    assert loss["score"] == pytest.approx(2.0 ** len(" amber"), rel=1e-4)
    assert (loss["metric"], loss["standard_error"]) == ("perplexity", None)
    assert average_of(scores) is None
    write_task(folder, "own", text="{{question.__class__.__mro__}}")
    with pytest.raises(DataError, match=r"can load, found own \(SecurityError"):
        evaluate_model(model, character_tokenizer(), config)


def save_model(folder: Path, vocabulary: int = 101) -> Path:
    """Saves an untrained model with its tokenizer."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=512,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    character_tokenizer().save_pretrained(folder)
    return folder


def test_a_model_s_folder(tmp_path: Path, thirteen: tuple[Path, KnownAnswers]) -> None:
    model, tokenizer = load_model(save_model(tmp_path / "model"), "cpu")
    assert len(tokenizer) == 101
    config = EvaluationConfig(
        tasks=["COPA"], data_dir=str(thirteen[0]), num_fewshot=[0], device="cpu"
    )
    model.train()
    evaluate_model(model, tokenizer, config)
    assert model.training  # as it was given


def test_folders_that_are_no_models(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"sub-folder model\), found"):
        load_model(tmp_path)
    folder = save_model(tmp_path / "model")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    with pytest.raises(DataError, match="a model and a tokenizer that transformers reads in"):
        load_model(folder)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match=r"a model and a tokenizer that transformers reads in"):
        load_model(folder)
    folder = save_model(tmp_path / "small", vocabulary=50)
    with pytest.raises(DataError, match=r"a model .*: 50 tokens, fewer than the tokenizer's 101$"):
        load_model(folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(DataError, match=r"transformers reads in"):
        load_model(folder)
    weights.unlink()
    torch.save({}, folder / "pytorch_model.bin")  # a pickle can run code and is not read
    with pytest.raises(DataError, match=r"no file named model\.safetensors found in"):
        load_model(folder)


def test_weights_that_are_not_all_there_are_not_scored(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"sub-folder model\), found "):
        save_model(tmp_path / "model")
        load_model(tmp_path)
    file = tmp_path / "model" / "model.safetensors"
    weights = load_file(file)
    name = next(n for n in weights if n.endswith("down_proj.weight"))
    save_file({**weights, name: weights[name] * float("nan")}, file, {"format": "pt"})
    with pytest.raises(DataError, match=rf"NaN or infinity in {name}"):
        load_model(tmp_path / "model")
    weights.pop(name)
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(DataError, match=rf"no weights for {name}"):
        load_model(tmp_path / "model")
    for device in ("meta", "cpus"):
        with pytest.raises(ValueError, match=f"a device of this machine, found '{device}'"):
            load_model(tmp_path / "model", device)


def test_code_beside_a_model_is_not_run(tmp_path: Path) -> None:
    folder, marker = save_model(tmp_path / "model"), tmp_path / "ran"
    (folder / "evil.py").write_text(f"open({str(marker)!r}, 'w')\nclass Config: ...\n")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "evil", "auto_map": {"AutoConfig": "evil.Config"}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(DataError, match=r"that transformers reads in .*contains custom code"):
        load_model(folder)
    assert not marker.exists()


def test_what_an_evaluation_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluate() -> None:
        evaluate_model(KnownAnswers([]), character_tokenizer(), EvaluationConfig())

    with pytest.raises(ValueError, match="a device of this machine, found 'cpus'"):
        load_model(tmp_path, "cpus")
    with monkeypatch.context() as patch:
        patch.setenv("WORLD_SIZE", "2")
        with pytest.raises(ValueError, match="one process for an evaluation, found several"):
            evaluate()
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    with pytest.raises(ValueError, match=r"package lm-eval, .*pip install 'bydore-pyro\[evalu"):
        evaluate()


def test_a_task_is_scored_once_per_number_of_examples(tmp_path: Path) -> None:
    """A belief about a prompt that an example precedes holds with examples alone.

    The runs ask the same questions and are not independent: the error is that of each question's
    mean over runs.
    """
    questions = write_benchmark(tmp_path, "arc_easy", count=8)
    known = believing(questions, lambda place: place < 6)
    right_only_with_examples = questions[6]
    prompt, answer = right_only_with_examples.asked[right_only_with_examples.gold]
    known.beliefs[f"\n\n{prompt}"] = [(answer, 0.99)]

    def score(limit: int | None) -> dict[str, Any]:
        given = {"num_fewshot": [0, 1, 3], "data_dir": str(tmp_path), "batch_size": 3}
        config = EvaluationConfig(tasks=["ARC-Easy"], limit=limit, **given)
        return evaluate_model(known, character_tokenizer(), config)["ARC-Easy"]

    found, part = score(None), score(4)
    by_run = {n: 100 * run["acc_norm,none"] for n, run in found["runs"].items()}
    assert by_run == {"0": 75.0, "1": 87.5, "3": 87.5}
    assert found["score"] == pytest.approx((75 + 87.5 + 87.5) / 3)
    by_question = [1.0] * 6 + [2 / 3, 0.0]
    assert found["standard_error"] == pytest.approx(100 * mean_stderr(by_question))
    assert found["questions"] == 8
    assert (part["score"], part["questions"]) == (100.0, 4)
    assert score(1)["standard_error"] is None


def test_what_does_not_fit_is_told_once_or_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = write_benchmark(tmp_path, "piqa", count=4)
    config = EvaluationConfig(tasks=["piqa"], num_fewshot=[0], data_dir=str(tmp_path))
    known = believing(questions, lambda place: True)
    known.config.max_position_embeddings = 16
    capsys.readouterr()
    evaluate_model(known, character_tokenizer(), config)
    assert capsys.readouterr().err.count("exceeds model's maximum length (16)") == 1
    known.config.max_position_embeddings = 3
    message = "questions of piqa that lm-eval can ask with 0 examples, found AssertionError"
    with pytest.raises(DataError, match=message):
        evaluate_model(known, character_tokenizer(), config)


def result(name: str, score: float, error: float | None = 1.0, **changes: Any) -> dict:
    """A task's part of an evaluation that was done as the paper's were."""
    return {
        "score": score,
        "standard_error": error,
        "metric": "acc" if name in PILE13 else "exact_match",
        "questions": 1319,
        **changes,
    }


def test_average_and_its_standard_error() -> None:
    tasks = {"COPA": result("COPA", 60.0, 3.0), "RACE": result("RACE", 30.0, 4.0)}
    average = average_of({**tasks, "gsm8k": result("gsm8k", 1.0)})
    assert average == {"score": 45.0, "standard_error": pytest.approx(2.5), "questions": 2638}
    tasks["RACE"]["standard_error"] = None
    assert average_of(tasks) == {"score": 45.0, "standard_error": None, "questions": 2638}
    assert average_of({"gsm8k": result("gsm8k", 1.0)}) is None


def test_the_paper_s_own_scores_beside_the_paper() -> None:
    """With RegMix's scores as a model's, both columns and their averages agree."""
    regmix = benchmark_scores(1)["RegMix"]
    tasks = {name: result(name, regmix[name]) for name in PILE13}
    header, *lines = scores_table(tasks, [1, 2]).splitlines()
    place = header.replace(" (", "(").split().index("RegMix(1)")
    for name, line in zip(PILE13, lines[:13], strict=True):
        cells = line.removeprefix(name).split()
        assert cells[:4] == ["acc", f"{regmix[name]:.2f}", "1.00", "1,319"]
        assert cells[place] == f"{regmix[name]:.2f}"
    average = lines[13].split()
    assert average[:4] == ["average", "of", "13", "48.22"]
    assert average[4:6] == [f"{math.sqrt(13) / 13:.2f}", "17,147"]
    assert average[6:13] == ["45.75", "47.83", "47.94", "48.22", "46.15", "45.47", "48.14"]
    assert average[13:] == ["37.72", "38.17", "33.15", "35.30", "35.72", "38.35"]


def test_no_case_is_shown_that_was_not_asked_for() -> None:
    tasks = {"COPA": result("COPA", 60.0, 3.0), "RACE": result("RACE", 30.0, 4.0, questions=9)}
    table = scores_table(tasks, [])
    assert [line.split() for line in table.splitlines()] == [
        ["metric", "score", "standard_error", "questions"],
        ["COPA", "acc", "60.00", "3.00", "1,319"],
        ["RACE", "acc", "30.00", "4.00", "9"],
        ["average", "of", "2", "45.00", "2.50", "1,328"],
    ]
    table = scores_table(tasks, [2])
    assert "RegMix (2)" in table
    assert "(1)" not in table


def test_other_tasks() -> None:
    tasks = {"gsm8k": result("gsm8k", 12.5, 0.9), "own": result("own", 3.0, None)}
    lines = scores_table(tasks, []).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["gsm8k", "exact_match", "12.50", "0.90", "1,319"],
        ["own", "exact_match", "3.00", "1,319"],
    ]
    assert "None" not in scores_table({"own": tasks["own"]}, [])
