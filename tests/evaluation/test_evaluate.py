"""All 13 benchmarks end to end, with a model whose accuracy is known beforehand."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from pathlib import Path

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
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

from bydore_pyro.evaluation.benchmarks import PILE13
from bydore_pyro.evaluation.config import EvaluationConfig
from bydore_pyro.evaluation.evaluate import evaluate_model, load_model
from bydore_pyro.evaluation.table import scores_table
from bydore_pyro.utils.errors import DataError

COUNT = 10


def right_of(name: str) -> int:
    """How many of ten questions the model is right about: not the same in every benchmark."""
    return 2 + list(PILE13).index(name) % 8


@pytest.fixture(scope="module")
def thirteen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, KnownAnswers]:
    """Data of all benchmarks, and a model that knows some of their answers."""
    folder, beliefs = tmp_path_factory.mktemp("data"), KnownAnswers([])
    for name, benchmark in PILE13.items():
        questions = write_benchmark(folder, benchmark.task, COUNT)
        known = believing(questions, lambda place, name=name: place < right_of(name))
        beliefs.beliefs |= known.beliefs
    return folder, beliefs


def test_all_thirteen_with_known_answers(thirteen: tuple[Path, KnownAnswers]) -> None:
    folder, model = thirteen
    told: list[str] = []
    # One example, too: every number of examples is one run.
    config = EvaluationConfig(data_dir=str(folder), num_fewshot=[0, 1], cases=[2])
    scores = evaluate_model(model, config, character_tokenizer(), told.append)
    assert list(scores["tasks"]) == list(PILE13)
    for name, result in scores["tasks"].items():
        share = right_of(name) / COUNT
        assert result["score"] == pytest.approx(100 * share), name
        expected = 100 * math.sqrt(share * (1 - share) / (COUNT - 1))
        assert result["standard_error"] == pytest.approx(expected), name
        assert result["score_by_num_fewshot"] == {"0": result["score"], "1": result["score"]}, name
        assert result["metric"] in ("acc", "acc_norm")
        assert result["questions"] == COUNT
        assert result["task"] == PILE13[name].task
        assert isinstance(result["version"], float)
        assert result["data"] == str(folder / PILE13[name].task)
        assert len(result["data_sha256"]) == 64
    shares = [right_of(name) / COUNT for name in PILE13]
    assert scores["average"]["score"] == pytest.approx(100 * sum(shares) / 13)
    error = 100 * math.sqrt(sum(p * (1 - p) / (COUNT - 1) for p in shares)) / 13
    assert scores["average"]["standard_error"] == pytest.approx(error)
    assert scores["average"]["tasks"] == 13
    assert scores["parameters"] == 3
    assert scores["config"] == dataclasses.asdict(config)
    assert len(told) == 13
    assert told[0] == "Social IQA: acc 20.00 ± 13.33, 10 questions"
    assert f"{scores['average']['score']:.2f} ± {error:.2f}" in scores_table(scores)
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
    ours = evaluate_model(model, config, tokenizer)["tasks"]
    root = Path(lm_eval.tasks.__file__).parent
    manager = TaskManager(
        include_defaults=False, include_path=[root / b.folder for b in PILE13.values()]
    )
    members = []
    for benchmark in PILE13.values():
        schema = SCHEMAS[benchmark.task]
        files = {
            s: f"{folder}/{benchmark.task}/{s}.jsonl" for s in {schema.questions, schema.examples}
        }
        names = (manager.task_index[benchmark.task].cfg or {}).items()
        idle = {k: None for k, v in names if k.endswith("_split") and v and v not in files}
        kwargs = {"data_files": files, "cache_dir": str(tmp_path / "cache")}
        own = {"dataset_path": "json", "dataset_name": None, "dataset_kwargs": kwargs}
        members.append({"task": benchmark.task, **own, **idle})
    theirs = lm_eval.simple_evaluate(
        HFLM(pretrained=model, tokenizer=tokenizer, batch_size=16),
        tasks=[{"group": "all", "task": members}],
        task_manager=manager,
        num_fewshot=2,
        limit=6,
        bootstrap_iters=0,
    )["results"]
    for name, benchmark in PILE13.items():
        expected = 100 * theirs[benchmark.task][f"{ours[name]['metric']},none"]
        assert ours[name]["score"] == expected, name
    perplexity = theirs["lambada_standard"]["perplexity,none"]
    assert ours["LAMBADA"]["other_metrics"]["perplexity"] == perplexity
    assert len({result["score"] for result in ours.values()}) > 3


def test_nothing_is_scored_where_a_later_task_cannot_be(
    thirteen: tuple[Path, KnownAnswers], tmp_path: Path
) -> None:
    """A wrong label of the last task, or too few examples: told before the first is scored."""
    told: list[str] = []
    write_benchmark(tmp_path, "copa")
    write_split(tmp_path, "copa", "train", questions_of("copa", 9, first=500))
    questions = write_benchmark(tmp_path, "piqa")
    config = EvaluationConfig(tasks=["COPA", "PIQA"], data_dir=str(tmp_path), num_fewshot=[0, 6])
    with pytest.raises(DataError, match=r"at least 7 rows in .*/piqa/train\.jsonl"):
        evaluate_model(thirteen[1], config, character_tokenizer(), told.append)
    questions[-1].row["label"] = -1
    path = write_split(tmp_path, "piqa", "validation", questions)
    config = dataclasses.replace(config, num_fewshot=[0])
    with pytest.raises(DataError, match=rf"in {path}, found question 10: the answer -1 is none"):
        evaluate_model(thirteen[1], config, character_tokenizer(), told.append)
    assert told == []


def test_tasks_that_were_scored_are_not_scored_again(
    thirteen: tuple[Path, KnownAnswers], tmp_path: Path
) -> None:
    _, model = thirteen
    data, names = tmp_path / "data", ["COPA", "PIQA", "SciQ"]
    for name in names:
        write_benchmark(data, PILE13[name].task)
    config = EvaluationConfig(tasks=names, data_dir=str(data), num_fewshot=[0, 2], limit=5)
    whole = evaluate_model(model, config, character_tokenizer())
    states: list[dict] = []

    def stop(tasks: dict) -> None:
        states.append(dict(tasks))
        if len(tasks) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate_model(model, config, character_tokenizer(), keep=stop)
    assert [list(state) for state in states] == [["COPA"], ["COPA", "PIQA"]]
    kept, told = json.loads(json.dumps(states[-1])), []
    resumed = evaluate_model(model, config, character_tokenizer(), told.append, kept=kept)
    assert resumed == whole
    assert [line.partition(":")[0] for line in told] == ["SciQ"]
    write_benchmark(data, "piqa", count=9)
    with pytest.raises(DataError, match=r"PIQA with the data that it was scored on .* new eval"):
        evaluate_model(model, config, character_tokenizer(), kept=kept)


def test_normalised_accuracy_is_reported_where_lm_eval_has_it(tmp_path: Path) -> None:
    """A long answer of likely characters loses to a short one in sum, and wins by character."""
    names = ["PIQA", "HellaSwag", "Social IQA"]
    beliefs = []
    for name in names:
        task = PILE13[name].task
        long, short = "the one that is right", "no"
        questions = [
            SCHEMAS[task].make(i, 0, [long, short, "neither", "nor that"]) for i in range(100, 104)
        ]
        write_split(tmp_path, task, SCHEMAS[task].questions, questions)
        for question in questions:
            prompt, right = question.asked[0]
            beliefs += [(prompt, right, 0.45), (prompt, question.asked[1][1], 0.3)]
    config = EvaluationConfig(tasks=names, data_dir=str(tmp_path), num_fewshot=[0])
    tasks = evaluate_model(KnownAnswers(beliefs), config, character_tokenizer())["tasks"]
    for name in ("PIQA", "HellaSwag"):
        assert (tasks[name]["metric"], tasks[name]["score"]) == ("acc_norm", 100.0)
        assert tasks[name]["other_metrics"] == {"acc": 0.0}
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
    first, second = (evaluate_model(model, config, character_tokenizer()) for _ in range(2))
    assert first == second
    # RACE is the ninth benchmark: right about the first 2 of 10 questions; COPA about 9.
    assert first["tasks"]["RACE"]["score"] == pytest.approx(200 / 9)
    assert first["tasks"]["COPA"]["score"] == 100.0
    assert first["tasks"]["COPA"]["standard_error"] == 0.0


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
    scores = evaluate_model(model, config, character_tokenizer())
    own, loss = scores["tasks"]["own"], scores["tasks"]["loss"]
    assert (own["score"], own["num_fewshot"], own["version"]) == (50.0, [0], 3)
    assert loss["score"] == pytest.approx(2.0 ** len(" amber"), rel=1e-4)
    assert (loss["metric"], loss["standard_error"]) == ("perplexity", None)
    assert scores["average"] is None
    write_task(folder, "own", text="{{question.__class__.__mro__}}")
    for allowed in (False, True):
        with pytest.raises(DataError, match=r"can load, found own \(SecurityError"):
            given = dataclasses.replace(config, tasks=["own"], allow_task_code=allowed)
            evaluate_model(model, given, character_tokenizer())


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
    by_object = evaluate_model(model, config, tokenizer)
    assert by_object == evaluate_model(tmp_path / "model", config)
    assert by_object["parameters"] == sum(p.numel() for p in model.parameters())
    assert model.training  # as it was given


def test_folders_that_are_no_models(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"found no config\.json in"):
        load_model(tmp_path)
    folder = save_model(tmp_path / "model")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    with pytest.raises(DataError, match="a tokenizer that transformers reads in"):
        load_model(folder)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match=r"a tokenizer that transformers reads in"):
        load_model(folder)
    folder = save_model(tmp_path / "small", vocabulary=50)
    with pytest.raises(DataError, match=r"a model .*: 50 tokens, fewer than the tokenizer's 101$"):
        load_model(folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(DataError, match=r"a model that transformers reads in"):
        load_model(folder)
    weights.unlink()
    torch.save({}, folder / "pytorch_model.bin")  # a pickle can run code and is not read
    with pytest.raises(DataError, match=r"no file named model\.safetensors found in"):
        load_model(folder)


def test_weights_that_are_not_all_there_are_not_scored(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"found no config\.json in .*sub-folder model"):
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
    with pytest.raises(ValueError, match="a tokenizer with a model, found none"):
        evaluate_model(KnownAnswers([]), EvaluationConfig())
    with pytest.raises(ValueError, match="a device of this machine, found 'cpus'"):
        load_model(tmp_path, "cpus")
    with monkeypatch.context() as patch:
        patch.setenv("WORLD_SIZE", "2")
        with pytest.raises(ValueError, match="one process for an evaluation, found several"):
            evaluate_model(KnownAnswers([]), EvaluationConfig())
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    with pytest.raises(ValueError, match=r"package lm-eval, .*pip install 'bydore-pyro\[evalu"):
        evaluate_model(KnownAnswers([]), EvaluationConfig())
