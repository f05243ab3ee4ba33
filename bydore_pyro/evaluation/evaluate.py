"""Scores of a language model on benchmarks, by lm-eval in this process, beside the paper's.

The scores are comparable with the paper's where they are found as RegMix's script finds them: its
tasks, accuracy normalised by length where lm-eval has it, and the mean over 0 to 5 examples before
the question.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from bydore_pyro.evaluation.config import EvaluationConfig
from bydore_pyro.evaluation.scores import score_task
from bydore_pyro.evaluation.surroundings import guarded, quiet
from bydore_pyro.evaluation.table import average_of, score_line
from bydore_pyro.evaluation.tasks import load_tasks
from bydore_pyro.proxy import number_of_processes
from bydore_pyro.utils import DataError, device_named, one_line, require

__all__ = ["evaluate_model", "load_model"]


def evaluate_model(
    model: Any,
    config: EvaluationConfig,
    tokenizer: Any = None,
    tell: Callable[[str], None] = lambda line: None,
    kept: Mapping[str, Mapping[str, Any]] | None = None,
    keep: Callable[[dict[str, Any]], None] = lambda tasks: None,
) -> dict[str, Any]:
    """Scores a model on benchmarks, when all tasks and their data have been checked.

    A score is the mean over the numbers of examples before the question,
    ``(1/R) sum_r (1/n) sum_i c_ri``, where ``c_ri`` says whether question ``i`` of ``n`` was
    answered correctly in run ``r`` of ``R``. The runs ask the same questions and are not
    independent: the standard error is that of the mean over questions,
    ``sqrt(sum_i (c_i - c)^2 / (n (n - 1)))`` with ``c_i`` the mean of ``c_ri`` over the runs. With
    one run it is lm-eval's own.

    Args:
        model: A causal language model of transformers, or the folder of one.
        config: What it is scored on.
        tokenizer: Of the model; a folder has its own.
        tell: Is given a line when a task is done.
        kept: The part `tasks` of an evaluation that was stopped; these are not scored again.
        keep: Is given the part `tasks` of what is returned whenever a task is done.

    Returns:
        Plain values. `tasks`: by the paper's name, or lm-eval's, with `score` and `standard_error`
        (`acc`, `acc_norm` and `exact_match` in percent, others in lm-eval's own unit; no standard
        error where a score is no mean over questions), `metric`, `questions`, `num_fewshot` and the
        scores by it, `other_metrics`, `version`, `data` (where they come from) and their hash.
        `average`: over the paper's benchmarks among the tasks. `config`, `parameters`.

    Raises:
        DataError: When the model, a task or its data is not there or not what it must be, or not
            what it was for the tasks that are kept.
        ValueError: When lm-eval is not installed, or there are several processes.

    References:
        RegMix (arXiv 2407.01492), and evaluation/eval_lm_eval_harness.sh of its repository.
    """
    if number_of_processes() > 1:
        raise ValueError("Expected one process for an evaluation, found several")
    for module in ("accelerate", "lm_eval"):
        require(module, "evaluation")
    from lm_eval.models.huggingface import HFLM

    tasks = {label: dict(scores) for label, scores in (kept or {}).items()}
    trusted = config.include_path is None or config.allow_task_code
    with guarded(hub=config.hub, code=trusted):
        with quiet():
            if isinstance(model, str | Path):
                model, tokenizer = load_model(Path(model), config.device)
            elif tokenizer is None:
                raise ValueError("Expected a tokenizer with a model, found none")
            ready = load_tasks(config)
            training = model.training
            scored = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=config.batch_size)
        for task in ready:
            before = tasks.get(task.label, {}).get("data_sha256", task.data_sha256)
            if before != task.data_sha256:
                raise DataError(
                    f"Expected {task.label} with the data that it was scored on ({before}), "
                    f"found {task.data_sha256}: start a new evaluation"
                )
        for task in ready:
            if task.label not in tasks:
                with quiet():
                    tasks[task.label] = score_task(scored, task, config.limit)
                keep(tasks)
                tell(score_line(task.label, tasks[task.label]))
        model.train(training)
    return {
        "tasks": tasks,
        "average": average_of(tasks),
        "config": dataclasses.asdict(config),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def load_model(folder: Path, device: str = "auto") -> tuple[Any, Any]:
    """Loads a language model and its tokenizer from a folder, without running code of it.

    Args:
        folder: Holds `config.json`, weights as safetensors and a tokenizer.
        device: `cpu`, `cuda`, or `auto`: a GPU if there is one.

    Raises:
        DataError: When one of the three is missing or cannot be read.
        ValueError: When there is no such device.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place = device_named(device)
    if not (folder / "config.json").is_file():
        raise DataError(
            f"Expected the folder of a model, found no config.json in {folder} (a training leaves "
            "the model in its sub-folder model)"
        )
    safely = {"local_files_only": True, "trust_remote_code": False}
    part = "tokenizer"
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **safely)
        part = "model"
        model, loaded = AutoModelForCausalLM.from_pretrained(
            folder, use_safetensors=True, output_loading_info=True, **safely
        )
        if loaded["missing_keys"]:
            raise ValueError(f"no weights for {sorted(loaded['missing_keys'])[0]}")
        broken = [n for n, p in model.named_parameters() if not torch.isfinite(p).all()]
        if broken:
            raise ValueError(f"NaN or infinity in {broken[0]}")
        if len(tokenizer) > getattr(model.config, "vocab_size", len(tokenizer)):
            raise ValueError(
                f"{model.config.vocab_size} tokens, fewer than the tokenizer's {len(tokenizer)}"
            )
    except Exception as error:
        reason = one_line(f"{type(error).__name__}: {error}", 300)
        raise DataError(
            f"Expected a {part} that transformers reads in {folder}: {reason}"
        ) from error
    return model.to(place), tokenizer
