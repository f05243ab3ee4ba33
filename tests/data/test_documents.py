"""Sources to documents: cuts, caps, order, and the split."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest

from bydore_pyro.data.documents import (
    FEWEST_HELD_OUT,
    SMALL_PIECE,
    CorpusConfig,
    Document,
    SourceFile,
    documents_of,
    in_reading_order,
    split_of_file,
)
from bydore_pyro.data.pieces import PIECE, SMALLEST_FILE_OF_PIECES, read_text
from bydore_pyro.data.rows import Row
from bydore_pyro.utils.errors import DataError


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
    long = source(tmp_path, "long", "\n".join(lines), split="train")
    texts = [d.text for d in read([long], CorpusConfig())]
    assert all(200 <= len(t) <= 20_000 for t in texts)
    assert "\n".join(texts).split("\n") == lines, "cut at line breaks, nothing lost"
    assert read([source(tmp_path, "short", "y" * 199)], CorpusConfig()) == []
    one_line = source(tmp_path, "one line", "x" * 45_000, split="train")
    texts = [d.text for d in read([one_line], CorpusConfig())]
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


def lines_of(name: str, count: int) -> str:
    return "".join(f"{name}, line {i}, {i * i}\n" for i in range(count))


def test_a_domain_of_few_files_is_split_by_pieces(tmp_path: Path) -> None:
    """Also of its large files, which file by file would always train."""
    given = {f"f{i}": lines_of(f"f{i}", 16_000 if i == 7 else 4_000) for i in range(8)}
    files = [source(tmp_path, name, text) for name, text in given.items()]
    config = CorpusConfig()
    assert files[7].size > 0.05 * config.cap
    ordered = in_reading_order(files, config)
    assert all(s.by_piece and not s.is_whole for s in ordered)
    assert {split_of_file(s, config) for s in ordered} == {None}
    held_out: dict[str, list[Document]] = {}
    for one in ordered:
        documents = list(documents_of(one, config, {}))
        assert "\n".join(str(d.text) for d in documents) == given[one.name].strip()
        assert [d.row for d in documents] == [*range(1, len(documents) + 1)]
        assert documents[-1].position == 1
        assert all(len(d.text or "") <= SMALL_PIECE + config.shortest_document for d in documents)
        assert "train" in {d.split for d in documents}
        held_out[one.name] = [d for d in documents if d.split == "validation"]
    size = sum(len(d.text or "") for found in held_out.values() for d in found)
    assert 0.07 < size / sum(map(len, given.values())) < 0.13
    assert sum(map(len, held_out.values())) >= 20
    assert sum(map(bool, held_out.values())) >= 6, "of nearly every file"
    assert held_out["f7"]
    texts = [d.text for d in read(files, config)]
    assert len(set(texts)) == len(texts), "no piece on both sides"


def test_the_same_piece_lies_on_one_side(tmp_path: Path) -> None:
    """Of a copy under another name, with other space around it; so it is known as a duplicate."""
    text = lines_of("a", 3000)
    copies = [source(tmp_path, "f", text), source(tmp_path, "g", f"\n  {text}\n\n")]
    sides: dict[str, set[str]] = {}
    for document in read(copies, CorpusConfig()):
        sides.setdefault(str(document.text), set()).add(document.split)
    assert all(len(found) == 1 for found in sides.values())
    assert {side for found in sides.values() for side in found} == {"train", "validation"}


def test_what_stays_whole(tmp_path: Path) -> None:
    """Domains that share files, enough files, short files, told sides; and rows beside pieces."""
    config = CorpusConfig(validation_fraction=0.5)
    few = [source(tmp_path, f"f{i}", lines_of(f"f{i}", 2000)) for i in range(4)]
    apart = [source(tmp_path, f"g{i}", lines_of(f"g{i}", 2000), domain="c") for i in range(4)]
    shared = SourceFile("f0", "b", few[0].read, few[0].size)
    by_piece = {s.name: s.by_piece for s in in_reading_order([*few, shared, *apart], config)}
    assert by_piece == {s.name: s.domain == "c" for s in [*few, *apart]}
    one_side = {d.domain: d.split for d in read([few[0], shared], config)}
    assert one_side == dict.fromkeys("ab", split_of_file(few[0], config))
    many = [source(tmp_path, f"m{i}", lines_of(f"m{i}", 300)) for i in range(80)]
    held_out = sum(split_of_file(s, config) == "validation" for s in many)
    assert held_out >= FEWEST_HELD_OUT
    assert not any(s.by_piece for s in in_reading_order(many, config))
    full = CorpusConfig(validation_fraction=0.5, domain_megabytes=0.15)
    assert sum(split_of_file(s, full) == "validation" for s in many) == held_out
    assert all(s.by_piece for s in in_reading_order(many, full)), "the cap is full before"
    short = [source(tmp_path, f"s{i}", lines_of(f"s{i}", 100)) for i in range(9)]
    assert not any(s.by_piece for s in in_reading_order(short, config))
    told = [source(tmp_path, f"t{i}", lines_of("t", 2000), split="train") for i in range(2)]
    assert not any(s.by_piece for s in in_reading_order(told, config))
    beside = in_reading_order([few[0], rows(["text " * 100] * 9)], config)
    assert {s.name: s.by_piece for s in beside} == {"f0": True, "rows": False}


def test_pieces_are_never_too_short(tmp_path: Path) -> None:
    config = CorpusConfig(shortest_document=9_000, longest_document=9_500)
    text = lines_of("a", 3000)
    documents = read([source(tmp_path, "f", text)], config)
    assert len({d.row for d in documents}) > 3
    # Cut to the longest document, the rest of a piece may be too short, as that of a row may.
    assert sum(len(d.text or "") for d in documents) > len(text) / 2


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
    few = source(tmp_path, "w", lines_of("w", 2000), domain="z")
    names = [s.name for s in in_reading_order([*given, few], config)]
    assert names.index("w") == sum(held_out), "pieces, before the files that train"


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


def test_a_row_without_a_domain_is_refused() -> None:
    nobodys = SourceFile("all.jsonl", None, lambda: iter([Row(3, "x" * 300)]), by_row=True)
    message = r"a domain in every row, found none: all\.jsonl, row 3"
    with pytest.raises(DataError, match=message):
        read([nobodys], CorpusConfig())


def test_no_document_is_shortest_and_longest() -> None:
    with pytest.raises(ValueError, match="shortest_document <= longest_document, actual 300 and 2"):
        CorpusConfig(shortest_document=300, longest_document=200)
