"""Token stores are complete, the same however they are built, and never half there."""

from __future__ import annotations

import dataclasses
import os
import resource
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from processes import forked
from pyarrow import parquet
from tiny import (
    ALPHABETS,
    documents_in,
    folder_content,
    lines_told,
    row,
    small_plan,
    write_byte_tokenizer,
    write_corpus,
    write_domains,
    write_lines,
)

from bydore_pyro.cli.main import main
from bydore_pyro.data.build import Build
from bydore_pyro.data.documents import CorpusConfig, Document
from bydore_pyro.data.index import FORMAT, building_place
from bydore_pyro.data.plan import Plan, make_plan
from bydore_pyro.data.preparation import cache_folder, load_tokens, prepare, tell_idle
from bydore_pyro.data.rows import RowConfig
from bydore_pyro.data.store import SIDES, TokenStore
from bydore_pyro.data.tokenizer import TokenizerConfig
from bydore_pyro.errors import DataError, RunFolderError
from bydore_pyro.files.locks import FolderLock


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "text")


def test_everything_is_there_once(text: Path, tmp_path: Path) -> None:
    store = prepare(small_plan(text), tmp_path / "out")
    found = documents_in(store)
    for name in ALPHABETS:
        files = sorted(p.read_text().strip() for p in (text / name).iterdir())
        assert sorted(found["train"][name] + found["validation"][name]) == files
    assert len(found["train"]["law"] + found["validation"]["law"]) == 90
    assert store.index["domains"]["law"]["duplicates_dropped"] == 10
    assert len(found["validation"]["web"]) == 10
    assert store.index["domains"]["web"]["in_validation_dropped"] == 10
    assert set(found["validation"]["web"]).isdisjoint(found["train"]["web"])
    assert len(found["train"]["web"]) == 190
    for name in store.names:
        for side in ("train", "validation"):
            entry = store.index["domains"][name][side]
            assert entry["documents"] == len(found[side][name])
            assert entry["independent_documents"] == entry["documents"], "none is cut"
            assert entry["bytes"] == sum(len(d.encode()) for d in found[side][name])
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]
    prepare(small_plan(text), tmp_path / "two", processes=2)
    assert folder_content(tmp_path / "out") == folder_content(tmp_path / "two")


def write_kinds(folder: Path) -> Path:
    """Text of every kind of file, of which a sample reads parts."""
    rng = np.random.default_rng(0)

    def rows(count: int) -> list[dict]:
        lengths = rng.integers(50, 450, count)
        return [{"text": rng.bytes(int(n)).hex(" ", 3), "kind": "ab"[n % 2]} for n in lengths]

    write_lines(folder / "lines.jsonl", rows(500))
    for number in range(6):
        write_lines(folder / f"packed/{number}.jsonl.gz", rows(60 + 20 * number))
    table = pyarrow.Table.from_pylist(rows(500))
    parquet.write_table(table, folder / "table.parquet", row_group_size=50)
    text = "".join(row["text"][:300] + "\n" for row in rows(4000))
    (folder / "large.txt").write_text(text)
    write_lines(folder / "small.jsonl", rows(20))
    return folder


def sampled(data: Path, tokens: float | None, seed: int = 0, **rows: str) -> Plan:
    corpus = CorpusConfig(validation_fraction=0.2, domain_megabytes=0, data_seed=seed)
    tokenizer = TokenizerConfig(tokenizer=str(data.parent / "bytes"))
    return make_plan(str(data), corpus, RowConfig(**rows), tokenizer, tokens=tokens)  # type: ignore


@pytest.fixture
def kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("bydore_pyro.data.sampling.LEAST", 1000)
    monkeypatch.setattr("bydore_pyro.data.plan.MEASURED_MEGABYTES", 0.05)
    write_byte_tokenizer(tmp_path / "bytes")
    return write_kinds(tmp_path / "text")


def test_a_sample_holds_the_tokens_asked_for_and_tells_how_many_there_are(
    kinds: Path, tmp_path: Path
) -> None:
    """All of a small domain; of the others, sizes within four standard errors of the true ones."""
    whole = prepare(sampled(kinds, None), tmp_path / "whole")
    store = prepare(sampled(kinds, 200_000), tmp_path / "out")
    assert store.names == ("large", "lines", "packed", "small", "table")
    for name in store.names:
        assert whole.in_all(name) is None
        tokens = sum(len(getattr(store, side)[name]) for side in SIDES)
        if name == "small":
            assert store.in_all(name) is None
            assert store.size(name) == len(store.train[name]) == len(whole.train[name])
            continue
        assert tokens == pytest.approx(40_000, rel=0.06)
        found = store.in_all(name)
        assert found is not None
        assert store.size(name) == found["tokens"]
        assert found["standard_error"] < 0.2 * found["tokens"]
        assert abs(found["tokens"] - len(whole.train[name])) < 4 * found["standard_error"]
    again = prepare(sampled(kinds, 200_000), tmp_path / "again", processes=2)
    assert folder_content(tmp_path / "out") == folder_content(tmp_path / "again")
    assert again.sha256 != prepare(sampled(kinds, 200_000, seed=1), tmp_path / "other").sha256


def test_a_sample_of_domains_that_rows_name(kinds: Path, tmp_path: Path) -> None:
    data = kinds / "lines.jsonl"
    (tmp_path / "bytes").rename(kinds / "bytes")
    whole = prepare(sampled(data, None, domain_column="kind"), tmp_path / "whole")
    store = prepare(sampled(data, 50_000, domain_column="kind"), tmp_path / "out")
    tokens = [len(getattr(store, side)[name]) for side in SIDES for name in "ab"]
    assert sum(tokens) == pytest.approx(50_000, rel=0.06)
    for name in "ab":
        found = store.in_all(name)
        assert found is not None
        assert abs(found["tokens"] - len(whole.train[name])) < 4 * found["standard_error"]


def prepare_broken_off(
    plan: Plan, out: Path, monkeypatch: pytest.MonkeyPatch, *, every: int, tries: int
) -> int:
    """Prepares with an interruption at every so manyth write, again until it ends; returns how
    often it said that it goes on."""
    monkeypatch.setattr("bydore_pyro.data.build.SECONDS_BETWEEN_RECORDS", 0.0)
    monkeypatch.setattr(os, "fsync", lambda _: None)
    sound, writes = Build._write, 0

    def write(build: Build, *batch: object) -> None:
        nonlocal writes
        writes += 1
        if writes % every == 0:
            raise KeyboardInterrupt
        sound(build, *batch)  # type: ignore[arg-type]

    monkeypatch.setattr(Build, "_write", write)
    with lines_told() as told:
        for _ in range(tries):
            try:
                prepare(plan, out)
                break
            except KeyboardInterrupt:
                continue
    return sum("going on" in line for line in told)


def test_a_sample_that_is_broken_off_goes_on(
    kinds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(sampled(kinds, 200_000), tmp_path / "whole")
    monkeypatch.setattr("bydore_pyro.data.build.BATCH", 5_000)
    plan = sampled(kinds, 200_000)
    assert prepare_broken_off(plan, tmp_path / "out", monkeypatch, every=37, tries=30) > 3
    assert folder_content(tmp_path / "out") == folder_content(tmp_path / "whole")


def test_rows_of_many_domains_are_told_apart(tmp_path: Path) -> None:
    rows = [row("x", i, meta={"set": ("law", "web", "mail")[i % 3]}) for i in range(90)]
    path = write_lines(tmp_path / "all.jsonl", [*rows, {"text": "nobody's"}])
    plan = small_plan(path, domain_column="meta.set", on_error="skip")
    with lines_told() as lines:
        store = prepare(plan, tmp_path / "out")
    found = documents_in(store)
    assert store.index["rows_of_no_domain"] == 1
    for number, name in enumerate(("law", "web", "mail")):
        both = found["train"][name] + found["validation"][name]
        assert sorted(both) == sorted(r["text"].strip() for r in rows[number::3])
    assert lines[-1] == "skipped 1 rows that name no domain"


def test_another_plan_leaves_the_first_alone(text: Path, tmp_path: Path) -> None:
    """Until one of them is whole: other options that were given by mistake cost no work."""
    broken = pytest.MonkeyPatch()

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    other = CorpusConfig(data_seed=1, domain_megabytes=0)
    broken.setattr(Build, "_write", full_disk)
    for plan in (small_plan(text), small_plan(text, other)):
        with pytest.raises(OSError, match="No space left"):
            prepare(plan, tmp_path / "out")
    broken.undo()
    begun = {path.name.partition("-")[0] for path in building_place(tmp_path / "out").iterdir()}
    assert begun == {small_plan(text).key, small_plan(text, other).key}
    prepare(small_plan(text), tmp_path / "out")
    assert not building_place(tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (sqlite3.OperationalError("disk I/O error"), r"disk I/O error; .* so far is in .*partial"),
        (BrokenProcessPool(), "A worker process died, most often from lack of memory"),
    ],
)
def test_what_breaks_a_build_off_says_how_it_goes_on(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, message: str
) -> None:
    def broken(*_: object) -> None:
        raise error

    monkeypatch.setattr(Build, "_write", broken)
    with pytest.raises(OSError, match=message):
        prepare(small_plan(text), tmp_path / "out")
    assert (tmp_path / ".out.partial").is_dir()


def test_a_bad_row_stops_or_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "text/law.jsonl"
    write_lines(path, [row("law", i) for i in range(50)] + [{"body": 1}] + [row("law", 51)])
    write_lines(tmp_path / "text/web.jsonl", [row("web", i) for i in range(50)])
    with pytest.raises(DataError, match=rf"a column 'text', found body \(.*\), {path}, line 51"):
        prepare(small_plan(tmp_path / "text"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    store = prepare(small_plan(tmp_path / "text", on_error="skip"), tmp_path / "out")
    law = store.index["domains"]["law"]
    assert law["skipped"] == 1
    assert law["train"]["documents"] + law["validation"]["documents"] == 51
    with pytest.raises(DataError, match="Expected a new folder for the store"):
        prepare(small_plan(tmp_path / "text"), tmp_path / "out")


def test_what_is_left_out_is_counted_by_reason(tmp_path: Path) -> None:
    """Rows of any length are documents by default; the counts do not change a store's hash."""
    rows = [{"text": "long answer " * (20 if i % 3 else 1) + str(i)} for i in range(60)]
    odd = [{"text": ""}, {"text": " \n"}, {"body": 1}, rows[3]]
    write_lines(tmp_path / "text/chat.jsonl", [*rows, *odd])
    write_lines(tmp_path / "text/web/train.jsonl", [row("web", i, code="x") for i in range(20)])
    write_lines(tmp_path / "text/web/test.jsonl", [row("test", i) for i in range(20)])
    (tmp_path / "text/notes").mkdir()
    (tmp_path / "text/notes/a.txt").write_text('{"text": "of a note"}\n' * 30)
    store = prepare(small_plan(tmp_path / "text", on_error="skip"), tmp_path / "out")
    found = documents_in(store)
    both = found["train"]["chat"] + found["validation"]["chat"]
    assert sorted(both) == sorted(row["text"] for row in rows)
    assert store.index["domains"]["chat"]["skipped"] == 1
    assert store.index["domains"]["chat"]["duplicates_dropped"] == 1
    assert store.index["empty"] == {"chat": 2}
    assert store.index["too_short"] == {}
    assert store.index["files"] == {
        "chat": {"drawn": 1},
        "notes": {"drawn": 1},
        "web": {"drawn": 1, "test split": 1},
    }
    assert store.index["notes"] == {
        "notes": ["looks like JSON and is read as text, as its ending says"],
        "web": ["text is read from the column 'text', not from code"],
    }
    assert not any("test" in text for side in found.values() for text in side["web"])
    read = "".join(found["train"]["notes"] + found["validation"]["notes"])
    assert read.count('{"text": "of a note"}') == 30
    least = CorpusConfig(validation_fraction=0.2, domain_megabytes=0, shortest_document=100)
    shorter = prepare(small_plan(tmp_path / "text", least, on_error="skip"), tmp_path / "two")
    assert shorter.index["too_short"] == {"chat": 21}, "with the copy, which no one looks for"
    assert {text for side in documents_in(shorter).values() for text in side["chat"]} == {
        row["text"] for row in rows if len(row["text"]) >= 100
    }


@pytest.mark.parametrize("fixed", [True, False])
def test_long_work_before_a_bad_row_is_kept_for_skipping_and_never_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fixed: bool
) -> None:
    """Text that is fixed begins anew by itself; `on_error="skip"` goes on behind the last file."""
    monkeypatch.setattr("bydore_pyro.data.build.SECONDS_BETWEEN_RECORDS", 0.0)
    path = tmp_path / "text/law.jsonl"
    lines = [row("law", i) for i in range(50)]
    write_lines(tmp_path / "text/code.jsonl", [row("code", i) for i in range(50)])
    little = TokenizerConfig(vocabulary=280, tokenizer_megabytes=0.001)  # ends before the bad row

    def plan(on_error: str = "stop") -> Plan:
        made = small_plan(tmp_path / "text", on_error=on_error)
        return dataclasses.replace(made, tokenizer=little)

    write_lines(path, [*lines, {"body": 1}])
    with pytest.raises(DataError, match=r"line 51"):
        prepare(plan(), tmp_path / "out")
    if fixed:
        write_lines(path, lines)
    second = plan("stop" if fixed else "skip")
    with lines_told() as told:
        prepare(second, tmp_path / "out")
    assert any("going on where" in line for line in told) != fixed, told
    prepare(second, tmp_path / "whole")
    assert folder_content(tmp_path / "out") == folder_content(tmp_path / "whole")
    assert not list(tmp_path.glob(".*"))


def test_domains_without_text(tmp_path: Path) -> None:
    """One that only rows name may be left out, and the Pile's; one that is named may not."""
    text = write_domains(tmp_path / "text", ALPHABETS, files=2)
    (text / "tiny").mkdir()
    (text / "tiny" / "a.txt").write_text("too short")
    (text / "tiny" / "b.txt").write_text(" \n")
    least = CorpusConfig(shortest_document=200)
    with pytest.raises(
        DataError,
        match=r"none usable in 'tiny' \(0 duplicates, 0 rows skipped, 1 empty, 1 shorter than 200 "
        r"characters, see --shortest_document",
    ):
        prepare(small_plan(text, least), tmp_path / "out")
    rows = [row("x", i, kind="a") for i in range(40)]
    path = write_lines(tmp_path / "rows.jsonl", [*rows, {**rows[0], "kind": "rare"}])
    with lines_told() as lines:
        store = prepare(small_plan(path, domain_column="kind"), tmp_path / "o")
    assert store.names == ("a",)
    assert any("left out" in line and "rare" in line for line in lines)
    withdrawn = [row("x", i, meta={"pile_set_name": "Books3"}) for i in range(9)]
    write_lines(tmp_path / "pile/0.jsonl", withdrawn)
    with pytest.raises(DataError, match="Expected text in a domain of pile:"):
        prepare(small_plan(f"pile:{tmp_path / 'pile'}"), tmp_path / "p")
    # A domain that is never trained on.
    listing = tmp_path / "list.yaml"
    listing.write_text("domains: {birds: text/birds, greek: {validation: text/greek}}")
    store = prepare(small_plan(listing), tmp_path / "s")
    assert store.train["greek"].ends.tolist() == []
    assert (tmp_path / "s/train/greek.ends").read_bytes() == b""
    assert len(store.validation["greek"].ends) == 2


def test_a_file_that_is_too_large_for_the_disk(text: Path, tmp_path: Path) -> None:
    """A limit on the size of files fails a write as a full disk does, in the system itself."""
    options = ["--data", str(text), "--out", str(tmp_path / "out"), "--processes", "0"]

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
        main(["prepare", *options, "--vocabulary", "280"])

    process = forked(full, tmp_path / "told")
    process.join(60)
    told = (tmp_path / "told").read_text()
    assert process.exitcode == 2, told
    assert "Traceback" not in told
    assert "error: " in told.splitlines()[-1]
    assert not (tmp_path / "out").exists()
    main(["prepare", *options, "--vocabulary", "280"])
    assert (tmp_path / "out").is_dir()


def test_a_process_that_waits_and_is_interrupted_leaves_the_other_alone(
    text: Path, tmp_path: Path
) -> None:
    out, told = tmp_path / "out", tmp_path / "told"

    def wait() -> None:
        prepare(small_plan(text), out, wait=True)

    told.touch()
    with FolderLock(building_place(out)):
        process = forked(wait, told)
        while not told.read_text().startswith("waiting for another process"):
            assert process.is_alive()
            time.sleep(0.01)
        process.join(0.3)
        assert process.is_alive()
        os.kill(process.pid or 0, signal.SIGINT)
        process.join(60)
        assert process.exitcode
        assert [path.name for path in building_place(out).iterdir()] == [".lock"]
    prepare(small_plan(text), out)
    assert not building_place(out).exists()


def test_a_store_whose_folder_is_deleted_while_it_is_built(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Build.close

    def deleted(build: Build) -> None:
        shutil.rmtree(build.folder.parent)
        before(build)

    monkeypatch.setattr(Build, "close", deleted)
    with pytest.raises(RunFolderError, match="partial to stay in place, found it deleted"):
        prepare(small_plan(text), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("change", ["cut", "gone", "rewritten"])
def test_a_source_that_changes_while_it_is_read_is_noticed(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    path, before = text / "law.jsonl", Build._take

    def take(build: Build, document: Document, number: int) -> None:
        if document.domain == "law" and document.row == 3:
            content = path.read_bytes()
            if change == "gone":
                path.unlink()
            elif change == "rewritten":
                path.write_bytes(content.replace(b"law 7 ", b"saw 8 "))
            else:
                path.write_bytes(content[:-30])
        before(build, document, number)

    monkeypatch.setattr(Build, "_take", take)
    with pytest.raises(
        DataError, match=r"law\.jsonl not to change while it is read, found a change"
    ):
        prepare(small_plan(text), tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    return write_domains(tmp_path / "pair", {"a": "abcd", "b": "wxyz"}, files=8)


def load(data: Path, lines: list[str], vocabulary: int = 280) -> TokenStore:
    lines.clear()
    config = CorpusConfig(validation_fraction=0.2), TokenizerConfig(vocabulary=vocabulary)
    with lines_told() as told:
        store = load_tokens(str(data), *config, cache=data.parent / "cache")
    lines += told
    return store


def test_cache_is_used_and_noticed_changes_renew_it(
    tmp_path: Path, pair: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    first = load(pair, lines)
    assert lines
    again = load(pair, lines)
    assert not lines, "nothing was read again"
    assert again.sha256 == first.sha256
    load(pair, lines, vocabulary=270)
    assert lines
    (pair / "a" / "new.txt").write_text("a new file " * 50)
    assert load(pair, lines).sha256 != first.sha256
    assert lines
    assert not [p for p in (tmp_path / "cache").iterdir() if p.name.startswith(".")]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    tokens = load_tokens(str(pair), tokenizer=TokenizerConfig(vocabulary=280))
    assert tokens.folder.parent == tmp_path / "home" / "bydore_pyro" == cache_folder()


def test_options_that_do_nothing_are_told() -> None:
    with lines_told() as lines:
        tell_idle("it", (None, RowConfig(), CorpusConfig(data_seed=3)))
    assert lines == ["without effect on it: data_seed 3"]


@pytest.mark.parametrize("file", ["train/b.ends", "tokenizer/tokenizer.json", "format"])
def test_a_damaged_cache_is_built_again(pair: Path, file: str) -> None:
    """Or one of another format."""
    lines: list[str] = []
    whole = load(pair, lines)
    expected = np.array(whole.train["a"])
    path = whole.folder / ("index.json" if file == "format" else file)
    if file == "format":
        path.write_text(path.read_text().replace(FORMAT, "bydore_pyro.tokens/1"))
        with pytest.raises(DataError, match="prepare it again"):
            load_tokens(str(path.parent))
    else:
        path.write_bytes(path.read_bytes()[:150] if path.suffix != ".ends" else b"")
    np.testing.assert_array_equal(load(pair, lines).train["a"], expected)
    assert "damaged" in lines[0]


def test_a_store_is_opened_as_it_lies(pair: Path, tmp_path: Path) -> None:
    lines: list[str] = []
    built = load(pair, lines)
    assert load(built.folder, lines).sha256 == built.sha256
    assert [line.rpartition(": ")[2] for line in lines] == ["validation_fraction 0.2"]
    with pytest.raises(DataError, match=r"Expected a domain of the data \(a, b\), found 'c'"):
        load_tokens(str(built.folder), needed=["c"])
    (pair / "a" / "bad.txt").write_bytes(b"\xff")
    with pytest.raises(DataError, match="found 'c'"):
        load_tokens(str(pair), needed=["a", "c"], cache=tmp_path / "unread")
    assert not (tmp_path / "unread").exists(), "nothing is read before"


def test_one_process_builds_a_store_and_a_second_says_so(
    text: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    out = tmp_path / "out"
    with FolderLock(building_place(out)):
        told = refused("prepare", "--data", text, "--out", out, "--processes", "0")
    expected = "Expected a folder that no other process writes to, found one"
    assert told.startswith(f"bydore prepare: error: {expected}")
    assert not building_place(out).exists(), "what was made for the lock alone goes with it"
    assert prepare(small_plan(text), out).names


EXAM = [
    f"{' '.join(f'{word} {i}' for word in ['what', 'is', 'left', 'of', 'a', 'long', 'day'])} ?"
    for i in range(9)
]


def write_with_exam(folder: Path) -> Path:
    """Rows and files of which some contain a question, drawn and named held-out text too."""
    for name, count in (("rows", 120), ("more", 60)):
        rows = [row(name, i) for i in range(count)]
        for i in range(0, count, 10):
            rows[i]["text"] = (
                f"{row(name, i)['text']}\n{EXAM[i % 9].upper()}\n{row('x', i)['text']}"
            )
        write_lines(folder / f"{name}.jsonl", rows)
    write_lines(folder / "named/train.jsonl", [row("named", i) for i in range(40)])
    write_lines(folder / "named/validation.jsonl", [{"text": f"{text} held"} for text in EXAM])
    (folder / "files").mkdir()
    for i in range(40):
        text = EXAM[3] if i == 7 else row("file", i)["text"]
        (folder / "files" / f"{i}.txt").write_text(text)
    return folder


def without_exam(folder: Path, **texts: list[str]) -> Plan:
    return dataclasses.replace(small_plan(folder), without=texts)


def test_documents_that_contain_a_target_are_left_out_and_counted(tmp_path: Path) -> None:
    """What is left is the store of data without them."""
    text = write_with_exam(tmp_path / "text")
    store = prepare(without_exam(text, exam=EXAM, short=["row 3"]), tmp_path / "out")
    counts = {
        name: entry.get("in_targets_dropped", 0) for name, entry in store.index["domains"].items()
    }
    assert counts == {"rows": 12, "more": 6, "named": 0, "files": 1}
    found, exam = documents_in(store), [text.upper() for text in EXAM]
    everything = {side: [one for texts in found[side].values() for one in texts] for side in found}
    for one in exam:
        assert not any(one in text.upper() for text in everything["train"])
        assert any(one in text.upper() for text in found["validation"]["named"])
    assert not any(one in text for one in exam for text in found["validation"]["rows"])
    assert len(found["train"]["rows"] + found["validation"]["rows"]) == 108
    plain = prepare(small_plan(text), tmp_path / "plain")
    assert not any("in_targets_dropped" in one for one in plain.index["domains"].values())
    assert "without" not in plain.index
    assert store.index["without"]["exam"]["documents"] == 9
    for side, domains in documents_in(plain).items():
        for name, texts in domains.items():
            left = [
                one
                for one in texts
                if name == "named" or not any(question in one.upper() for question in exam)
            ]
            assert found[side][name] == left
    assert (found["train"].keys(), store.names) == (
        documents_in(plain)["train"].keys(),
        plain.names,
    )
    same = small_plan(text)
    assert dataclasses.replace(same, without={}).key == same.key
    assert len({same.key, *(without_exam(text, a=EXAM[:n]).key for n in (1, 2))}) == 3


def test_a_build_without_targets_that_broke_off_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much text is compared at once, and however often it broke off."""
    text = write_with_exam(tmp_path / "text")
    prepare(without_exam(text, exam=EXAM), tmp_path / "whole")
    monkeypatch.setattr("bydore_pyro.data.build.BATCH", 20_000)
    monkeypatch.setattr("bydore_pyro.data.build.COMPARED", 700)
    plan = without_exam(text, exam=EXAM)
    assert prepare_broken_off(plan, tmp_path / "out", monkeypatch, every=7, tries=60) > 2
    assert folder_content(tmp_path / "out") == folder_content(tmp_path / "whole")


def test_a_domain_of_which_targets_leave_nothing_says_so(tmp_path: Path) -> None:
    write_lines(tmp_path / "text/exam.jsonl", [{"text": text} for text in EXAM])
    write_lines(tmp_path / "text/rows.jsonl", [row("rows", i) for i in range(20)])
    with pytest.raises(DataError, match=r"in 'exam' \(0 duplicates, 9 with documents of targets, "):
        prepare(without_exam(tmp_path / "text", exam=EXAM), tmp_path / "out")
