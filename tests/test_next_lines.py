"""Every line that a command prints to go on with is run, and means what was just shown."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from quick import PROXY, quickly
from tiny import write_domains, write_lines

from bydore_pyro.cli.main import main
from bydore_pyro.mixture import mixture_from

# What makes a printed line quick, and keeps it off the network. What was said before stays.
QUICKLY = {
    "export": [],
    "search": [],
    "train": ["--model", str(PROXY), "--loader_workers", "0"],
    "evaluate": ["--tasks", "judged.jsonl", "--device", "cpu"],
    "prepare": ["--processes", "0"],
    "ask": ["--validation_sequences", "16"],
}
SEARCH = [
    "--smoke",
    "--steps",
    "40",
    "--round_sequences",
    "32",
    "--trials",
    "0",
    "--proxy",
    str(PROXY),
]
Lines = Callable[..., list[list[str]]]


@pytest.fixture
def lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Lines:
    """Runs a command here; returns the words of the lines that it prints to go on with."""
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "judged.jsonl", [{"text": "abc abd"}])

    def lines(*given: object) -> list[list[str]]:
        capsys.readouterr()
        with quickly():
            main([str(one) for one in given])
        _, _, following = capsys.readouterr().out.partition("Next:")
        printed = (line.strip() for line in following.splitlines())
        return [shlex.split(line) for line in printed if line.startswith("bydore ")]

    return lines


def run_all(lines: Lines, printed: list[list[str]], *but: str) -> dict[str, list[list[str]]]:
    """Runs lines in their order, but those of some commands; returns all lines by command."""
    found: dict[str, list[list[str]]] = {}
    for words in printed:
        found.setdefault(words[1], []).append(words)
        if words[1] not in but:
            lines(*words[1:], *QUICKLY[words[1]])
    return found


def remove_what_lines_wrote() -> None:
    """Leaves the printed lines' own places free for the next ones."""
    shutil.rmtree("DIR", ignore_errors=True)
    shutil.rmtree("STORE", ignore_errors=True)
    Path("FILE").unlink(missing_ok=True)


def trained_on(folder: str) -> dict[str, float]:
    """The weights that a training was given, of the domains that have any."""
    (stage,) = json.loads((Path(folder) / "schedule.json").read_text())
    return {name: weight for name, weight in stage["mixture"].items() if weight}


@pytest.mark.slow
def test_from_text_to_a_trained_model(lines: Lines, tmp_path: Path) -> None:
    """In places whose names a shell would take apart."""
    place = tmp_path / "Ann's text" / "of two"
    write_domains(place, {"my poems": "abcde", "law & order": "vwxyz", "ключ": "klmno"}, files=30)
    (search,) = lines(
        "prepare", "--data", place, "--out", "a store's", "--vocabulary", "280", "--processes", "0"
    )
    assert search[:4] == ["bydore", "search", "--data", "a store's"]
    printed = lines(*search[1:], *SEARCH, "--out", "my run")
    found = run_all(lines, printed)
    assert [*found] == ["export", "train", "evaluate", "search"]
    assert trained_on("DIR") == {
        name: weight for name, weight in mixture_from("my run").as_dict().items() if weight
    }
    assert (tmp_path / "SEED-1" / "mixture.json").is_file(), "of another seed"


@pytest.mark.slow
def test_after_every_kind_of_run(lines: Lines, store: Path, measured_run: Path, text: Path) -> None:
    """Each answer's lines are for its own weights, on the text that these are of."""
    write_domains(Path("more"), {"d": "fghij", "b": "vwxyz"}, files=30)
    lines(
        "prepare",
        "--data",
        "more",
        "--tokenizer",
        store / "tokenizer",
        "--out",
        "MORE",
        "--processes",
        "0",
    )
    Path("bad.json").write_text('{"c": 0.75, "b": 0.25}')
    asked = {
        "same": [],
        "bounds": ["--at_least", "c=.25", "--at_most", "a=.5"],
        "dropped": ["--drop", "c"],
        "added": ["--add", "MORE"],
        "given": ["--mixture", "bad.json"],
        "uniform": ["--mixture", "uniform", "--against", "bad.json"],
        "longer": ["--target_tokens", "2M"],
        "capped": ["--target_tokens", "40K", "--max_epochs", "3"],
    }
    for name, question in asked.items():
        printed = lines(
            "ask", measured_run, *question, "--validation_sequences", "16", "--out", name
        )
        assert len(printed) >= 3, name
        # A training of 2M tokens takes minutes, and the smallest has been scored above.
        found = run_all(lines, printed, *(["train"] if name == "longer" else []), "evaluate")
        expected = {"given": {"c": 0.75, "b": 0.25}, "uniform": dict.fromkeys("abc", 1 / 3)}
        weights = expected.get(name) or mixture_from(name).as_dict()
        if name != "longer":
            kept = {n: w for n, w in weights.items() if w}
            assert trained_on("DIR") == pytest.approx(kept), name
        exported = Path("FILE").read_text()
        assert all(f"/data/{n}" in exported for n, w in weights.items() if w > 1e-6), name
        assert found["train"]
        remove_what_lines_wrote()
        lines("export", name, "--to", "datasets", "--out", "FILE")  # by the documents it counted
        assert json.loads(Path("FILE").read_text())["names"]
        remove_what_lines_wrote()
    # Text that is not a store, and a method.
    cache = ["--cache", "cache"]
    printed = lines("search", "--data", text, "--validation", "a", *SEARCH, *cache, "--out", "run")
    found = run_all(lines, printed, "search", "evaluate")
    assert [*found] == ["export", "prepare", "train", "evaluate", "search"]
    for data in (store, text):
        remove_what_lines_wrote()
        printed = lines(
            "fit",
            "--method",
            "natural",
            "--data",
            data,
            "--validation",
            "a",
            "--smoke",
            *cache,
            "--out",
            f"natural-{data.name}",
        )
        run_all(lines, printed, "evaluate")
