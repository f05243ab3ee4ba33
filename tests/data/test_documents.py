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
    File,
    Source,
    in_pieces,
    sources_of,
)
from bydore_pyro.data.remote import size_and_time
from bydore_pyro.data.rows import Row
from bydore_pyro.data.sampling import Taken
from bydore_pyro.errors import DataError

CONFIG = CorpusConfig()


def file(name: str, text: str, domain: str = "a", side: str | None = None) -> File:
    """A text file, or what is read like one."""

    def read() -> Iterator[Row]:
        return iter([Row(1, text)])

    return File(name, domain, read, len(text.encode()), side=side)  # type: ignore[arg-type]


def rows(texts: Iterable[str | None], side: str | None = None) -> File:
    found = [Row(n, text) for n, text in enumerate(texts, start=1)]
    return File("rows", "a", lambda: iter(found), side=side, of_rows=True)  # type: ignore[arg-type]


def read(files: Iterable[File], config: CorpusConfig = CONFIG) -> list[Document]:
    """Takes what there is a place for, as a build does."""
    taken, documents = Taken(config), []
    for source in sources_of(files, config):
        if taken.is_enough(source):
            continue
        for document in source.documents():
            if taken.is_enough(source):
                break
            if not taken.leaves_out(source, document):
                taken.add(str(document.domain), document.split, len((document.text or "").encode()))
                documents.append(document)
    return documents


def in_two(source: Source) -> bool:
    """Whether the text of a source is on both sides, piece by piece or row by row."""
    return source.side is None


def texts_of(text: str, config: CorpusConfig = CONFIG) -> list[str]:
    return [str(d.text) for d in read([file("x", text, side="train")], config)]


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


def test_what_is_left_out_of_documents_is_yielded_with_the_reason() -> None:
    """By default only what is empty; a row of one character is a document."""
    given = ["y", "", " \n\t", "z" * 199, "w" * 200, None, "x" * 20_100]
    found = read([rows(given, side="train")])
    kept = [len(document.text) for document in found if document.text is not None]
    assert kept == [1, 199, 200, 20_000, 100]
    left = [(document.row, document.left_out) for document in found if document.text is None]
    assert left == [(2, "empty"), (3, "empty"), (6, "skipped")]
    sizes = [(d.row, d.row_bytes) for d in found if d.row_bytes is not None]
    assert sizes == [(1, 1), (2, 0), (3, 0), (4, 199), (5, 200), (7, 20_100)], "once a row"
    found = read([rows(given, side="train")], CorpusConfig(shortest_document=200))
    left = [(document.row, document.left_out) for document in found if document.text is None]
    assert left == [
        (1, "too_short"),
        (2, "empty"),
        (3, "empty"),
        (4, "too_short"),
        (6, "skipped"),
        (7, "too_short"),
    ]


def test_a_file_lies_on_one_side_in_every_domain() -> None:
    files = [file(f"f{i}", f"{i} " * 300) for i in range(100)]
    again = [File(f.name, "b", f.read, f.size) for f in files]
    config = CorpusConfig(validation_fraction=0.3)
    documents = read([*files, *again], config)
    held_out = {
        name: {d.text for d in documents if d.domain == name and d.split == "validation"}
        for name in "ab"
    }
    assert held_out["a"] == held_out["b"]
    assert 15 <= len(held_out["a"]) <= 45
    large = [file(f.name, "x" * 300_000) for f in files]
    assert {s.side for s in sources_of([*large, *again], config) if s.domain == "a"} == {"train"}, (
        "it would be most of the validation set"
    )


def test_rows_are_split_by_their_text() -> None:
    texts = [f"text {i} " * 40 for i in range(400)]
    config = CorpusConfig(validation_fraction=0.2)
    first, again = read([rows([*texts, None])], config), read([rows(reversed(texts))], config)
    held_out = {d.text for d in first if d.split == "validation"}
    assert held_out == {d.text for d in again if d.split == "validation"}
    assert 50 < len(held_out) < 110
    left = Document("a", "train", None, 401, left_out="skipped")
    assert first[-1] == left, "one that could not be used"
    assert {d.split for d in read([rows(texts, side="validation")], config)} == {"validation"}
    nobodys = File("all.jsonl", None, lambda: iter([Row(3, "x" * 300)]), of_rows=True)
    with pytest.raises(DataError, match=r"a domain in every row, found none: all\.jsonl, row 3"):
        read([nobodys])


def lines_of(name: str, count: int) -> str:
    return "".join(f"{name}, line {i}, {i * i}\n" for i in range(count))


def test_a_domain_of_few_files_is_split_by_pieces() -> None:
    """Also of its large files, which file by file would always train."""
    given = {f"f{i}": lines_of(f"f{i}", 16_000 if i == 7 else 4_000) for i in range(8)}
    files = [file(name, text) for name, text in given.items()]
    assert files[7].size > 0.05 * CONFIG.cap
    ordered = sources_of(files, CONFIG)
    assert all(in_two(one) for one in ordered)
    held_out: dict[str, list[Document]] = {}
    for one in ordered:
        documents = list(one.documents())
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
    for document in read([file("f", text), file("g", f"\n  {text}\n\n")]):
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
    """Domains that share files, enough files, short files, named sides; and rows beside pieces."""
    config = CorpusConfig(validation_fraction=0.5)

    def by_piece(*given: File, config: CorpusConfig = config) -> dict[str, bool]:
        return {s.name: in_two(s) for s in sources_of(given, config)}

    few = [file(f"f{i}", lines_of(f"f{i}", 2000)) for i in range(4)]
    apart = [file(f"g{i}", lines_of(f"g{i}", 2000), "c") for i in range(4)]
    shared = File("f0", "b", few[0].read, few[0].size)
    found = by_piece(*few, shared, *apart)
    assert found == {s.name: s.domain == "c" for s in [*few, *apart]}
    many = [file(f"m{i}", lines_of(f"m{i}", 300)) for i in range(80)]
    held_out = [s for s in sources_of(many, config) if s.side == "validation"]
    assert len(held_out) >= FEWEST_HELD_OUT
    assert not any(by_piece(*many).values())
    full = CorpusConfig(validation_fraction=0.5, domain_megabytes=0.15)
    assert all(by_piece(*many, config=full).values()), "the cap is full before"
    assert not any(by_piece(*(file(f"s{i}", lines_of("s", 100)) for i in range(9))).values())
    named = (file(f"t{i}", lines_of("t", 2000), side="train") for i in range(2))
    assert not any(by_piece(*named).values())
    assert by_piece(few[0], rows(["text " * 100] * 9)) == {"f0": True, "rows": True}


def test_validation_files_come_first() -> None:
    files = [file(f"f{i}", "x", "ab"[i % 2]) for i in range(40)]
    given = [*files, file("v", "x", "b", side="validation")]
    ordered = sources_of(given, CONFIG)
    held_out = [s.side == "validation" for s in ordered]
    assert held_out == sorted(held_out, reverse=True)
    trained = [s.domain for s in ordered if s.side == "train"]
    assert trained == sorted(trained, key=str)
    names = [s.name for s in ordered]
    assert names == [s.name for s in sources_of(given[::-1], CONFIG)]
    assert names != [s.name for s in sources_of(given, CorpusConfig(data_seed=1))]
    few = file("w", lines_of("w", 2000), "z")
    names = [s.name for s in sources_of([*given, few], CONFIG)]
    assert names.index("w") == sum(held_out), "pieces, before the files that train"


def test_the_cap_holds_and_files_past_it_stay_shut() -> None:
    opened: list[int] = []

    def counted(number: int) -> Iterator[Row]:
        opened.append(number)
        return iter([Row(1, f"document {number} " * 100)])

    files = [File(f"f{i}", "a", partial(counted, i), size=1300) for i in range(200)]
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
    one = File("a", "a", lambda: iter([]), *size_and_time(path), path)
    one.require_unchanged()
    path.unlink()
    with pytest.raises(DataError, match="a not to change while it is read, found a change"):
        one.require_unchanged()
