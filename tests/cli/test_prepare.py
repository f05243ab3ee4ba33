"""`bydore prepare` as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny import row, write_domains, write_lines

from bydore_pyro.cli.prepare import PrepareConfig, files_table, prepare_command
from bydore_pyro.data.plan import make_plan
from bydore_pyro.data.store import open_store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_domains(tmp_path / "text", {"a": "abcde", "b": "vwxyz"}, files=20)
    return tmp_path / "text"


def test_prepare_builds_a_store(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: Callable[..., str]
) -> None:
    out = tmp_path / "store"
    options = ["--data", str(folder), "--out", str(out), "--vocabulary", "280"]
    prepare_command([*options, "--processes", "0"])
    store, told = open_store(out), capsys.readouterr()
    for name in ("a", "b"):
        assert f"{len(store.train[name]):,}" in told.out
    assert "Warning" not in told.err
    assert f"Next: bydore search --data {out} --validation " in told.out
    told = f"bydore prepare: error: Expected a new folder for the store, found {out}"
    assert refused("prepare", *options) == told


def test_help_loads_no_model_tokenizer_or_reader_of_data() -> None:
    code = (
        "import contextlib, io, sys; from bydore_pyro.cli.main import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "    main(['prepare', '--help'])\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"torch", "transformers", "datasets", "tokenizers", "pyarrow", "pandas", "ray"}
    assert not heavy & {*done.stdout.split()}


def test_of_one_domain_no_search_is_proposed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = write_domains(tmp_path / "text", {"a": "abcde"}, files=20)
    options = ["--vocabulary", "280", "--processes", "0", "--out", str(tmp_path / "out")]
    prepare_command(["--data", str(text), *options])
    told = capsys.readouterr().out
    assert "A search needs two domains or more; bydore ask RUN --add " in told
    assert "Next:" not in told


def test_a_sample_is_told_with_what_it_is_of(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: Callable[..., str]
) -> None:
    write_lines(folder / "c.jsonl", [row("c", i) for i in range(3000)])
    options = ["--data", str(folder), "--processes", "0", "--vocabulary", "280", "--tokens", "0.2M"]
    prepare_command([*options, "--out", str(tmp_path / "out")])
    told = capsys.readouterr().out.splitlines()
    assert "in all, about" in told[0]
    assert "±" not in told[1] + told[2]
    size = open_store(tmp_path / "out").size("c")
    assert f"{size:,} ± " in told[3]
    for few in ("0.5", "0", "-1", "1e30", "many", "nan"):
        given = ("--data", "x", "--out", tmp_path / "more", "--tokens", few)
        assert "xpected tokens" in refused("prepare", *given)
    told = refused("prepare", *options, "--out", tmp_path / "more", "--domain_megabytes", "1")
    assert told.endswith("Expected --tokens or --domain_megabytes, found both")


def test_a_bad_row_names_its_place(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: Callable[..., str]
) -> None:
    path = write_lines(folder / "c.jsonl", [row("c", 1), {"text": 3}, row("c", 2)])
    options = ["--data", str(folder), "--out", str(tmp_path / "out"), "--processes", "0"]
    expected = f"Expected text in column 'text', found int, {path}, line 2"
    assert refused("prepare", *options) == f"bydore prepare: error: {expected}"
    prepare_command([*options, "--on_error", "skip"])
    assert capsys.readouterr().out.splitlines()[3].split()[-1] == "1"
    told = refused("prepare", "--data", "megatron:x", "--out", tmp_path / "more")
    assert "text, found token shards (megatron:x), which bydore search" in told
    with pytest.raises(ValueError, match="Expected a value for --out"):
        PrepareConfig(data="x", out="")


def test_the_table_says_which_files_are_which_side(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And what was left out, by reason; where no name decides, one line says so."""
    out = ["--processes", "0", "--vocabulary", "280", "--out"]
    prepare_command(["--data", str(folder), *out, str(tmp_path / "plain")])
    assert "No file's name says what to hold out" in capsys.readouterr().out
    for name in ("train", "validation_matched", "test"):
        write_lines(folder / f"law/{name}.jsonl", [row(name, i, code="x = 1") for i in range(9)])
    write_lines(folder / "chat.jsonl", [{"text": "Yes."}, {"text": ""}, {"text": "No."}])
    (folder / "a/30.txt").write_text('{"text": "of a note"}')
    prepare_command(["--data", str(folder), *out, str(tmp_path / "out")])
    shown = capsys.readouterr().out.splitlines()
    cells = {line.split()[0]: line.split()[1:] for line in shown if line}
    assert cells["files"] == ["train", "held", "out", "drawn", "left", "out"]
    assert cells["law"] == ["1", "1", "0", "1", "(test", "split", "1)"]
    assert cells["a"] == ["0", "0", "21", "0"]
    first = {line.split()[0]: line.split()[1:] for line in shown[1:5]}
    assert first["chat"][2:] == ["2", "0", "0", "0", "1", "0"], "short rows stay"
    assert "Held out: law/validation_matched.jsonl." in shown
    assert "Left out (test split): law/test.jsonl." in shown
    assert "law: text is read from the column 'text', not from code." in shown
    assert "a: looks like JSON and is read as text, as its ending says." in shown


def test_the_table_of_many_domains_names_those_in_which_names_decide(tmp_path: Path) -> None:
    for number in range(30):
        write_lines(tmp_path / f"{number:02}/a.jsonl", [row(str(number), i) for i in range(2)])
    assert files_table(make_plan(str(tmp_path))).startswith("No file's name says")
    for name in ("train", "test"):
        write_lines(tmp_path / f"29/{name}.jsonl", [row(name, i) for i in range(2)])
    lines = files_table(make_plan(str(tmp_path))).splitlines()
    assert lines[1].split() == ["29", "0", "0", "2", "1", "(test", "split", "1)"]
    assert lines[21].split() == ["the", "rest", "(10", "domains)", "0", "0", "10", "0"]


def test_documents_of_targets_are_left_out_of_training_text(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: Callable[..., str]
) -> None:
    texts = [(folder / "a" / f"{i}.txt").read_text() for i in range(3)]
    exam = write_lines(tmp_path / "exam.jsonl", [{"text": text[10:400]} for text in texts[:2]])
    more = tmp_path / "more.txt"
    more.write_text("\n\n".join(texts[2].split()), encoding="utf-8")
    options = ["--data", str(folder), "--vocabulary", "280", "--processes", "0"]
    prepare_command([*options, "--out", str(tmp_path / "out"), "--without", str(exam), str(more)])
    told = capsys.readouterr().out
    index = open_store(tmp_path / "out").index
    assert index["domains"]["a"]["in_targets_dropped"] == 3
    assert index["without"]["exam"]["documents"] == 2
    assert "in targets" in told.splitlines()[0]
    assert "In targets: documents that contain a document of --without" in told
    assert "Documents that were looked for: 2 of exam, 1 of more." in told
    assert "None was left out" not in told
    other = write_lines(tmp_path / "other.jsonl", [{"text": "words that stand nowhere " * 20}])
    prepare_command([*options, "--out", str(tmp_path / "all"), "--without", str(other)])
    told = capsys.readouterr().out
    assert "None was left out. Documents that were looked for: 1 of other." in told
    prepare_command([*options, "--out", str(tmp_path / "plain")])
    assert "in targets" not in capsys.readouterr().out.lower()
    empty = write_lines(tmp_path / "empty.jsonl", [{"text": " "}])
    for given, reason in (
        (tmp_path / "none.jsonl", "Expected a file for --without, found none: "),
        (
            "a",
            "Expected a file of rows (.jsonl, .parquet) or of text (.txt) or task:NAME for "
            "--without, found a",
        ),
        (empty, "Expected text in the file of --without, found none in"),
    ):
        line = refused("prepare", *options, "--out", tmp_path / "new", "--without", given)
        assert reason in line
        assert not (tmp_path / "new").exists()
