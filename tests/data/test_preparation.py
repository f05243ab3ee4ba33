"""Token stores are complete, the same however they are built, and never half there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from tiny import (
    ALPHABETS,
    documents_in,
    folder_content,
    row,
    small_plan,
    write_byte_tokenizer,
    write_corpus,
    write_domains,
    write_lines,
)

from bydore_pyro.data.build import Build
from bydore_pyro.data.documents import CorpusConfig, Document
from bydore_pyro.data.index import building_place
from bydore_pyro.data.plan import Plan, make_plan
from bydore_pyro.data.preparation import cache_folder, load_tokens, prepare, tell_idle
from bydore_pyro.data.rows import RowConfig
from bydore_pyro.data.store import SIDES, TokenStore
from bydore_pyro.data.tokenizer import TokenizerConfig
from bydore_pyro.utils.errors import DataError
from bydore_pyro.utils.folders import FolderLock


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


def test_a_bad_row_stops_or_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "text/law.jsonl"
    write_lines(path, [row("law", i) for i in range(50)] + [{"body": 1}] + [row("law", 51)])
    write_lines(tmp_path / "text/web.jsonl", [row("web", i) for i in range(50)])
    with pytest.raises(DataError, match=f"a column 'text', found body, {path}, line 51"):
        prepare(small_plan(tmp_path / "text"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    store = prepare(small_plan(tmp_path / "text", on_error="skip"), tmp_path / "out")
    law = store.index["domains"]["law"]
    assert law["skipped"] == 1
    assert law["train"]["documents"] + law["validation"]["documents"] == 51
    with pytest.raises(DataError, match="Expected a new folder for the store"):
        prepare(small_plan(tmp_path / "text"), tmp_path / "out")


@pytest.mark.parametrize("mends", [True, False])
def test_long_work_before_a_bad_row_is_kept_for_skipping_and_never_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mends: bool
) -> None:
    """Mended text begins anew by itself; `on_error="skip"` goes on where the row stands."""
    monkeypatch.setattr("bydore_pyro.data.build.SECONDS_BETWEEN_RECORDS", 0.0)
    path = tmp_path / "text/law.jsonl"
    lines = [row("law", i) for i in range(50)]
    little = TokenizerConfig(vocabulary=280, tokenizer_megabytes=0.001)  # ends before the bad row

    def plan(on_error: str = "stop") -> Plan:
        made = small_plan(tmp_path / "text", on_error=on_error)
        return dataclasses.replace(made, tokenizer=little)

    write_lines(path, [*lines, {"body": 1}])
    with pytest.raises(DataError, match=r"line 51"):
        prepare(plan(), tmp_path / "out")
    told: list[str] = []
    if mends:
        write_lines(path, lines)
    second = plan("stop" if mends else "skip")
    prepare(second, tmp_path / "out", progress=told.append)
    assert any("going on where" in line for line in told) != mends, told
    prepare(second, tmp_path / "whole")
    assert folder_content(tmp_path / "out") == folder_content(tmp_path / "whole")
    assert not list(tmp_path.glob(".*"))


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


def load(data: Path, lines: list[str], cache: str = "cache", vocabulary: int = 280) -> TokenStore:
    lines.clear()
    config = CorpusConfig(validation_fraction=0.2), TokenizerConfig(vocabulary=vocabulary)
    return load_tokens(str(data), *config, cache=data.parent / cache, progress=lines.append)


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
    lines: list[str] = []
    tell_idle("it", (None, RowConfig(), CorpusConfig(data_seed=3)), lines.append)
    assert lines == ["without effect on it: data_seed 3"]


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
