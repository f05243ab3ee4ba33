"""A sample is spread over all of a domain's files, and every document is as likely."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from tiny import write_lines

from bydore_pyro.data import sampling
from bydore_pyro.data.documents import CorpusConfig, SourceFile, documents_of, in_reading_order
from bydore_pyro.data.plan import make_plan
from bydore_pyro.data.preparation import prepare
from bydore_pyro.data.rows import RowConfig
from bydore_pyro.data.sampling import bytes_listed, in_parts
from bydore_pyro.data.sources import list_sources
from bydore_pyro.data.tokenizer import TokenizerConfig


def rows(word: str, first: int, count: int) -> list[dict]:
    """Rows of 300 bytes that do not compress well."""
    rng = np.random.default_rng(0)
    texts = [f"{word} {i} {rng.bytes(130).hex()}" for i in range(first + count)]
    return [{"text": text} for text in texts[first:]]


def cut(data: Path, megabytes: float, seed: int = 0, **given: str) -> list[SourceFile]:
    config = CorpusConfig(domain_megabytes=megabytes, data_seed=seed)
    listed = list_sources(str(data), RowConfig(**given))  # type: ignore[arg-type]
    return in_parts(in_reading_order(listed, config), config)


def taken(data: Path, megabytes: float, seed: int = 0) -> list[str]:
    """The texts of a sample, as a build takes them."""
    config = CorpusConfig(domain_megabytes=megabytes, data_seed=seed)
    sizes: Counter = Counter()
    texts = []
    for source in cut(data, megabytes, seed):
        for document in documents_of(source, config, sizes):
            sizes[document.domain, document.split] += len(str(document.text))
            texts.append(str(document.text))
    return texts


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "LEAST", 2_000)
    monkeypatch.setattr(sampling, "PARTS", 16)
    monkeypatch.setattr(sampling, "MOST", 128)


@pytest.mark.usefixtures("small_parts")
def test_every_document_is_as_likely(tmp_path: Path) -> None:
    """Of files of 1 to 500 rows, over seeds; each part of a file as often as its length tells."""
    counts, first = [1, 3, 30, 500, 200], 0
    for number, count in enumerate(counts):
        write_lines(tmp_path / f"a/{number}.jsonl", rows("a", first, count))
        first += count
    seen: Counter = Counter()
    for seed in range(100):
        seen.update(int(text.split()[1]) for text in taken(tmp_path, 0.03, seed))
    share = sum(seen.values()) / 100 / first
    assert 0.1 < share < 0.25
    found = np.array([seen[i] for i in range(first)]) / 100
    for part in (*np.split(found, np.cumsum(counts)[:-1]), *np.split(found[34:534], 5)):
        independent = 100 * max(1, len(part) / 7)  # about seven documents lie in a part
        error = np.sqrt(share * (1 - share) / independent)
        assert part.mean() == pytest.approx(share, abs=3 * error)


@pytest.mark.usefixtures("small_parts")
def test_parts_are_spread_and_all_text_can_be_reached(tmp_path: Path) -> None:
    for number in range(3):
        content = "".join(json.dumps(row) + "\n" for row in rows("p", 200 * number, 200))
        (tmp_path / "packed").mkdir(exist_ok=True)
        (tmp_path / f"packed/{number}.jsonl.gz").write_bytes(gzip.compress(content.encode()))
        table = pyarrow.Table.from_pylist(rows("t", 200 * number, 200))
        (tmp_path / "table").mkdir(exist_ok=True)
        parquet.write_table(table, tmp_path / f"table/{number}.parquet", row_group_size=50,
                            compression="none", use_dictionary=False)  # fmt: skip
    texts = taken(tmp_path, 0.05)
    of_both = {word: [int(t.split()[1]) for t in texts if t.startswith(word)] for word in "pt"}
    assert {i // 200 for i in of_both["p"]} == {0, 1, 2}, "every file"
    assert max(i % 200 for i in of_both["p"]) < 100, "no further than it has to"
    assert {i // 50 for i in of_both["t"]} == {*range(12)}, "every row group"
    assert all(max(i % 50 for i in of_both["t"]) < 30 for _ in of_both)
    sources = cut(tmp_path, 0.05)
    config = CorpusConfig(domain_megabytes=0)
    every = [str(d.text) for s in sources for d in documents_of(s, config, {})]
    assert sorted(every) == sorted(row["text"] for w in "pt" for row in rows(w, 0, 600))
    lengths = sum(s.length for s in sources if s.domain == "table")
    assert lengths == pytest.approx(sum(p.stat().st_size for p in tmp_path.glob("table/*")), abs=20)


def test_what_is_read_whole_is_not_cut(tmp_path: Path) -> None:
    """Small domains, domains that rows name, and the limits of a domain without any."""
    write_lines(tmp_path / "a.jsonl", rows("a", 0, 1000))
    write_lines(tmp_path / "b/c.jsonl", rows("c", 0, 10))
    assert all(s.part is None for limit in (0, 1) for s in cut(tmp_path, limit))
    parts = cut(tmp_path, 0.1)
    size = (tmp_path / "a.jsonl").stat().st_size
    assert [s.domain for s in parts].count("a") == -(-size // sampling.LEAST)
    assert [s.part for s in parts if s.domain == "b"] == [None]
    assert not any(s.part for s in cut(tmp_path / "b", 1e-6, domain_column="kind"))
    config = CorpusConfig()
    listed = in_reading_order(list_sources(str(tmp_path), RowConfig()), config)
    assert bytes_listed(listed, config) == {"a": size, "b": listed[-1].size}
    unknown = SourceFile("hub:x", "a", lambda: iter([]), by_row=True)
    assert bytes_listed([*listed, unknown], config).keys() == {"b"}


@pytest.mark.parametrize("ending", [".jsonl.gz", ".csv", ".parquet"])
def test_a_sample_of_one_file_tells_the_size_of_all(ending: str, tmp_path: Path) -> None:
    """A file that was read from its start up to where there was enough counts by its bytes."""
    given = [{"text": f"{row['text']} " * 2} for row in rows("a", 0, 4000)]
    path = write_lines(tmp_path / "text" / f"a{ending}", given)
    if ending == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(given), path)
    if ending == ".csv":
        path.write_text("\n".join(["text", *(row["text"] for row in given)]))
    corpus = CorpusConfig(domain_megabytes=0.2)
    tokenizer = TokenizerConfig(vocabulary=280)
    store = prepare(make_plan(str(path.parent), corpus, None, tokenizer), tmp_path / "store")
    size, found = sum(len(row["text"]) for row in given), store.index["domains"]["a"]["train"]
    expected = found["tokens"] * 0.9 * size / found["bytes"]
    sampled = store.in_all("a")
    assert sampled is not None
    assert found["tokens"] < 0.2 * expected
    assert 0.8 * expected < sampled["tokens"] < 1.3 * expected
