"""Scores of a language model on benchmarks, by lm-eval in this process, beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bydore_pyro.evaluation.guard import guarded, quiet
from bydore_pyro.evaluation.tasks import PILE13, EvaluationConfig, load_tasks
from bydore_pyro.mixture import average_score, benchmark_scores
from bydore_pyro.proxy import number_of_processes
from bydore_pyro.utils import DataError, device_named, one_line, require

__all__ = ["average_of", "evaluate_model", "load_model", "scores_table"]

# Of a task's metrics the first of these is reported: RegMix's rule, accuracy by likelihood per
# character where lm-eval has it. They are shares, told in percent.
SHARES = ("acc_norm", "acc", "exact_match")
SEED = 1234  # chooses the examples: lm-eval's own


def load_model(folder: Path, device: str = "auto") -> tuple[Any, Any]:
    """Loads a language model and its tokenizer from a folder, without running code of it.

    Args:
        folder: Holds `config.json`, weights as safetensors and a tokenizer.
        device: `cpu`, `cuda`, or `auto`: a GPU if there is one.

    Raises:
        DataError: When one of the three is missing, cannot be read or does not fit the others.
        ValueError: When there is no such device.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place = device_named(device)
    safely = {"local_files_only": True, "trust_remote_code": False}
    try:
        with quiet():
            tokenizer = AutoTokenizer.from_pretrained(folder, **safely)
            model, loaded = AutoModelForCausalLM.from_pretrained(
                folder, use_safetensors=True, output_loading_info=True, **safely
            )
        if loaded["missing_keys"]:
            raise ValueError(f"no weights for {sorted(loaded['missing_keys'])[0]}")
        if broken := [n for n, p in model.named_parameters() if not torch.isfinite(p).all()]:
            raise ValueError(f"NaN or infinity in {broken[0]}")
        if len(tokenizer) > (size := model.config.vocab_size):
            raise ValueError(f"{size} tokens, fewer than the tokenizer's {len(tokenizer)}")
    except Exception as error:
        raise DataError(
            f"Expected a model and a tokenizer that transformers reads in {folder} (a training "
            "leaves them in its sub-folder model), found "
            f"{type(error).__name__}: {one_line(error, 300)}"
        ) from error
    return model.to(place), tokenizer


def evaluate_model(
    model: Any,
    tokenizer: Any,
    config: EvaluationConfig,
    kept: Mapping[str, Mapping[str, Any]] | None = None,
    keep: Callable[[dict[str, Any]], None] = lambda tasks: None,
) -> dict[str, Any]:
    """Scores a model on benchmarks, when all tasks and their data have been checked.

    There is a run for each number of examples before the question. A score is ``c``, the mean over
    the ``n`` questions of ``c_i``, the share of the runs that answer question ``i`` correctly. The
    runs ask the same questions and are not independent: the standard error is
    ``sqrt(sum_i (c_i - c)^2 / (n (n - 1)))``. With one run both are lm-eval's own.

    Args:
        model: A causal language model of transformers, on its device.
        tokenizer: Of the model.
        config: What it is scored on.
        kept: What was returned for tasks by an evaluation that was stopped. These are scored again
            only where their data have changed.
        keep: Is given what will be returned, as far as it is done, after every task.

    Returns:
        By the paper's name of a task, or lm-eval's, plain values: `score` and `standard_error`
        (`acc`, `acc_norm` and `exact_match` in percent, others in lm-eval's own unit, without
        standard error), `metric`, `questions`, `runs` (all metrics by number of examples, in
        lm-eval's units) and what `load_tasks` tells.

    Raises:
        DataError: When a task or its data is not there or not what it must be.
        ValueError: When lm-eval is not installed, or there are several processes.

    References:
        RegMix (arXiv 2407.01492), and evaluation/eval_lm_eval_harness.sh of its repository.
    """
    if number_of_processes() > 1:
        raise ValueError("Expected one process for an evaluation, found several")
    for module in ("accelerate", "lm_eval"):
        require(module, "evaluation")
    from lm_eval.models.huggingface import HFLM

    training = model.training
    with guarded(hub=config.hub), quiet():
        ready = load_tasks(config)
        scored = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=config.batch_size)
    tasks: dict[str, Any] = {}
    for label, (task, about) in ready.items():
        tasks[label] = dict((kept or {}).get(label, {}))
        if tasks[label].get("data_sha256") != about["data_sha256"]:
            with guarded(hub=config.hub), quiet():
                tasks[label] = {**_score(scored, task, about["num_fewshot"], config.limit), **about}
            keep(tasks)
    model.train(training)
    return tasks


def _score(model: Any, task: Any, num_fewshot: list[int], limit: int | None) -> dict[str, Any]:
    """Runs a task once for each number of examples; returns its scores."""
    from lm_eval.api.metrics import mean_stderr
    from lm_eval.evaluator import evaluate

    name, samples = task.task_name, []
    runs: dict[str, dict[str, float]] = {}
    for number in num_fewshot:
        torch.manual_seed(SEED)  # for tasks that sample
        task.set_config("num_fewshot", number)
        task.set_fewshot_seed(SEED)
        try:
            found = evaluate(model, {"tasks": {name: task}}, limit=limit, bootstrap_iters=0)
        except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
            # Such as an answer that is longer than the model's context.
            raise DataError(
                f"Expected questions of {name} that lm-eval can ask with {number} examples, "
                f"found {type(error).__name__}: {one_line(error)}"
            ) from error
        # By "metric,filter"; standard errors that were not asked for are text.
        metrics = {k: v for k, v in found["results"][name].items() if "," in k}
        runs[str(number)] = {k: float(v) for k, v in metrics.items() if isinstance(v, Real)}
        samples.append(found["samples"][name])
    keys = list(next(iter(runs.values())))
    key = next((k for share in SHARES for k in keys if k.startswith(f"{share},")), keys[0])
    metric, _, filtered = key.partition(",")
    unit = 100.0 if metric in SHARES else 1.0
    answers = [[s[metric] for s in run if s["filter"] == filtered] for run in samples]  # (R, n)
    spread = None
    if metric in SHARES and len(answers[0]) > 1:
        spread = unit * mean_stderr(np.mean(answers, axis=0).tolist())
    return {
        "score": math.fsum(unit * run[key] for run in runs.values()) / len(runs),
        "standard_error": spread,
        "metric": key.removesuffix(",none"),
        "questions": len(answers[0]),
        "runs": runs,
    }


def average_of(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """Returns the mean score of the paper's benchmarks among the tasks, in percent; None without.

    Its standard error is ``sqrt(sum_k e_k^2) / K`` for K benchmarks with independent questions.
    """
    ours = {label: result for label, result in tasks.items() if label in PILE13}
    if not ours:
        return None
    errors = [result["standard_error"] for result in ours.values()]
    return {
        "score": average_score({label: result["score"] for label, result in ours.items()}),
        "standard_error": None if None in errors else math.hypot(*errors) / len(errors),
        "questions": sum(result["questions"] for result in ours.values()),
    }


def scores_table(tasks: Mapping[str, Mapping[str, Any]], cases: Sequence[int]) -> str:
    """Returns scores as text, with their average, beside those of the paper's cases in percent."""
    import pandas

    columns = {"metric": object, "score": float, "standard_error": float, "questions": int}
    table = pandas.DataFrame(list(tasks.values()), index=list(tasks))[[*columns]].astype(columns)
    for case in cases:
        table = table.join(pandas.DataFrame(benchmark_scores(case)).add_suffix(f" ({case})"))
    if average := average_of(tasks):
        ours = table.loc[[label for label in tasks if label in PILE13]]
        table.loc[f"average of {len(ours)}"] = {**ours.mean(numeric_only=True), **average}
    whole = {"questions": "{:,.0f}".format}
    return table.to_string(float_format="{:.2f}".format, formatters=whole, na_rep="")
