"""``bydore evaluate``: a trained model's scores on benchmarks and tasks, and its loss on text."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

from bydore_pyro import terminal
from bydore_pyro.command_line import Checked, one_line_errors, option, parse_options
from bydore_pyro.data import file_sha256
from bydore_pyro.evaluation import EvaluationConfig
from bydore_pyro.files import (
    FolderLock,
    Kept,
    appearing_file,
    content_hash,
    kept_series,
    provenance,
    require_new_file,
)

# What `--help` lists.
COMMON = (
    *("tasks", "num_fewshot", "limit", "data_dir", "hub", "sequence_length", "batch_size"),
    *("device", "out"),
)

NAME = "bydore evaluate"
MODEL_FILE = re.compile(r".*\.(safetensors|model|txt|jinja)|(config|tokenizer.*|vocab)\.json")


@dataclass(frozen=True, kw_only=True)
class ScoresConfig(Checked):
    """Which model is scored, and where the scores go."""

    folder: str = option(
        MISSING, "The model as transformers saves it, with its tokenizer.", positional="DIR"
    )
    out: str | None = option(None, "New file for the scores. Default: scores.json in DIR.")
    run: str | None = option(
        None,
        "Folder of a search: what it predicted of its targets in bits per byte stands beside what "
        "is measured of tasks of the same names.",
    )


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """All options of `bydore evaluate`."""

    evaluation: EvaluationConfig
    scores: ScoresConfig


@one_line_errors(NAME)
def evaluate_command(arguments: Sequence[str]) -> None:
    """Scores a trained model on benchmarks and tasks, and measures its loss on text. Each finished
    task is saved; the same command continues an evaluation that was stopped."""
    about = evaluate_command.__doc__ or ""
    options = parse_options(arguments, NAME, about, EvaluateOptions, common=COMMON)
    folder = Path(options.scores.folder)
    out = Path(options.scores.out) if options.scores.out else folder / "scores.json"
    require_new_file(out)
    with FolderLock(out.parent / f".{out.name}.partial"):  # another would overwrite the scores
        require_new_file(out)
        with terminal.told_if_stopped("What was scored is kept. Go on with the same command"):
            tasks = _evaluate(folder, out, options.evaluation, options.scores.run)
    from bydore_pyro.evaluation import average_of, mean_bits_per_byte

    told = dict(tasks)
    for key, what, mean in (
        ("score", "average", average_of(tasks)),
        ("bits_per_byte", "mean", mean_bits_per_byte(tasks)),
    ):
        if mean and (key == "score" or sum(key in one for one in tasks.values()) > 1):
            told[f"{what} of {sum(key in one for one in tasks.values())}"] = mean
    width = max(14, 1 + max(map(len, told)))
    for name, result in told.items():
        print(f"{name:<{width}}{_as_text(result)}")
    print(f"\nIn {out}.")


def _as_text(result: Mapping[str, Any]) -> str:
    if "score" in result:
        return f"{result['score']:6.2f} ± {result['standard_error']:.2f}"
    known = {
        "loss_nats_per_token": ("{} nats per token", ".4f"),
        "loss_nats_per_byte": ("{} nats per byte", ".4f"),
        "bits_per_byte": ("{} bits per byte", ".4f"),
        "accuracy": ("accuracy {} %", ".2f"),
        "accuracy_per_byte": ("{} % by bytes", ".2f"),
    }
    parts = []
    for name, (form, digits) in known.items():
        if name in result:
            error = result[f"{name}_standard_error"]
            sure = "" if error is None else f" ± {error:{digits}}"
            parts.append(form.format(f"{result[name]:{digits}}{sure}"))
    told = ", ".join(parts)
    if cut := result.get("cut"):
        told += f"; {cut:,} of {result.get('questions', result.get('documents')):,} cut"
    if "predicted_bits_per_byte" in result:
        low, high = (result[f"predicted_bits_per_byte_{end}"] for end in ("low", "high"))
        told += f"; predicted {result['predicted_bits_per_byte']:.4f} ({low:.4f} to {high:.4f})"
    return told


def _evaluate(folder: Path, out: Path, config: EvaluationConfig, run: str | None) -> dict[str, Any]:
    from bydore_pyro.evaluation import (
        average_of,
        context_of,
        evaluate_model,
        load_model,
        mean_bits_per_byte,
        predictions_of,
    )

    predicted = predictions_of(Path(run)) if run else None
    unfinished = out.with_name(f"{out.stem}.unfinished")
    made_by = provenance(("lm-eval", "accelerate"))
    data = Path(config.data_dir) if config.data_dir else None
    data_files = [p for task in _of_lm_eval(config) for p in data.glob(f"{task}/*")] if data else []
    identity = {
        "model_sha256": _sha256(p for p in folder.glob("*") if MODEL_FILE.fullmatch(p.name)),
        "text_sha256": _sha256(map(Path, config.files)) if config.files else None,
        "data_sha256": _sha256(data_files) if data else None,
        "config": dataclasses.asdict(config),
    }
    key = {**identity, "packages": made_by["versions"]}
    before = [task for _, task in kept_series(unfinished, "task", key)]
    begun = time.perf_counter() - (before[-1]["seconds"] if before else 0.0)

    model, tokenizer = load_model(folder, config.device)
    context = context_of(model, config.sequence_length)
    terminal.tell(f"{folder}: {context}")

    def keep(tasks: dict[str, Any]) -> None:
        label, result = list(tasks.items())[-1]
        task = {"label": label, "result": result, "seconds": time.perf_counter() - begun}
        Kept(unfinished / f"task-{len(tasks)}", key).put(task)
        is_score = "score" in result
        found = f"{result['metric']} {result['score']:.2f}" if is_score else _as_text(result)
        terminal.tell(f"{label}: {found}")

    scored = {task["label"]: task["result"] for task in before}
    tasks = evaluate_model(model, tokenizer, config, scored, keep)
    if predicted:
        tasks = predicted.beside(tasks)
        terminal.tell(predicted.told(tasks))
    content = {
        "model": str(folder),
        "run": run,
        **identity,
        "context": context._asdict(),
        **made_by,
    }
    content["tasks"] = tasks
    content |= {"average": average_of(tasks), "mean": mean_bits_per_byte(tasks)}
    content["seconds"] = time.perf_counter() - begun
    with appearing_file(out) as aside:
        text = json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False)
        aside.write_text(text + "\n", encoding="utf-8")
    shutil.rmtree(unfinished, ignore_errors=True)
    return tasks


def _of_lm_eval(config: EvaluationConfig) -> list[str]:
    """The tasks of lm-eval that are scored, those of groups one by one."""
    from bydore_pyro.targets import members_of

    named = (entry.task for entry in config.entries if entry.task)
    return [*config.names, *(one for name in named for one in members_of(name))]


def _sha256(paths: Iterable[Path]) -> str:
    """Hashes files and their names; what is missing fails at loading."""
    files = sorted(path for path in paths if path.is_file())
    return content_hash([(path.name, file_sha256(path)) for path in files])
