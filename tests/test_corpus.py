"""Documents, duplicates and the split of a corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

from bydore_pyro.corpus import (
    CorpusConfig,
    SourceFile,
    TextCorpus,
    build_corpus,
    read_text,
)


def source(folder: Path, name: str, text: str | bytes) -> SourceFile:
    path = folder / name.replace("/", "_")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return SourceFile(name, path, read_text)


def test_long_files_are_cut_and_short_ones_dropped(tmp_path: Path) -> None:
    lines = [f"line {i} " + "x" * 60 for i in range(1000)]
    sources = {
        "long": [source(tmp_path, "long", "\n".join(lines))],
        "short": [source(tmp_path, "short", "y" * 199)],
    }
    corpus = build_corpus(sources, CorpusConfig(), origin="test")
    documents = corpus.train["long"] + corpus.validation["long"]
    assert all(200 <= len(d) <= 20_000 for d in documents)
    assert "\n".join(documents).split("\n") == lines, "cut at line breaks, nothing lost"
    assert corpus.train["short"] == corpus.validation["short"] == []


def test_a_file_without_line_breaks_is_cut_too(tmp_path: Path) -> None:
    corpus = build_corpus(
        {"a": [source(tmp_path, "a", "x" * 45_000)]}, CorpusConfig(), origin="test"
    )
    # three pieces; the second repeats the first to the letter and is dropped
    assert sorted(map(len, corpus.train["a"])) == [5_000, 20_000]


def test_a_file_lies_on_one_side_in_every_domain(tmp_path: Path) -> None:
    files = [source(tmp_path, f"f{i}", f"{i} " * 300) for i in range(100)]
    upper = [SourceFile(f.name, f.path, lambda p: p.read_text().replace(" ", "-")) for f in files]
    config = CorpusConfig(validation_fraction=0.3)
    corpus = build_corpus({"plain": files, "dashed": upper}, config, origin="test")
    held_out = {d.replace("-", " ").strip() for d in corpus.validation["dashed"]}
    assert {d.strip() for d in corpus.validation["plain"]} == held_out
    assert 15 <= len(held_out) <= 45
    splits = {f["file"]: f["split"] for f in corpus.manifest["files"]["plain"]}
    assert splits == {f["file"]: f["split"] for f in corpus.manifest["files"]["dashed"]}


def test_duplicates_are_dropped_and_counted(tmp_path: Path) -> None:
    text = "the same words again " * 20
    sources = {
        "a": [source(tmp_path, "a1", text), source(tmp_path, "a2", text)],
        "b": [source(tmp_path, "b1", text)],
    }
    corpus = build_corpus(sources, CorpusConfig(), origin="test")
    every = [d for split in (corpus.train, corpus.validation) for ds in split.values() for d in ds]
    assert every == [text.strip()]
    dropped = [d["duplicates_dropped"] for d in corpus.manifest["domains"].values()]
    assert dropped == [1, 1]


def test_the_cap_holds_and_the_seed_chooses(tmp_path: Path) -> None:
    files = [source(tmp_path, f"f{i}", f"document {i} " * 100) for i in range(50)]
    config = CorpusConfig(domain_megabytes=0.01)
    first: TextCorpus = build_corpus({"a": files}, config, origin="test")
    again = build_corpus({"a": list(reversed(files))}, config, origin="test")
    other = build_corpus(
        {"a": files}, CorpusConfig(domain_megabytes=0.01, data_seed=1), origin="test"
    )
    assert first.manifest == again.manifest
    assert first.manifest["sha256"] != other.manifest["sha256"]
    assert 10_000 <= first.manifest["domains"]["a"]["bytes"] < 12_000
    opened = []
    counted = [
        SourceFile(f.name, f.path, lambda p: opened.append(p) or read_text(p)) for f in files
    ]
    build_corpus({"a": counted}, config, origin="test")
    assert len(opened) == len(first.manifest["files"]["a"]) < 50, "files past the cap stay shut"


def test_files_that_are_not_utf8_are_counted(tmp_path: Path) -> None:
    files = [source(tmp_path, "bad", b"\xff\xfe" * 300), source(tmp_path, "good", "fine " * 100)]
    corpus = build_corpus({"a": files}, CorpusConfig(), origin="test")
    assert corpus.manifest["domains"]["a"]["skipped"] == 1
    assert len(corpus.train["a"]) + len(corpus.validation["a"]) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"domain_megabytes": 0.0},
        {"validation_fraction": 1.0},
        {"shortest_document": 300, "longest_document": 200},
    ],
)
def test_bad_configurations_are_refused(options: dict) -> None:
    with pytest.raises(ValueError, match="Expected"):
        CorpusConfig(**options)
