"""What a model is scored on: the paper's 13 benchmarks, files of text, and the options."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bydore_pyro import data, targets
from bydore_pyro.command_line import Checked, option


class Benchmark(NamedTuple):
    """One of the paper's benchmarks.

    Attributes:
        title: In the paper.
        folder: Among lm-eval's task files.
        questions: The split of the questions.
        examples: The split of the examples before a question.
    """

    title: str
    folder: str
    questions: str
    examples: str


# By lm-eval's name. lm-eval 0.4.13 takes MultiRC's "no" for right where an answer is labelled
# correct.
PILE13 = {
    "social_iqa": Benchmark("Social IQA", "siqa", "validation", "train"),
    "hellaswag": Benchmark("HellaSwag", "hellaswag", "validation", "train"),
    "piqa": Benchmark("PIQA", "piqa", "validation", "train"),
    "openbookqa": Benchmark("OpenBookQA", "openbookqa", "test", "train"),
    "lambada_standard": Benchmark("LAMBADA", "lambada", "test", "validation"),
    "sciq": Benchmark("SciQ", "sciq", "test", "train"),
    "arc_easy": Benchmark("ARC-Easy", "arc", "test", "train"),
    "copa": Benchmark("COPA", "super_glue/copa", "validation", "train"),
    "race": Benchmark("RACE", "race", "test", "test"),
    "logiqa": Benchmark("LogiQA", "logiqa", "test", "train"),
    "qqp": Benchmark("QQP", "glue/qqp", "validation", "train"),
    "winogrande": Benchmark("WinoGrande", "winogrande", "validation", "train"),
    "multirc": Benchmark("MultiRC", "super_glue/multirc", "validation", "train"),
}


# A comma before an option of a task, such as "mmlu,shots=5", separates none.
SEPARATOR, OPTION = re.compile(r",(?!\w+=)"), re.compile(r",(?=\w+=)")


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig(Checked):
    """What a model is scored on, and how.

    Raises:
        ValueError: When a task is written in a way that says nothing, or with a share.
    """

    tasks: list[str] = option(
        ["pile13"],
        "'pile13' (the paper's 13 benchmarks) or some of them by name, scored by lm-eval; for bits "
        "per byte of right answers, and accuracy: other tasks of lm-eval (NAME, NAME,shots=5, or "
        "task:NAME), files of questions and answers; for the loss on text: files of plain text.",
    )
    text_column: str = option("text", "Column of the text in files of plain text.")
    data_dir: str | None = option(
        None,
        "Folder with TASK/SPLIT.jsonl or .parquet, also as SPLIT-00000-of-00001.parquet, with the "
        "columns of the hub's data.",
    )
    hub: bool = option(False, "Fetch from the hub what --data_dir does not hold.")
    # RegMix's. The paper calls its scores zero-shot, but of COPA's 100 questions all are sixths.
    num_fewshot: list[int] = option(
        [*range(6)], "Numbers of examples before the question; a score is their mean.", least=0
    )
    limit: int | None = option(
        None, "Score only the first N questions or rows. Default: all.", least=1
    )
    sequence_length: int | None = option(
        None,
        "Tokens of the longest context. Default: the length at which bydore train has trained the "
        "model; for another model its max_position_embeddings, for documents at most 2,048.",
        least=2,
    )
    batch_size: int = option(16, "Sequences in a batch.", least=1)
    device: str = option("auto", "'cpu', 'cuda', or 'auto': a GPU if there is one.")

    def __post_init__(self) -> None:
        super().__post_init__()
        for entry in self.entries:
            if entry.share != 1 or entry.score != "answer":
                raise ValueError(
                    "Expected tasks without a share and without score=, which evaluate nothing, "
                    f"actual '{entry}'"
                )
            if entry.file and not data.is_row_file(Path(entry.file)):
                raise ValueError(
                    f"Expected a file of rows (.jsonl, .parquet) as a task, actual {entry.file!r}"
                )

    @property
    def _each(self) -> list[str]:
        """The tasks; like lm-eval's they may be joined by commas."""
        split = ([one] if Path(one).exists() else SEPARATOR.split(one) for one in self.tasks)
        return [*dict.fromkeys(task for tasks in split for task in tasks)]

    @property
    def names(self) -> list[str]:
        """lm-eval's names of the benchmarks."""
        return [name for name in PILE13 if name in self._each or "pile13" in self._each]

    @property
    def entries(self) -> list[targets.Entry]:
        """All others: tasks of lm-eval, and files of rows."""
        found = []
        for task in self._each:
            if task not in ("pile13", *PILE13):
                target = OPTION.split(task)[0]
                is_file = data.name_of_validation_file(target) is not None
                named = is_file or task.startswith("task:")
                found.append(targets.Entry.of(task if named else f"task:{task}"))
        return found

    @property
    def files(self) -> list[str]:
        """The files of rows, each once."""
        return [*dict.fromkeys(entry.file for entry in self.entries if entry.file)]
