"""Searches for tasks on one half of their documents; the other half is left to judge by."""

from __future__ import annotations

import dataclasses
import gzip
import random
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path

from common import leave, markdown, run_main, searched

from bydore_pyro.command_line import Checked, option
from bydore_pyro.errors import DataError
from bydore_pyro.files import RunFolder, plain_json
from bydore_pyro.proxy import Cost
from bydore_pyro.setup import Options, begin_run

ABOUT = """Search for many tasks, with several seeds. Half of each task's documents, chosen at
random, are targets (asked/ in --out); task_decisions judges on the other half (judge/), which no
search reads."""
ASKED, JUDGE = "asked", "judge"


@dataclass(frozen=True, kw_only=True)
class TaskSearchesConfig(Checked):
    """What is searched for."""

    tasks: str = option(MISSING, "Folder of tasks: a file of rows each, .jsonl or .jsonl.gz.")
    target_seeds: int = option(5, "Number of searches.", least=1, most=100)
    halves_seed: int = option(0, "Of the choice of documents.", least=0, below=2**31)


@dataclass(frozen=True, kw_only=True)
class TaskSearchesOptions(Options):
    """The options of a search and of the tasks."""

    tasks: TaskSearchesConfig


def halves(rows: Sequence[str], seed: int) -> tuple[list[str], list[str]]:
    """Returns two halves of rows in random order, which share none: the first is the smaller."""
    order = list(rows)
    random.Random(seed).shuffle(order)
    return order[: len(order) // 2], order[len(order) // 2 :]


def write_halves(tasks: Path, out: RunFolder, seed: int) -> dict[str, tuple[int, int]]:
    """Writes both halves of each task; returns how many documents they have, by task.

    Raises:
        DataError: When the folder has no task, or one of fewer than two documents.
    """
    files = sorted(path for path in tasks.glob("*.jsonl*") if path.suffix in (".jsonl", ".gz"))
    if not files:
        raise DataError(f"Expected files of rows (.jsonl, .jsonl.gz) in {tasks}, found none")
    for place in (ASKED, JUDGE):
        (out.path / place).mkdir(exist_ok=True)
    found = {}
    for path in files:
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
        rows = [line for line in text.split("\n") if line.strip()]
        if len(rows) < 2:
            raise DataError(f"Expected at least 2 documents in {path}, found {len(rows)}")
        name = path.name.removesuffix(".gz")
        if name.removesuffix(".jsonl") in found:
            raise DataError(f"Expected one file of each task, found {name} and {name}.gz")
        parts = halves(rows, seed)
        for place, part in zip((ASKED, JUDGE), parts, strict=True):
            out.write_text(f"{place}/{name}", "\n".join(part) + "\n")
        found[name.removesuffix(".jsonl")] = len(parts[0]), len(parts[1])
    return found


def task_searches(options: TaskSearchesOptions, resume: Path | None) -> None:
    """Divides the tasks, and searches for them."""
    folder, cost = begin_run(options, "task_searches", resume), Cost()
    if resume is None:
        folder.write_config("task_searches", options.as_dict())
    count = write_halves(Path(options.tasks.tasks), folder, options.tasks.halves_seed)
    asked = [str(folder.path / ASKED / f"{name}.jsonl") for name in count]
    read = sum(first for first, _ in count.values())
    run = dataclasses.replace(options.run, validation_sequences=read)
    own = dataclasses.replace(options, run=run)
    searches = []
    for seed in range(options.run.seed, options.run.seed + options.tasks.target_seeds):
        path = folder.path / f"seed-{seed}"
        searched(own, path, seed, asked)
        cost.add(plain_json((path / "metrics.json").read_text(encoding="utf-8"))["search"]["parts"])
        searches.append(path.name)
    rows = [[name, *map(str, both)] for name, both in count.items()]
    content = {"searches": searches, "documents": count}
    leave(folder, options, content, cost, markdown(["task", "asked", "judge"], rows))


if __name__ == "__main__":
    run_main(
        *(task_searches, "task_searches", ABOUT, TaskSearchesOptions),
        resumable=True,
        steps=320,
        batch_sequences=16,
        trials=0,
    )
