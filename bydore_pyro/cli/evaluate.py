"""``bydore evaluate``: a trained model's scores on benchmarks."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bydore_pyro.data import file_sha256
from bydore_pyro.evaluation import (
    EvaluationConfig,
    evaluate_model,
    scores_table,
)
from bydore_pyro.utils import (
    FolderLock,
    RunFolderError,
    appearing_file,
    asks_for_help,
    content_hash,
    one_line_errors,
    option,
    parse_options,
    provenance,
    require_fields,
    require_new_file,
    resumed_run,
    tell,
)

__all__ = ["COMMON", "EvaluateOptions", "ScoresConfig", "evaluate_command"]

# What `--help` lists; `--help-all` adds the others.
COMMON = ("tasks", "num_fewshot", "limit", "data_dir", "hub", "batch_size", "device", "out")

NAME = "bydore evaluate"
MODEL_FILE = re.compile(r".*\.(safetensors|model|txt|jinja)|(config|tokenizer.*|vocab)\.json")
UNFINISHED = ".unfinished"  # before the suffix of the scores' file, while tasks are left


@dataclass(frozen=True, kw_only=True)
class ScoresConfig:
    """Where the scores go."""

    out: str | None = option(None, "New file for the scores. Default: scores.json in DIR.")

    def __post_init__(self) -> None:
        require_fields(self)


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """All options of `bydore evaluate`."""

    evaluation: EvaluationConfig
    scores: ScoresConfig


@one_line_errors(NAME)
def evaluate_command(arguments: Sequence[str]) -> None:
    """Scores a trained model on benchmarks. DIR holds the model as transformers saves it, with its
    tokenizer. Each finished task is saved; --resume FILE, without other options, continues an
    evaluation that was stopped."""
    if (unfinished := resumed_run(arguments)) is not None:
        folder, out, config, before = _begun(unfinished)
    else:
        first, *rest = arguments or [""]
        if not asks_for_help(arguments) and (not first or first.startswith("-")):
            raise ValueError(f"Expected the folder of a model first, found {first or 'nothing'}")
        given, about = (
            arguments if asks_for_help(arguments) else rest,
            evaluate_command.__doc__ or "",
        )
        options = parse_options(
            given, NAME, about, EvaluateOptions, common=COMMON, called=f"{NAME} DIR"
        )
        folder, config, before = Path(first), options.evaluation, {}
        out = Path(options.scores.out) if options.scores.out else folder / "scores.json"
        unfinished = out.with_name(f"{out.stem}{UNFINISHED}{out.suffix}")
        if unfinished.exists():
            raise RunFolderError(
                f"Expected no unfinished scores, found {unfinished}: continue with "
                f"--resume {unfinished}, delete the file, or name another one with --out"
            )
    require_new_file(out)
    with FolderLock(out.parent / f".{out.name}.partial"):  # another would overwrite the scores
        require_new_file(out)
        _evaluate(folder, out, config, unfinished, before)


def _evaluate(
    folder: Path, out: Path, config: EvaluationConfig, unfinished: Path, before: Mapping[str, Any]
) -> None:
    """Scores, keeps every task that is done, and writes and prints the scores."""
    made_by = provenance(("lm-eval", "accelerate"))
    identity = {"model": str(folder), "model_sha256": _model_sha256(folder)}
    for key, now in (("model_sha256", identity["model_sha256"]), ("versions", made_by["versions"])):
        if before.get(key, now) != now:
            raise RunFolderError(
                f"Expected the {key} recorded in {unfinished}, found others: start a new evaluation"
            )
    begun, spent = time.perf_counter(), before.get("seconds", 0.0)

    def seconds() -> float:
        return spent + time.perf_counter() - begun

    def keep(tasks: dict[str, Any]) -> None:
        config_ = dataclasses.asdict(config)
        part = {"out": str(out), "config": config_, "tasks": tasks, "seconds": seconds()}
        _write(unfinished, {**identity, **part, **made_by})

    try:
        scores = evaluate_model(folder, config, tell=tell, kept=before.get("tasks"), keep=keep)
    except BaseException:
        if unfinished.is_file():
            tell(f"{NAME}: what is done is kept: bydore evaluate --resume {unfinished}")
        raise
    _write(out, {**identity, **scores, "seconds": seconds(), **made_by})
    unfinished.unlink(missing_ok=True)
    print(scores_table(scores))
    print(f"\nIn {out}.")


def _begun(path: Path) -> tuple[Path, Path, EvaluationConfig, dict[str, Any]]:
    """Returns the model's folder, the scores' file, the options and all that is kept.

    Raises:
        RunFolderError: When there is no evaluation that was stopped.
    """
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
        config = EvaluationConfig(**before["config"])
        if not all(isinstance(task, dict) for task in before["tasks"].values()):
            raise ValueError("tasks without scores")
        return Path(before["model"]), Path(before["out"]), config, before
    except (OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise RunFolderError(
            f"Expected the scores of a stopped evaluation, found {path}: {reason}"
        ) from None


def _model_sha256(folder: Path) -> str:
    """Hashes a model's configuration, weights and tokenizer; missing files fail at loading."""
    files = [
        path
        for path in sorted(folder.glob("*"))
        if path.is_file() and MODEL_FILE.fullmatch(path.name)
    ]
    return content_hash({path.name: file_sha256(path) for path in files})


def _write(path: Path, content: Mapping[str, Any]) -> None:
    with appearing_file(path) as aside:
        text = json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False)
        aside.write_text(text + "\n", encoding="utf-8")
