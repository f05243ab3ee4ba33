"""Sources to documents: cuts, caps, order, and the split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    in_pieces,
    in_reading_order,
    split_of_file,
)
from bydore_pyro.data.remote import size_and_time
from bydore_pyro.data.rows import Row
from bydore_pyro.errors import DataError

CONFIG = CorpusConfig()


def source(name: str, text: str, domain: str = "a", **options: object) -> SourceFile:
    """A text file, or what is read like one."""

    def read() -> Iterator[Row]:
        return iter([Row(1, text)])

    return SourceFile(name, domain, read, len(text.encode()), **options)  # type: ignore[arg-type]


def rows(texts: Iterable[str | None], **options: object) -> SourceFile:
    found = [Row(n, text) for n, text in enumerate(texts, start=1)]
    return SourceFile("rows", "a", lambda: iter(found), by_row=True, **options)  # type: ignore


def read(sources: Iterable[SourceFile], config: CorpusConfig = CONFIG) -> list[Document]:
    """Takes everything, as a build does."""
    taken: dict = {}
    documents = []
    for one in in_reading_order(sources, config):
        for document in documents_of(one, config, taken):
            place = document.domain, document.split
            taken[place] = taken.get(place, 0) + len((document.text or "").encode())
            documents.append(document)
    return documents


def texts_of(text: str, config: CorpusConfig = CONFIG) -> list[str]:
    return [str(d.text) for d in read([source("x", text, split="train")], config)]


def test_long_texts_are_cut_at_line_breaks() -> None:
    lines = [f"line {i} " + "x" * 60 for i in range(1000)]
    texts = texts_of("\n".join(lines))
    assert all(200 <= len(t) <= 20_000 for t in texts)
    assert "\n".join(texts).split("\n") == lines, "nothing lost"
    assert [len(t) for t in texts_of("x" * 45_000)] == [20_000, 20_000, 5_000]
    assert [len(t) for t in texts_of("x" * 20_100)] == [20_000, 100], "nothing lost"
    assert [len(t) for t in texts_of("short\n" + "x" * 25_000)] == [20_000, 5_006]
    with pytest.raises(ValueError, match="shortest_document <= longest_document, actual 300 and 2"):
        CorpusConfig(shortest_document=300, longest_document=200)


@pytest.mark.parametrize("by_piece", [False, True])
def test_what_is_left_out_of_documents_is_yielded_with_the_reason(by_piece: bool) -> None:
    """By default only what is empty; a row of one character is a document."""
    given = ["y", "", " \n\t", "z" * 199, "w" * 200, None, "x" * 20_100]
    found = read([rows(given, split="train", by_piece=by_piece)])
    kept = [len(document.text) for document in found if document.text is not None]
    assert kept[:3] == [1, 199, 200]
    assert sum(kept) == 20_500
    left = [(document.row, document.left_out) for document in found if document.text is None]
    assert left == [(2, "empty"), (3, "empty"), (6, "skipped")]
    least = CorpusConfig(shortest_document=200)
    found = read([rows(given, split="train", by_piece=by_piece)], least)
    left = [(document.row, document.left_out) for document in found if document.text is None]
    assert left[:5] == [
        (1, "too_short"), (2, "empty"), (3, "empty"), (4, "too_short"), (6, "skipped"),
    ]  # fmt: skip
    assert left[5:] == ([] if by_piece else [(7, "too_short")]), "the end of the last"


def test_a_file_lies_on_one_side_in_every_domain() -> None:
    files = [source(f"f{i}", f"{i} " * 300) for i in range(100)]
    again = [SourceFile(f.name, "b", f.read, f.size) for f in files]
    config = CorpusConfig(validation_fraction=0.3)
    documents = read([*files, *again], config)
    held_out = {
        name: {d.text for d in documents if d.domain == name and d.split == "validation"}
        for name in "ab"
    }
    assert held_out["a"] == held_out["b"]
    assert 15 <= len(held_out["a"]) <= 45
    large = source("f1", "x" * 300_000)
    assert split_of_file(large, config) == "train", "it would be most of the validation set"


def test_rows_are_split_by_their_text() -> None:
    texts = [f"text {i} " * 40 for i in range(400)]
    config = CorpusConfig(validation_fraction=0.2)
    first, again = read([rows([*texts, None])], config), read([rows(reversed(texts))], config)
    held_out = {d.text for d in first if d.split == "validation"}
    assert held_out == {d.text for d in again if d.split == "validation"}
    assert 50 < len(held_out) < 110
    left = Document("a", "train", None, 401, left_out="skipped")
    assert first[-1] == left, "one that could not be used"
    assert {d.split for d in read([rows(texts, split="validation")], config)} == {"validation"}
    nobodys = SourceFile("all.jsonl", None, lambda: iter([Row(3, "x" * 300)]), by_row=True)
    with pytest.raises(DataError, match=r"a domain in every row, found none: all\.jsonl, row 3"):
        read([nobodys])


def lines_of(name: str, count: int) -> str:
    return "".join(f"{name}, line {i}, {i * i}\n" for i in range(count))


def test_a_domain_of_few_files_is_split_by_pieces() -> None:
    """Also of its large files, which file by file would always train."""
    given = {f"f{i}": lines_of(f"f{i}", 16_000 if i == 7 else 4_000) for i in range(8)}
    files = [source(name, text) for name, text in given.items()]
    assert files[7].size > 0.05 * CONFIG.cap
    ordered = in_reading_order(files, CONFIG)
    assert all(s.by_piece and split_of_file(s, CONFIG) is None for s in ordered)
    held_out: dict[str, list[Document]] = {}
    for one in ordered:
        documents = list(documents_of(one, CONFIG, {}))
        assert "\n".join(str(d.text) for d in documents) == given[one.name].strip()
        assert [d.row for d in documents] == [*range(1, len(documents) + 1)]
        sizes = [len(str(d.text)) for d in documents]
        assert all(SMALL_PIECE / 2 <= size <= SMALL_PIECE for size in sizes[:-1])
        assert 200 <= sizes[-1] <= SMALL_PIECE + 200, "a short end stays with the piece before"
        assert "train" in {d.split for d in documents}
        held_out[one.name] = [d for d in documents if d.split == "validation"]
    size = sum(len(str(d.text)) for found in held_out.values() for d in found)
    assert 0.07 < size / sum(map(len, given.values())) < 0.13
    assert sum(map(bool, held_out.values())) >= 6, "of nearly every file"
    assert held_out["f7"]
    texts = [d.text for d in read(files)]
    assert len(set(texts)) == len(texts), "no piece on both sides"


def test_the_same_piece_lies_on_one_side() -> None:
    """Of a copy under another name, with other space around it; so it is known as a duplicate."""
    text = lines_of("a", 3000)
    sides: dict[str, set[str]] = {}
    for document in read([source("f", text), source("g", f"\n  {text}\n\n")]):
        sides.setdefault(str(document.text), set()).add(document.split)
    assert all(len(found) == 1 for found in sides.values())
    assert {side for found in sides.values() for side in found} == {"train", "validation"}


def test_rows_in_pieces() -> None:
    """No short end is a piece of its own; what cannot be used, or is empty, stays one row."""
    text = lines_of("a", 400)
    pieces = list(in_pieces([Row(1, text, note="as text"), Row(2, None), Row(3, " ")], CONFIG))
    assert [row.number for row in pieces] == [*range(1, len(pieces) + 1)]
    assert "\n".join(str(row.text) for row in pieces[:-2]) == text.strip()
    assert [row.text for row in pieces[-2:]] == [None, " "]
    assert [row.note for row in pieces] == ["as text", *[None] * (len(pieces) - 1)]
    assert [row.text for row in in_pieces([Row(1, "x" * (SMALL_PIECE + 199))], CONFIG)] == [
        "x" * (SMALL_PIECE + 199)
    ]


def test_what_stays_whole() -> None:
    """Domains that share files, enough files, short files, told sides; and rows beside pieces."""
    config = CorpusConfig(validation_fraction=0.5)

    def by_piece(*given: SourceFile, config: CorpusConfig = config) -> dict[str, bool]:
        return {s.name: s.by_piece for s in in_reading_order(given, config)}

    few = [source(f"f{i}", lines_of(f"f{i}", 2000)) for i in range(4)]
    apart = [source(f"g{i}", lines_of(f"g{i}", 2000), "c") for i in range(4)]
    shared = SourceFile("f0", "b", few[0].read, few[0].size)
    found = by_piece(*few, shared, *apart)
    assert found == {s.name: s.domain == "c" for s in [*few, *apart]}
    many = [source(f"m{i}", lines_of(f"m{i}", 300)) for i in range(80)]
    assert sum(split_of_file(s, config) == "validation" for s in many) >= FEWEST_HELD_OUT
    assert not any(by_piece(*many).values())
    full = CorpusConfig(validation_fraction=0.5, domain_megabytes=0.15)
    assert all(by_piece(*many, config=full).values()), "the cap is full before"
    assert not any(by_piece(*(source(f"s{i}", lines_of("s", 100)) for i in range(9))).values())
    told = (source(f"t{i}", lines_of("t", 2000), split="train") for i in range(2))
    assert not any(by_piece(*told).values())
    assert by_piece(few[0], rows(["text " * 100] * 9)) == {"f0": True, "rows": False}


def test_validation_files_come_first() -> None:
    files = [source(f"f{i}", "x", "ab"[i % 2]) for i in range(40)]
    given = [*files, source("v", "x", "b", split="validation")]
    ordered = in_reading_order(given, CONFIG)
    held_out = [split_of_file(s, CONFIG) == "validation" for s in ordered]
    assert held_out == sorted(held_out, reverse=True)
    trained = [s.domain for s in ordered if split_of_file(s, CONFIG) == "train"]
    assert trained == sorted(trained)
    assert [s.name for s in ordered] == [s.name for s in in_reading_order(given[::-1], CONFIG)]
    assert ordered != in_reading_order(given, CorpusConfig(data_seed=1))
    few = source("w", lines_of("w", 2000), "z")
    names = [s.name for s in in_reading_order([*given, few], CONFIG)]
    assert names.index("w") == sum(held_out), "pieces, before the files that train"


def test_the_cap_holds_and_files_past_it_stay_shut() -> None:
    opened: list[int] = []

    def counted(number: int) -> Iterator[Row]:
        opened.append(number)
        return iter([Row(1, f"document {number} " * 100)])

    files = [SourceFile(f"f{i}", "a", partial(counted, i), size=1300) for i in range(200)]
    documents = read(files, CorpusConfig(domain_megabytes=0.1))
    sizes = [
        sum(len(str(d.text)) for d in documents if d.split == side)
        for side in ("train", "validation")
    ]
    assert 90_000 <= sizes[0] < 92_000
    assert 10_000 <= sizes[1] < 12_000
    assert len(opened) == len(documents) < 100
    assert len(read(files, CorpusConfig(domain_megabytes=0))) == 200


def test_a_source_that_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("x" * 300)
    one = SourceFile("a", "a", lambda: iter([]), *size_and_time(path), path=path)
    one.require_unchanged()
    path.unlink()
    with pytest.raises(DataError, match="a not to change while it is read, found a change"):
        one.require_unchanged()
