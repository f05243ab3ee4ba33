"""Small files of tasks, of the schemas that evaluations and the hub write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tiny import write_lines


def halves(text: str) -> tuple[str, str]:
    """A question and its answer, which begins with a space: the two halves of a text."""
    words = text.split(" ")
    middle = len(words) // 2
    return " ".join(words[:middle]), " " + " ".join(words[middle:])


def olmes_file(path: Path, texts: Sequence[str]) -> Path:
    """Requests as OLMES writes them: a right and a wrong answer, and each once more without a
    question."""
    rows = []
    for number, text in enumerate(texts):
        context, answer = halves(text)
        for first, before in ((0, context), (1_000_000, "")):
            for place, continuation in enumerate((answer[::-1], answer)):
                rows.append(
                    {
                        "request_type": "loglikelihood",
                        "doc": {"id": number},
                        "request": {"context": before, "continuation": continuation},
                        "idx": place,
                        "task_name": "own",
                        "doc_id": first + number,
                        "native_id": str(number),
                        "label": 1,
                    }
                )
    return write_lines(path, rows)


def gsm8k_folder(folder: Path, texts: Sequence[str]) -> Path:
    """The hub's columns of GSM8K, a train and a test split, each text's halves as one row."""
    for split in ("train", "test"):
        rows = [dict(zip(("question", "answer"), halves(text), strict=True)) for text in texts]
        for number, row in enumerate(rows):
            row["answer"] = f"{row['answer'].strip()} {split}\n#### {number}"
        write_lines(folder / "gsm8k" / f"{split}.jsonl", rows)
    return folder
