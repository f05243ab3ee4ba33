"""What a model is scored on, and how: the options, by name."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["EvaluationConfig"]


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig:
    """What a model is scored on, and how."""

    tasks: list[str] = field(
        default_factory=lambda: ["pile13"],
        metadata={"help": "'pile13' (the paper's 13 benchmarks), or tasks of lm-eval by name."},
    )
    include_path: str | None = field(
        default=None, metadata={"help": "Folder of further task files in lm-eval's format."}
    )
    allow_task_code: bool = field(
        default=False,
        metadata={"help": "Runs the Python that the task files of --include_path name."},
    )
    data_dir: str | None = field(
        default=None,
        metadata={
            "help": "Folder with data instead of the hub's: TASK/SPLIT.jsonl or .parquet, by "
            "lm-eval's names of tasks, with the columns of the hub's data set."
        },
    )
    hub: bool = field(
        default=False,
        metadata={
            "help": "Fetches what is neither in --data_dir nor in this machine's cache from the "
            "Hugging Face hub; without it nothing is asked of the network."
        },
    )
    num_fewshot: list[int] | None = field(
        default=None,
        metadata={
            "help": "Numbers of examples before the question; a score is the mean over them. If "
            "not given, 0 1 2 3 4 5 for pile13, as RegMix's, and else the task's own."
        },
    )
    limit: int | None = field(
        default=None,
        metadata={"help": "First questions of each task that are asked; all if not given."},
    )
    batch_size: int = field(default=16, metadata={"help": "Sequences in a batch."})
    seed: int = field(
        default=1234, metadata={"help": "Seed that chooses the examples; lm-eval's is 1234."}
    )
    device: str = field(
        default="auto", metadata={"help": "'cpu', 'cuda', or 'auto': a GPU if there is one."}
    )
    cases: list[int] = field(
        default_factory=list,
        metadata={"help": "Cases of the paper (1, 2) whose scores are shown beside."},
    )

    def __post_init__(self) -> None:
        if not self.tasks or not all(self.tasks):
            raise ValueError("Expected the names of tasks, found none")
        for name in ("include_path", "data_dir", "device"):
            if getattr(self, name) == "":
                raise ValueError(f"Expected a value for --{name}, found an empty one")
        if self.allow_task_code and self.include_path is None:
            raise ValueError("Expected --include_path with --allow_task_code, found none")
        if self.num_fewshot is not None and (
            not self.num_fewshot or not all(0 <= number <= 1000 for number in self.num_fewshot)
        ):
            raise ValueError(f"Expected num_fewshot in [0, 1000], actual {self.num_fewshot}")
        for name in ("limit", "batch_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"Expected {name} >= 1, actual {value}")
        if not {*self.cases} <= {1, 2}:
            raise ValueError(f"Expected cases 1 or 2, actual {self.cases}")
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"Expected seed in [0, 2**31), actual {self.seed}")
