"""Sources to documents: cuts, caps, order, and the split."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest

from bydore_pyro.data.documents import (
    PIECE,
    SMALLEST_FILE_OF_PIECES,
    CorpusConfig,
    Document,
    SourceFile,
    documents_of,
    in_reading_order,
    read_text,
    split_of_file,
)
from bydore_pyro.data.rows import Row
from bydore_pyro.errors import DataError


def source(folder: Path, name: str, text: str | bytes, **options: object) -> SourceFile:
    path = folder / name.replace("/", "_")
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    options.setdefault("domain", "a")
    return SourceFile(name, read=partial(read_text, path), size=path.stat().st_size, **options)


def rows(texts: Iterable[str], **options: object) -> SourceFile:
    found = [Row(n, text) for n, text in enumerate(texts, start=1)]
    return SourceFile("rows", "a", lambda: iter(found), by_row=True, **options)


def read(sources: Iterable[SourceFile], config: CorpusConfig) -> list[Document]:
    """Takes everything, as a build does."""
    taken: dict = {}
    documents = []
    for one in in_reading_order(sources, config):
        for document in documents_of(one, config, taken):
            place = document.domain, document.split
            taken[place] = taken.get(place, 0) + len((document.text or "").encode())
            documents.append(document)
    return documents


def test_long_files_are_cut_and_short_ones_dropped(tmp_path: Path) -> None:
    lines = [f"line {i} " + "x" * 60 for i in range(1000)]
    texts = [d.text for d in read([source(tmp_path, "long", "\n".join(lines))], CorpusConfig())]
    assert all(200 <= len(t) <= 20_000 for t in texts)
    assert "\n".join(texts).split("\n") == lines, "cut at line breaks, nothing lost"
    assert read([source(tmp_path, "short", "y" * 199)], CorpusConfig()) == []
    texts = [d.text for d in read([source(tmp_path, "one line", "x" * 45_000)], CorpusConfig())]
    assert [len(t) for t in texts] == [20_000, 20_000, 5_000]


def test_large_text_files_come_in_pieces_and_are_split_by_them(tmp_path: Path) -> None:
    line = "some words — and ü\n"
    text = "".join(f"{i} {line}" for i in range(3 * SMALLEST_FILE_OF_PIECES // len(line)))
    large = source(tmp_path, "large", text, by_row=True)
    pieces = list(large.read())
    assert "\n".join((p.text or "").rstrip("\n") for p in pieces) == text.rstrip("\n")
    assert all(len((p.text or "").encode()) < 2 * PIECE for p in pieces)
    assert pieces[0].position < 0.1
    assert pieces[-1].position == 1
    held_out = [d for d in read([large], CorpusConfig()) if d.split == "validation"]
    assert 0 < len(held_out) < len(pieces)


def test_a_file_lies_on_one_side_in_every_domain(tmp_path: Path) -> None:
    files = [source(tmp_path, f"f{i}", f"{i} " * 300) for i in range(100)]
    again = [SourceFile(f.name, "b", f.read, f.size) for f in files]
    config = CorpusConfig(validation_fraction=0.3)
    documents = read([*files, *again], config)
    held_out = {
        name: {d.text for d in documents if d.domain == name and d.split == "validation"}
        for name in "ab"
    }
    assert held_out["a"] == held_out["b"]
    assert 15 <= len(held_out["a"]) <= 45
    large = source(tmp_path, "f1", "x" * 300_000)
    assert split_of_file(large, config) == "train", "it would be most of the validation set"


def test_rows_are_split_by_their_text() -> None:
    texts = [f"text {i} " * 40 for i in range(400)]
    config = CorpusConfig(validation_fraction=0.2)
    first, again = read([rows(texts)], config), read([rows(reversed(texts))], config)
    held_out = {d.text for d in first if d.split == "validation"}
    assert held_out == {d.text for d in again if d.split == "validation"}
    assert 50 < len(held_out) < 110
    assert {d.split for d in read([rows(texts, split="validation")], config)} == {"validation"}


def test_validation_files_come_first(tmp_path: Path) -> None:
    config = CorpusConfig()
    files = [source(tmp_path, f"f{i}", "x", domain="ab"[i % 2]) for i in range(40)]
    given = [*files, source(tmp_path, "v", "x", domain="b", split="validation")]
    ordered = in_reading_order(given, config)
    held_out = [split_of_file(s, config) == "validation" for s in ordered]
    assert held_out == sorted(held_out, reverse=True)
    assert [s.domain for s in ordered if split_of_file(s, config) == "train"] == sorted(
        s.domain for s in given if split_of_file(s, config) == "train"
    )
    assert ordered == in_reading_order(reversed(given), config)
    assert ordered != in_reading_order(given, CorpusConfig(data_seed=1))


def test_the_cap_holds_and_files_past_it_stay_shut(tmp_path: Path) -> None:
    opened: list[int] = []

    def counted(number: int) -> Iterable[Row]:
        opened.append(number)
        return iter([Row(1, f"document {number} " * 100)])

    files = [SourceFile(f"f{i}", "a", partial(counted, i), size=1300) for i in range(200)]
    config = CorpusConfig(domain_megabytes=0.1)
    documents = read(files, config)
    sizes = {
        side: sum(len(d.text or "") for d in documents if d.split == side)
        for side in ("train", "validation")
    }
    assert 90_000 <= sizes["train"] < 92_000
    assert 10_000 <= sizes["validation"] < 12_000
    assert len(opened) == len(documents) < 100
    everything = read(files, CorpusConfig(domain_megabytes=0))
    assert len(everything) == 200


def test_a_text_that_is_not_utf8_is_named_by_its_byte(tmp_path: Path) -> None:
    for content, at in (
        (b"x" * 70_000 + b"\xff" + b"y" * 10, 70_000),
        (b"z" * (SMALLEST_FILE_OF_PIECES + 5) + b"\n\xe2\x82", SMALLEST_FILE_OF_PIECES + 8),
    ):
        path = tmp_path / "bad"
        path.write_bytes(content)
        with pytest.raises(DataError, match=f"Expected UTF-8, .*{path}, byte {at}"):
            list(read_text(path))
        assert list(read_text(path, "skip"))[-1].text is None
    path.write_bytes(b"\xef\xbb\xbfmarked")
    assert [row.text for row in read_text(path)] == ["marked"]
    path.write_bytes("ü".encode() * SMALLEST_FILE_OF_PIECES)
    assert "".join(row.text or "" for row in read_text(path)) == "ü" * SMALLEST_FILE_OF_PIECES


@pytest.mark.parametrize(
    "options",
    [
        {"domain_megabytes": -1.0},
        {"domain_megabytes": float("nan")},
        {"validation_fraction": 1.0},
        {"data_seed": -1},
        {"shortest_document": 300, "longest_document": 200},
    ],
)
def test_bad_configurations_are_refused(options: dict) -> None:
    with pytest.raises(ValueError, match="Expected"):
        CorpusConfig(**options)
