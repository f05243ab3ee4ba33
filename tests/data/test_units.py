"""A user's rows and files are counted as the user has them, however they are cut and sampled."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from tiny import row, small_plan, write_byte_tokenizer, write_lines

from bydore_pyro.data.documents import CorpusConfig, File
from bydore_pyro.data.index import UNITS
from bydore_pyro.data.preparation import prepare, units_of
from bydore_pyro.data.rows import LARGE_TEXT
from bydore_pyro.data.variants import joined_stores, with_validation_file

WORDS = ["law", "moon", "river", "seven", "quiet", "door", "ninety"]


def words(count: int, seed: int) -> str:
    return " ".join(np.random.default_rng(seed).choice(WORDS, count))


def novels(folder: Path) -> tuple[int, int]:
    """A few long text files, which are split and sampled piece by piece."""
    sizes = []
    for number in range(7):
        text = "\n".join(words(20, 100 * number + line) for line in range(200 + 90 * number))
        (folder / f"{number}.txt").write_text(text)
        sizes.append(len(text))
    return len(sizes), sum(sizes)


def large_files(folder: Path) -> tuple[int, int]:
    """Text files that are read in pieces, and in parts where they are sampled."""
    sizes = [LARGE_TEXT + 5_000, 2 * LARGE_TEXT]
    for number, size in enumerate(sizes):
        line = words(12, number)
        (folder / f"{number}.txt").write_text((f"{line}\n" * (size // len(line) + 1))[:size])
    return 2, sum(sizes)


def long_rows(folder: Path) -> tuple[int, int]:
    """Rows that are cut, a copy, and rows shorter than a document may be, in two files."""
    texts = [words(4000 * (1 + number), number) for number in range(5)]
    texts += [texts[0], "short", "shorter", words(100, 99)]
    write_lines(folder / "a.jsonl", [{"text": text} for text in texts[:6]])
    write_lines(folder / "b.jsonl.gz", [{"text": text} for text in texts[6:]])
    return len(texts), sum(map(len, texts))


def tables(folder: Path) -> tuple[int, int]:
    texts = [words(300 + number, number) for number in range(80)]
    table = pyarrow.table({"text": texts})
    parquet.write_table(table, folder / "a.parquet", row_group_size=9)
    return len(texts), sum(map(len, texts))


KINDS: dict[str, tuple[Callable[[Path], tuple[int, int]], str]] = {
    "novels": (novels, "files"),
    "large": (large_files, "files"),
    "rows": (long_rows, "rows"),
    "tables": (tables, "rows"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_files_are_counted_as_the_user_has_them(kind: str, tmp_path: Path) -> None:
    write, of = KINDS[kind]
    (tmp_path / "text" / kind).mkdir(parents=True)
    count, size = write(tmp_path / "text" / kind)
    store = prepare(small_plan(tmp_path / "text"), tmp_path / "all")
    assert store.index[UNITS] == {kind: {"of": of, "count": count, "bytes": size}}
    assert store.index["domains"][kind]["train"]["documents"] != count
    assert UNITS not in json.dumps(store.index["domains"]), "a store's hash says its tokens alone"


def test_of_a_sample_rows_are_those_read_and_text_files_all(tmp_path: Path) -> None:
    for kind in ("novels", "large", "tables"):
        (tmp_path / "text" / kind).mkdir(parents=True)
    listed = {kind: KINDS[kind][0](tmp_path / "text" / kind) for kind in ("novels", "large")}
    lengths = [100 + 17 * (number % 11) for number in range(1500)]
    rows = [{"text": words(length, number)} for number, length in enumerate(lengths)]
    write_lines(tmp_path / "text/tables/a.jsonl", rows)
    sample = CorpusConfig(validation_fraction=0.2, domain_megabytes=0.1)
    units = prepare(small_plan(tmp_path / "text", sample), tmp_path / "out").index[UNITS]
    for kind, (count, size) in listed.items():
        assert units[kind] == {"of": "files", "count": count, "bytes": size}
    found = units["tables"]
    assert 50 < found["count"] < 500
    mean = np.mean([len(one["text"]) for one in rows])
    assert found["bytes"] / found["count"] == pytest.approx(mean, rel=0.1)


def test_what_nobody_can_count_has_no_count(tmp_path: Path) -> None:
    """Validation text is not trained on, and of rows beside text either may be drawn."""
    write_lines(tmp_path / "text/mixed/a.jsonl", [row("law", i) for i in range(40)])
    (tmp_path / "text/mixed/b.txt").write_text(words(900, 1))
    write_lines(tmp_path / "text/web/train.jsonl", [row("web", i) for i in range(40)])
    write_lines(tmp_path / "text/web/validation.jsonl", [row("web web", i) for i in range(9)])
    units = prepare(small_plan(tmp_path / "text"), tmp_path / "out").index[UNITS]
    size = sum(len(row("web", i)["text"].strip()) for i in range(40))
    assert units == {"web": {"of": "rows", "count": 40, "bytes": size}}


def test_a_joined_store_has_the_counts_of_the_domains_that_it_has(tmp_path: Path) -> None:
    write_byte_tokenizer(tmp_path / "bytes")
    stores = []
    for number, count in enumerate((40, 70)):
        folder = tmp_path / f"text{number}"
        write_lines(folder / "law.jsonl", [row("law", i) for i in range(count)])
        write_lines(folder / f"web{number}.jsonl", [row("web", i) for i in range(30)])
        plan = small_plan(folder)
        stores.append(prepare(plan, tmp_path / f"out{number}"))
    first, second = stores
    # The same tokenizer is all that joining asks for.
    second.index["tokenizer_sha256"] = first.index["tokenizer_sha256"]
    both = joined_stores(first, second).index[UNITS]
    assert {name: unit["count"] for name, unit in both.items()} == {
        "law": 70,
        "web0": 30,
        "web1": 30,
    }
    del second.index[UNITS]  # of an earlier version
    assert [*joined_stores(first, second).index[UNITS]] == ["web0"]
    path = write_lines(tmp_path / "exam.jsonl", [row("exam", i) for i in range(3)])
    assert with_validation_file(first, path).index[UNITS] == first.index[UNITS]


def test_text_files_are_counted_in_the_list_where_it_has_their_text() -> None:
    rows = File("a", "law", lambda: iter([]), 9, of_rows=True)
    file = File("b", "web", lambda: iter([]), 7, path=Path("b.txt"))
    counts = {"law": [3, 4], "web": [1, 4]}
    assert units_of([rows, file], counts, listed=True) == {
        "law": {"of": "rows", "count": 3, "bytes": 4},
        "web": {"of": "files", "count": 1, "bytes": 7},
    }
    assert units_of([file], counts, listed=False)["web"]["bytes"] == 4
