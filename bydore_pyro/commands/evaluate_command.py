"""``bydore evaluate``: a trained model's scores on benchmarks, beside the paper's."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bydore_pyro.command_line import one_line_errors, parse_options, tell
from bydore_pyro.evaluation import EvaluationConfig, evaluate_model, scores_table
from bydore_pyro.files import appearing_file, require_new_file
from bydore_pyro.folder_lock import FolderLock
from bydore_pyro.run_folder import provenance

__all__ = ["EvaluateOptions", "ScoresConfig", "evaluate_command"]


@dataclass(frozen=True, kw_only=True)
class ScoresConfig:
    """Where the scores go."""

    out: str | None = field(
        default=None,
        metadata={"help": "File of the scores; scores.json in DIR if not given. It must be new."},
    )

    def __post_init__(self) -> None:
        if self.out == "":
            raise ValueError("Expected a value for --out, found an empty one")


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """All options of `bydore evaluate`."""

    evaluation: EvaluationConfig
    scores: ScoresConfig


def evaluate_command(arguments: Sequence[str]) -> None:
    """Scores a trained model on benchmarks, beside the paper's: bydore evaluate DIR --tasks pile13.
    DIR holds the model as transformers saves it, with its tokenizer."""
    name = "bydore evaluate"

    with one_line_errors(name):
        first, *rest = arguments or [""]
        wants_help = bool({*arguments} & {"-h", "--help"})
        if not wants_help and (not first or first.startswith("-")):
            raise ValueError(f"Expected the folder of a model first, found {first or 'nothing'}")
        given = ["--help"] if wants_help else rest
        options = parse_options(given, name, evaluate_command.__doc__ or "", EvaluateOptions)
        folder = Path(first)
        out = Path(options.scores.out) if options.scores.out else folder / "scores.json"
        require_new_file(out)
        begun = time.perf_counter()
        with FolderLock(out.parent / f".{out.name}.partial"):  # another would overwrite the scores
            require_new_file(out)
            scores = evaluate_model(folder, options.evaluation, tell=tell)
            seconds, made_by = time.perf_counter() - begun, provenance()
            for package in ("lm-eval", "accelerate"):
                made_by["versions"][package] = version(package)
            _write(out, {"model": str(folder), **scores, "seconds": seconds, **made_by})
        print(scores_table(scores))
        print(f"\nIn {out}.")


def _write(path: Path, content: dict[str, Any]) -> None:
    with appearing_file(path) as aside:
        text = json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False)
        aside.write_text(text + "\n", encoding="utf-8")
