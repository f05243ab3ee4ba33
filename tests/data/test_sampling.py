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
from bydore_pyro.data.documents import CorpusConfig, File, Source, sources_of
from bydore_pyro.data.plan import make_plan
from bydore_pyro.data.preparation import prepare
from bydore_pyro.data.rows import RowConfig
from bydore_pyro.data.sampling import Sizes, Taken, bytes_listed, in_parts, part_of
from bydore_pyro.data.sources import list_files
from bydore_pyro.data.streams import Part
from bydore_pyro.data.tokenizer import TokenizerConfig


def rows(word: str, first: int, count: int) -> list[dict]:
    """Rows of 300 bytes that do not compress well."""
    rng = np.random.default_rng(0)
    texts = [f"{word} {i} {rng.bytes(130).hex()}" for i in range(first + count)]
    return [{"text": text} for text in texts[first:]]


def cut(data: Path, megabytes: float, seed: int = 0, **given: str) -> list[Source]:
    config = CorpusConfig(domain_megabytes=megabytes, data_seed=seed)
    files, _ = list_files(str(data), RowConfig(**given))  # type: ignore[arg-type]
    return in_parts(sources_of(files, config), config)


def taken(data: Path, megabytes: float, seed: int = 0) -> list[str]:
    """The texts of a sample, as a build takes them."""
    taken, texts = Taken(CorpusConfig(domain_megabytes=megabytes, data_seed=seed)), []
    for source in cut(data, megabytes, seed):
        for document in source.documents():
            if taken.is_enough(source):
                break
            if not taken.leaves_out(source, document):
                taken.add(str(document.domain), document.split, len(str(document.text)))
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
        parquet.write_table(
            table,
            tmp_path / f"table/{number}.parquet",
            row_group_size=50,
            compression="none",
            use_dictionary=False,
        )
    texts = taken(tmp_path, 0.05)
    of_both = {word: [int(t.split()[1]) for t in texts if t.startswith(word)] for word in "pt"}
    assert {i // 200 for i in of_both["p"]} == {0, 1, 2}, "every file"
    assert max(i % 200 for i in of_both["p"]) < 100, "no further than it has to"
    assert {i // 50 for i in of_both["t"]} == {*range(12)}, "every row group"
    assert all(max(i % 50 for i in of_both["t"]) < 30 for _ in of_both)
    sources = cut(tmp_path, 0.05)
    every = [str(d.text) for s in sources for d in s.documents()]
    assert sorted(every) == sorted(row["text"] for w in "pt" for row in rows(w, 0, 600))
    lengths = sum(s.size for s in sources if s.domain == "table")
    assert lengths == pytest.approx(sum(p.stat().st_size for p in tmp_path.glob("table/*")), abs=20)


def test_what_is_read_whole_is_not_cut(tmp_path: Path) -> None:
    """Small domains, domains that rows name, and the limits of a domain without any."""
    write_lines(tmp_path / "a.jsonl", rows("a", 0, 1000))
    write_lines(tmp_path / "b/c.jsonl", rows("c", 0, 10))
    assert all(s.size == s.file.size for limit in (0, 1) for s in cut(tmp_path, limit))
    parts = cut(tmp_path, 0.1)
    size = (tmp_path / "a.jsonl").stat().st_size
    assert [s.domain for s in parts].count("a") == -(-size // sampling.LEAST)
    assert [s.size == s.file.size for s in parts if s.domain == "b"] == [True]
    whole = cut(tmp_path / "b", 1e-6, domain_column="kind")
    assert all(s.size == s.file.size for s in whole)
    config = CorpusConfig()
    listed = sources_of(list_files(str(tmp_path), RowConfig())[0], config)
    assert bytes_listed(listed) == {"a": size, "b": listed[-1].size}
    unknown = sources_of([File("hub:x", "a", lambda: iter([]), of_rows=True)], config)
    assert bytes_listed([*listed, *unknown]).keys() == {"b"}
    (part,) = (part_of(s, Part(0, 9, size=9)) for s in listed if s.domain == "b")
    assert (part.size, len([*part.documents()])) == (9, 1)


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


def sized(clusters: list[tuple[int, int]], total: int) -> dict[str, int | None] | None:
    sizes = Sizes()
    for number, (size, tokens) in enumerate(clusters):
        sizes.add(number, "a", tokens)
        sizes.end(number, "a", size)
    sizes.close()
    return sizes.of("a", "a", total)


def test_the_ratio_estimate() -> None:
    assert sized([(100, 20), (300, 80)], 4000) == {
        "tokens": 1000,
        # R = 1/4, residuals -5 and 5: 10 sqrt(0.9 x 2 x 50), rounded
        "standard_error": round(10 * np.sqrt(0.9 * 2 * 50)),
    }
    assert sized([(100, 20)], 4000) == {"tokens": 800, "standard_error": None}
    assert sized([(100, 20), (300, 80)], 400) is None, "all was read"
    assert sized([], 400) is sized([(5, 0)], 400) is None, "nothing is known"


def test_the_error_is_that_of_repeated_samples() -> None:
    rng = np.random.default_rng(0)
    size = rng.integers(500, 1500, 400)
    tokens = (size * rng.gamma(30, 1 / 120, 400)).astype(int)
    found = []
    for _ in range(400):
        chosen = rng.permutation(400)[:40]
        pairs = list(zip(size[chosen].tolist(), tokens[chosen].tolist(), strict=True))
        estimate = sized(pairs, int(size.sum()))
        assert estimate is not None
        found.append((estimate["tokens"], estimate["standard_error"]))
    estimates, errors = np.array(found, float).T
    assert estimates.mean() == pytest.approx(tokens.sum(), rel=0.01)
    assert errors.mean() == pytest.approx(estimates.std(), rel=0.1)
    covered = np.abs(estimates - tokens.sum()) < 1.96 * errors
    assert 0.92 < covered.mean() < 0.98


def test_sums_go_on_from_their_state_and_leave_out_what_was_not_read_whole() -> None:
    whole, sizes = Sizes(), Sizes()
    for number in range(6):
        if number == 4:
            sizes.close()
            sizes = Sizes(json.loads(json.dumps(sizes.state())))
        for one in (whole, sizes):
            for name in "ab"[: 1 + number % 2]:
                one.add(number, name, 10 * number + 5)
            if number != 3:
                one.end(number, "", 100 + number)
    for one in (whole, sizes):
        one.close()
    assert whole.state() == sizes.state()
    assert whole.of("b", "", 10**4) == sizes.of("b", "", 10**4)
    total = (100 + 101 + 102 + 104 + 105) / 10**4
    assert sizes.of("b", "", 10**4)["tokens"] == round((15 + 55) / total)  # type: ignore[index]
