"""What a model is scored on, and how: the options, by name."""

from __future__ import annotations

from dataclasses import dataclass

from bydore_pyro.utils import option, require_fields

__all__ = ["EvaluationConfig"]


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """What a model is scored on, and how."""

    tasks: list[str] = option(
        ["pile13"], "'pile13' (the paper's 13 benchmarks), or the names of lm-eval tasks."
    )
    include_path: str | None = option(None, "Folder of additional task files in lm-eval's format.")
    allow_task_code: bool = option(
        False, "Run the Python code that task files in --include_path refer to."
    )
    data_dir: str | None = option(
        None,
        "Folder with local data to use instead of the hub's: TASK/SPLIT.jsonl or .parquet, with"
        " lm-eval's task names and the columns of the hub's data set.",
    )
    hub: bool = option(
        False,
        "Download from the Hugging Face hub what is neither in --data_dir nor in this machine's"
        " cache. Without it the network is not used.",
    )
    num_fewshot: list[int] | None = option(
        None,
        "Numbers of few-shot examples; a score is the mean over them. Default: 0 1 2 3 4 5 for "
        "pile13, as in RegMix, otherwise the task's own.",
        least=0,
        most=1000,
    )
    limit: int | None = option(
        None, "Score only this many first questions of each task. Default: all.", least=1
    )
    batch_size: int = option(16, "Sequences in a batch.", least=1)
    device: str = option("auto", "'cpu', 'cuda', or 'auto': a GPU if there is one.")
    cases: list[int] = option(
        [], "Cases of the paper (1, 2) whose scores are also shown.", choices=(1, 2)
    )

    def __post_init__(self) -> None:
        require_fields(self)
        if not self.tasks or not all(self.tasks):
            raise ValueError("Expected the names of tasks, found none")
        if self.allow_task_code and self.include_path is None:
            raise ValueError("Expected --include_path with --allow_task_code, found none")
        if self.num_fewshot is not None and not self.num_fewshot:
            raise ValueError("Expected a number for --num_fewshot, found none")
