"""What `--data` can name, and what is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import datasets
import pyarrow
import pyarrow.parquet
import pytest
from conftest import ALPHABETS, write_domains

from bydore_pyro.corpus import CorpusConfig, build_corpus
from bydore_pyro.errors import DataError
from bydore_pyro.pile import PILE_DOMAINS, PILE_WITHDRAWN
from bydore_pyro.rows import RowConfig
from bydore_pyro.sources import Sources, list_sources
from bydore_pyro.tokens import load_tokens


def sources(data: Path | str, **options: str) -> Sources:
    return list_sources(str(data), RowConfig(**options), print)


def texts(found: Sources) -> dict[str, int]:
    """Number of documents by domain, on either side."""
    corpus = build_corpus(found, CorpusConfig(), origin="test")
    return {n: len(corpus.train[n]) + len(corpus.validation[n]) for n in corpus.names}


def row(word: str, number: int, **columns: object) -> dict:
    return {"text": f"{word} {number} " * 60, **columns}


def write_lines(path: Path, rows: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(json.dumps(r) + "\n" for r in rows).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def test_folders_and_files_are_domains(tmp_path: Path) -> None:
    write_domains(tmp_path, ALPHABETS, files=3)
    write_lines(tmp_path / "law.jsonl.gz", [row("law", i) for i in range(7)])
    table = pyarrow.Table.from_pylist([row("web", i) for i in range(9)])
    pyarrow.parquet.write_table(table, tmp_path / "web.parquet")
    datasets.Dataset.from_list([row("mail", i) for i in range(5)]).save_to_disk(tmp_path / "mail")
    for name in (".hidden", "README.md", "LICENSE"):
        (tmp_path / name).write_text("no domain")
    found = sources(tmp_path)
    assert set(found) == {*ALPHABETS, "law", "web", "mail"}
    counts = texts(found)
    assert (counts["law"], counts["web"], counts["mail"]) == (7, 9, 5)
    assert {name: len(found[name]) for name in ALPHABETS} == dict.fromkeys(ALPHABETS, 3)


def test_names_of_files_give_the_split(tmp_path: Path) -> None:
    write_lines(tmp_path / "law/train.jsonl.gz", [row("law", i) for i in range(40)])
    write_lines(tmp_path / "law/validation.jsonl.gz", [row("held", i) for i in range(5)])
    write_lines(tmp_path / "law/test-00000-of-00001.jsonl", [row("secret", 1)])
    # A document on both sides is dropped from training.
    write_lines(tmp_path / "law/train-2.jsonl", [row("held", 3), row("law", 99)])
    corpus = build_corpus(sources(tmp_path), CorpusConfig(), origin="test")
    assert len(corpus.validation["law"]) == 5
    assert all("held" in text for text in corpus.validation["law"])
    assert len(corpus.train["law"]) == 41
    assert not any("held" in text for text in corpus.train["law"])
    assert corpus.manifest["domains"]["law"]["duplicates_dropped"] == 1


def test_rows_of_one_file_are_split_and_the_cap_holds(tmp_path: Path) -> None:
    write_lines(tmp_path / "law.jsonl", [row("law", i) for i in range(400)])
    write_lines(tmp_path / "web.jsonl", [row("web", i) for i in range(400)])
    corpus = build_corpus(sources(tmp_path), CorpusConfig(validation_fraction=0.2), origin="test")
    assert 50 < len(corpus.validation["law"]) < 110
    small = build_corpus(sources(tmp_path), CorpusConfig(domain_megabytes=0.02), origin="test")
    assert 20_000 <= small.manifest["domains"]["law"]["bytes"] < 21_000


def test_a_column_names_the_domain(tmp_path: Path) -> None:
    rows = [row("x", i, meta={"set": ("law", "web", "mail")[i % 3]}) for i in range(30)]
    path = write_lines(tmp_path / "all.jsonl", rows)
    for data in (path, tmp_path):
        assert texts(sources(data, domain_column="meta.set")) == {"law": 10, "mail": 10, "web": 10}


def test_a_saved_dataset_inside_of_a_domain_is_read_once(tmp_path: Path) -> None:
    for split, count in (("train", 12), ("validation", 4)):
        rows = [row(split, i, set="law") for i in range(count)]
        datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "law" / split)
    corpus = build_corpus(sources(tmp_path), CorpusConfig(), origin="test")
    assert (len(corpus.train["law"]), len(corpus.validation["law"])) == (12, 4)
    assert len(corpus.manifest["files"]["law"]) == 2
    found = sources(tmp_path, domain_column="set")
    assert [f.path.name for f in found["law"]] == ["train", "validation"]


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_list_of_domains(tmp_path: Path, suffix: str) -> None:
    write_lines(tmp_path / "data/law-1.jsonl", [row("law", i) for i in range(6)])
    write_lines(tmp_path / "data/law-2.jsonl.gz", [row("law", i) for i in range(6, 10)])
    rows = [{"body": f"web {i} " * 60, "kind": "abc"[i % 3]} for i in range(9)]
    write_lines(tmp_path / "mixed.jsonl", rows)
    write_lines(tmp_path / "held.jsonl", [{"body": "held out " * 40, "kind": "b"}])
    listing = {
        "domains": {
            "law": "data/law-*",
            "web": {
                "train": ["mixed.jsonl"],
                "validation": str(tmp_path / "held.jsonl"),
                "text_column": "body",
                "domain_column": "kind",
                "domain": "b",
            },
        }
    }
    path = tmp_path / f"domains.{suffix}"
    path.write_text(json.dumps(listing))  # JSON is YAML
    found = sources(path)
    assert texts(found) == {"law": 10, "web": 4}
    corpus = build_corpus(found, CorpusConfig(), origin="test")
    assert len(corpus.validation["web"]) == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", "{", "found a broken file"),
        ("a.json", "[]", "Expected 'domains:'"),
        ("a.json", '{"domains": {"a": "x", "a": "y"}}', "found 'a' twice in"),
        ("a.yaml", "domains:\n  a: x\n  a: y\n", "found 'a' twice in"),
        ("a.yaml", "domains: [a", "found a broken file"),
        ("a.yaml", "domains: !!python/object/apply:os.getcwd []", "found a broken file"),
        ("a.json", '{"domains": {"a": "none.jsonl"}}', "found none for 'none.jsonl' of domain 'a'"),
        (
            "a.json",
            '{"domains": {"a": {"path": "x"}}}',
            "least train, found path for domain 'a'",
        ),
        ("a.json", '{"domains": {"a": [3]}}', "Expected a path, found 3 for domain 'a'"),
        ("a.json", '{"domains": {"a": []}}', "at least one file, found none for domain 'a'"),
        ("a.json", '{"domains": {"a=b": "x"}}', "without '=' and '/'"),
    ],
)
def test_bad_lists_are_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError) as error:
        sources(tmp_path / name)
    assert message in str(error.value)
    assert str(tmp_path / name) in str(error.value) or "without" in message


def test_bad_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="found no folder"):
        sources(tmp_path / "nowhere")
    with pytest.raises(DataError, match="a domain, found none"):
        sources(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"found none in .*empty"):
        sources(tmp_path)
    (tmp_path / "empty/text").write_bytes(b"")
    with pytest.raises(DataError, match=r"found an empty file: .*text"):
        sources(tmp_path)
    (tmp_path / "empty/text").write_text("words")
    (tmp_path / "empty.txt").write_text("words")
    with pytest.raises(DataError, match="found 'empty' twice"):
        sources(tmp_path)
    with pytest.raises(DataError, match=r"Expected \.jsonl"):
        sources(tmp_path, domain_column="set")


def test_the_pile_by_name(tmp_path: Path) -> None:
    names = [*PILE_DOMAINS, *PILE_WITHDRAWN]
    for part in range(2):
        rows = [
            row(name, 22 * j + part, meta={"pile_set_name": name})
            for j in range(4)
            for name in names
        ]
        write_lines(tmp_path / f"train/{part:02}.jsonl.gz", rows)
    counts = texts(sources(f"pile:{tmp_path}"))
    assert counts == dict.fromkeys(sorted(PILE_DOMAINS.values()), 8)


def test_tokens_of_a_list_of_domains(tmp_path: Path) -> None:
    for name in ("law", "web"):
        write_lines(tmp_path / f"{name}.jsonl", [row(name, i) for i in range(200)])
    listing = tmp_path / "domains.yaml"
    listing.write_text("domains:\n  law: law.jsonl\n  web: web.jsonl\n")
    tokens = load_tokens(str(listing), cache=tmp_path / "cache", progress=print)
    assert tokens.names == ("law", "web")
    assert len(tokens.train["law"]) > 1000
    write_lines(tmp_path / "web.jsonl", [row("web", i) for i in range(201)] + [{"body": "x"}])
    with pytest.raises(DataError, match=r"found body, .*web.jsonl, line 202"):
        load_tokens(str(listing), cache=tmp_path / "cache", progress=print)
    skip = RowConfig(on_error="skip")
    tokens = load_tokens(str(listing), rows=skip, cache=tmp_path / "cache", progress=print)
    assert tokens.manifest["domains"]["web"]["skipped"] == 1
