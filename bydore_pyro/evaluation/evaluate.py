"""Scores of a language model on benchmarks, its bits per byte of answers, and its loss on text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bydore_pyro import proxy, targets, terminal
from bydore_pyro.errors import DataError, expecting, require
from bydore_pyro.evaluation.answers import Questions, answer_scores, read_questions
from bydore_pyro.evaluation.config import PILE13, EvaluationConfig
from bydore_pyro.evaluation.text import Context, Document, context_of, read_documents, text_loss

MODEL_FOLDER = "Expected a model's folder (a training leaves it in model)"


def load_model(folder: Path, device: str = "auto") -> tuple[Any, Any]:
    """Loads `config.json`, safetensors and a tokenizer from a folder, without running its code.

    Raises:
        DataError: When one of the three is missing, cannot be read or does not fit the others.
    """
    from transformers import AutoTokenizer

    place = terminal.device_named(device)
    with expecting(f"{MODEL_FOLDER} as {folder}, found:"), targets.quiet_lm_eval():
        tokenizer = AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
        model = proxy.load_weights(folder, local_files_only=True)
        if len(tokenizer) > (size := model.config.vocab_size):
            raise ValueError(f"{size} tokens, fewer than the tokenizer's {len(tokenizer)}")
    return model.to(place), tokenizer


def evaluate_model(
    model: Any,
    tokenizer: Any,
    config: EvaluationConfig,
    kept: Mapping[str, Mapping[str, Any]] | None = None,
    keep: Callable[[dict[str, Any]], None] = lambda tasks: None,
) -> dict[str, Any]:
    """Scores a model on benchmarks, tasks and files of text, after checking all and what they hold.

    Of one of the paper's benchmarks there is a run for each number of examples. A score is the mean
    over questions of the share of runs that answer it correctly; its standard error is of this
    mean, as runs are not independent.

    Args:
        model, tokenizer: Of transformers; the model is causal, and on its device.
        config: What it is scored on.
        kept: The results that an interrupted evaluation passed to `keep`. They are not computed
            again.
        keep: Called after every task with the results so far.

    Returns:
        By the paper's name of a benchmark: `task` (lm-eval's name), `score` and `standard_error` in
        percent, `metric` (`acc_norm` where lm-eval has it, else `acc`: RegMix's rule),
        `questions`, `seed`, and `runs`, the score in percent by number of examples. By the name of
        another task, or by file, what `answer_scores` returns, and `target`, its name as a target;
        by file of plain text, what `text_loss` returns.

    Raises:
        DataError: When lm-eval is not installed, or data is not there or not what it must be.

    References:
        RegMix (arXiv 2407.01492), and evaluation/eval_lm_eval_harness.sh of its repository.
    """
    tasks, ready, scored = dict(kept or {}), {}, None
    context = context_of(model, config.sequence_length)
    asked, texts = _read(config, tokenizer, context)
    if config.names:
        lm = require("lm_eval.models.huggingface", "evaluation").HFLM
        with targets.quiet_lm_eval():
            ready = {name: _checked_task(name, config) for name in config.names}
            scored = lm(
                pretrained=model,
                tokenizer=tokenizer,
                batch_size=config.batch_size,
                max_length=context.tokens,
            )
    for name, task in ready.items():
        if (label := PILE13[name].title) not in tasks:
            with (
                expecting(f"Expected questions of {name} that lm-eval can ask, found:"),
                targets.quiet_lm_eval(),
            ):
                tasks[label] = _score(scored, name, task, config)
            keep(tasks)
    for label, questions in asked.items():
        if label not in tasks:
            tasks[label] = {
                "target": questions.name,
                **answer_scores(model, questions, context.tokens, config.batch_size),
            }
            keep(tasks)
    for file, documents in texts.items():
        if file not in tasks:
            tasks[file] = text_loss(model, documents, config.batch_size)
            keep(tasks)
    return tasks


def _read(
    config: EvaluationConfig, tokenizer: Any, context: Context
) -> tuple[dict[str, Questions], dict[str, list[Document]]]:
    """Returns questions by the label of their task, and documents by their file."""
    asked, texts = dict[str, Questions](), dict[str, list[Document]]()
    with TemporaryDirectory() as folder:
        if config.entries:
            tokenizer.save_pretrained(folder)
        for entry in config.entries:
            found = read_questions(entry, Path(folder), config)
            asked |= found
            for questions in found.values():
                terminal.tell(f"{questions.name}: {questions.about['source']}")
            if not found and entry.file is not None:
                column = entry.text_column or config.text_column
                texts[entry.file] = read_documents(
                    Path(entry.file), tokenizer, context.text, column, config.limit
                )
    return asked, texts


def _checked_task(name: str, config: EvaluationConfig) -> Any:
    """Returns lm-eval's task, on local data or the hub's; checks that it can ask all questions."""
    from lm_eval import tasks

    _, home, questions, examples = PILE13[name]
    max_fewshot, changed = max(config.num_fewshot), dict[str, Any](task=name)
    if max_fewshot == 0:  # lm-eval opens the examples' split even where it takes none
        changed["fewshot_split"] = examples = questions
    folder, root = Path(config.data_dir or "DATA", name), Path(tasks.__file__).parent
    expected = f"Expected data of {name} with the hub's columns and values"
    if config.data_dir and folder.is_dir():
        data = {
            part: targets.read_split(folder / part, expected)
            for part in sorted({questions, examples})
        }
        changed["custom_dataset"] = lambda **_: data
    elif not config.hub:
        raise DataError(f"Expected a folder {folder} (--data_dir DATA), or --hub, found neither")
    with expecting(f"{expected} in {folder}, found:"):
        manager = tasks.TaskManager(include_defaults=False, include_path=root / home)
        task = manager.load([{"group": "all", "task": [changed]}])["tasks"][name]
        task.fewshot_context(task.eval_docs[0], max_fewshot)  # raises where they are too few
    for number, row in enumerate(task.eval_docs, 1):
        with expecting(f"{expected} in {folder / questions}, row {number}, found:"):
            _require_askable(task, row)
    return task


def _require_askable(task: Any, row: Mapping[str, Any]) -> None:
    """Raises where lm-eval cannot ask or rate a question, or would misread it in silence."""
    if None in row.values():
        raise ValueError("a null")
    if task.OUTPUT_TYPE == "multiple_choice":
        targets.right_choices(task, row)
    task.doc_to_text(row), task.doc_to_target(row)


def _score(model: Any, name: str, task: Any, config: EvaluationConfig) -> dict[str, Any]:
    """Runs a task once for each number of examples; returns its scores."""
    from lm_eval import evaluate

    runs, answers, metric = {}, [], ""
    for number in dict.fromkeys(config.num_fewshot):
        task.set_config("num_fewshot", number)
        task.set_fewshot_seed(targets.EXAMPLES_SEED)
        found = evaluate(model, {"tasks": {name: task}}, config.limit, bootstrap_iters=0)
        metric = "acc_norm" if "acc_norm,none" in found["results"][name] else "acc"
        runs[str(number)] = 100.0 * float(found["results"][name][f"{metric},none"])
        answers.append([sample[metric] for sample in found["samples"][name]])
    shares = 100.0 * np.mean(answers, axis=0)  # of the runs, (n,)
    return {
        "task": name,
        "score": math.fsum(runs.values()) / len(runs),
        "standard_error": math.sqrt(shares.var() / max(len(shares) - 1, 1)),
        "metric": metric,
        "questions": len(shares),
        "runs": runs,
        "seed": targets.EXAMPLES_SEED,
    }


def average_of(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, float] | None:
    """Returns the mean score of K benchmarks and its error, ``sqrt(sum_k e_k^2) / K``, in percent;
    None without a benchmark."""
    scored = [(t["score"], t["standard_error"]) for t in tasks.values() if "score" in t]
    if not scored:
        return None
    score, error = _mean_of(scored)
    return {"score": score, "standard_error": error}


def mean_bits_per_byte(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, float] | None:
    """Returns the mean over K tasks of the bits per byte of their answers, and its error, as
    `average_of`; None without such a task."""
    name = "bits_per_byte"
    scored = [(t[name], t[f"{name}_standard_error"] or 0.0) for t in tasks.values() if name in t]
    if not scored:
        return None
    mean, error = _mean_of(scored)
    return {name: mean, f"{name}_standard_error": error}


def _mean_of(scored: list[tuple[float, float]]) -> tuple[float, float]:
    scores, errors = zip(*scored, strict=True)
    return float(np.mean(scores)), math.hypot(*errors) / len(errors)
