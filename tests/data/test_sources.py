"""What `--data` can name, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import datasets
import pyarrow
import pyarrow.parquet
import pytest
from tiny import ALPHABETS, row, small_plan, write_domains, write_lines

from bydore_pyro.data.documents import CorpusConfig, SourceFile, documents_of, in_reading_order
from bydore_pyro.data.preparation import prepare
from bydore_pyro.data.rows import RowConfig
from bydore_pyro.data.sources import check_name, list_sources
from bydore_pyro.mixture.published import PILE_DOMAINS, PILE_WITHDRAWN
from bydore_pyro.utils.errors import DataError


def sources(data: Path | str, **options: str) -> list[SourceFile]:
    return list_sources(str(data), RowConfig(**options), print)


def texts(found: list[SourceFile], side: str | None = None) -> dict[str, list[str]]:
    """Documents by domain, in the order of the seed, on one side or on both."""
    config = CorpusConfig()
    result: dict[str, list[str]] = {}
    for source in in_reading_order(found, config):
        for document in documents_of(source, config, {}):
            if side in (None, document.split):
                result.setdefault(str(document.domain), []).append(str(document.text))
    return result


def counts(found: list[SourceFile], side: str | None = None) -> dict[str, int]:
    return {name: len(documents) for name, documents in texts(found, side).items()}


def test_folders_and_files_are_domains(tmp_path: Path) -> None:
    write_domains(tmp_path, ALPHABETS, files=3)
    write_lines(tmp_path / "law.jsonl.gz", [row("law", i) for i in range(7)])
    table = pyarrow.Table.from_pylist([row("web", i) for i in range(9)])
    pyarrow.parquet.write_table(table, tmp_path / "web.parquet")
    datasets.Dataset.from_list([row("mail", i) for i in range(5)]).save_to_disk(tmp_path / "mail")
    for name in (".hidden", "README.md", "LICENSE"):
        (tmp_path / name).write_text("no domain")
    found = sources(tmp_path)
    expected = {"law": 7, "web": 9, "mail": 5, **dict.fromkeys(ALPHABETS, 3)}
    assert counts(found) == expected
    assert {s.domain for s in found} == set(expected)


def test_names_of_files_give_the_split(tmp_path: Path) -> None:
    write_lines(tmp_path / "law/train.jsonl.gz", [row("law", i) for i in range(40)])
    write_lines(tmp_path / "law/validation.jsonl.gz", [row("held", i) for i in range(5)])
    write_lines(tmp_path / "law/test-00000-of-00001.jsonl", [row("secret", 1)])
    found = sources(tmp_path)
    assert counts(found, "validation") == {"law": 5}
    assert counts(found, "train") == {"law": 40}
    assert all("held" in text for text in texts(found, "validation")["law"])


def test_a_column_names_the_domain(tmp_path: Path) -> None:
    rows = [row("x", i, meta={"set": ("law", "web", "mail")[i % 3]}) for i in range(30)]
    path = write_lines(tmp_path / "all.jsonl", rows)
    for data in (path, tmp_path):
        found = counts(sources(data, domain_column="meta.set"))
        assert found == {"law": 10, "mail": 10, "web": 10}


def test_a_saved_dataset_inside_of_a_domain_is_read_once(tmp_path: Path) -> None:
    for split, count in (("train", 12), ("validation", 4)):
        rows = [row(split, i, set="law") for i in range(count)]
        datasets.Dataset.from_list(rows).save_to_disk(tmp_path / "law" / split)
    found = sources(tmp_path)
    assert (counts(found, "train"), counts(found, "validation")) == ({"law": 12}, {"law": 4})
    by_column = sources(tmp_path, domain_column="set")
    assert [s.name for s in found] == [s.name for s in by_column] == ["law/train", "law/validation"]


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
    assert counts(found) == {"law": 10, "web": 4}
    assert counts(found, "validation").get("web") == 1


def test_a_listed_domain_may_be_validation_alone_or_on_the_hub(tmp_path: Path) -> None:
    write_lines(tmp_path / "held.jsonl", [row("held", i) for i in range(9)])
    write_lines(tmp_path / "hub/train.jsonl", [row("law", i, kind="b") for i in range(8)])
    write_lines(tmp_path / "hub/validation.jsonl", [row("law", i, kind="b") for i in range(3)])
    listing = {
        "domains": {
            "target": {"validation": "held.jsonl"},
            "law": {
                "train": f"hub:{tmp_path / 'hub'}",
                "validation": f"hub:{tmp_path / 'hub'}@validation",
            },
        }
    }
    (tmp_path / "domains.json").write_text(json.dumps(listing))
    found = sources(tmp_path / "domains.json")
    assert counts(found, "train") == {"law": 8}
    assert counts(found, "validation") == {"target": 9, "law": 3}
    assert counts(sources(f"hub:{tmp_path / 'hub'}", domain_column="kind")) == {"b": 8}
    with pytest.raises(DataError, match="Expected a domain_column"):
        sources("hub:owner/name")
    with pytest.raises(DataError, match="Expected the name of a dataset after 'hub:'"):
        sources("hub:", domain_column="kind")


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
            "train or validation, found path for domain 'a'",
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
    with pytest.raises(DataError, match="each domain, found none"):
        sources(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"found none in .*empty"):
        sources(tmp_path)
    (tmp_path / "empty/text").write_bytes(b"")
    with pytest.raises(DataError, match=r"found an empty file: .*text"):
        sources(tmp_path)
    assert [r.text for r in sources(tmp_path, on_error="skip")[0].read()] == [None]
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
    found = sources(f"pile:{tmp_path}")
    assert counts(found) == dict.fromkeys(PILE_DOMAINS.values(), 8)
    assert found[0].domains == tuple(PILE_DOMAINS.values())
    (hub,) = sources("pile:owner/pile@validation")
    assert hub.name == "hub:owner/pile@validation"
    assert hub.domains == tuple(PILE_DOMAINS.values())
    with pytest.raises(DataError, match=r"Expected \.jsonl"):
        sources(f"pile:{tmp_path / 'nowhere'}")


def test_names_that_files_cannot_carry_are_refused() -> None:
    for name in ("", "a/b", "a=b", "a\0b", "x" * 201, "ü" * 101):
        with pytest.raises(DataError, match="Expected a domain's name of at most 200 bytes"):
            check_name(name)
    with pytest.raises(DataError, match=r"Expected a UTF-8 name of a domain, found '\\udc80'"):
        check_name("\udc80")
    check_name("Gutenberg (PG-19)")


def write_splits(folder: Path, *names: str, **columns: object) -> None:
    for number, name in enumerate(names):
        rows = [row(name, 100 * number + i, **columns) for i in range(10)]
        write_lines(folder / name, rows)


def test_names_tell_the_split_wherever_the_files_are_named(tmp_path: Path) -> None:
    """In a folder with a domain column, in the Pile, and in a folder that a list names."""
    names = ("train/00.jsonl", "val.jsonl", "test.jsonl")
    write_splits(tmp_path / "column", *names, kind="a")
    write_splits(tmp_path / "pile", *names, meta={"pile_set_name": "Github"})
    write_splits(tmp_path / "list/a", *names)
    (tmp_path / "list.json").write_text(json.dumps({"domains": {"a": "list/a"}}))
    for found in (
        sources(tmp_path / "column", domain_column="kind"),
        sources(f"pile:{tmp_path / 'pile'}"),
        sources(tmp_path / "list.json"),
    ):
        (name,) = counts(found)
        assert counts(found, "train") == counts(found, "validation") == {name: 10}
        assert not any("test" in text for text in texts(found)[name])


def test_names_that_only_begin_like_a_split_are_names(tmp_path: Path) -> None:
    write_splits(tmp_path / "a", "dev notes.jsonl", "test-report.jsonl", "values.jsonl")
    assert len(texts(sources(tmp_path))["a"]) == 30
    write_splits(tmp_path / "a", "validation-00000-of-00001.jsonl", "test_2.jsonl")
    found = sources(tmp_path)
    assert counts(found, "validation") == {"a": 10}
    assert counts(found, "train") == {"a": 30}, "test_2 is left out"


def test_links_are_followed_and_loops_are_not(tmp_path: Path) -> None:
    write_splits(tmp_path / "elsewhere", "1.jsonl")
    write_splits(tmp_path / "data/a", "2.jsonl")
    (tmp_path / "data/a/more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "data/a/loop").symlink_to(tmp_path / "data/a")
    assert counts(sources(tmp_path / "data")) == {"a": 20}


def test_a_dataset_is_no_folder_of_domains(tmp_path: Path) -> None:
    saved = datasets.Dataset.from_list([row("a", i, kind="x") for i in range(8)])
    both = datasets.DatasetDict({"train": saved, "validation": saved.select(range(2))})
    both.save_to_disk(tmp_path / "both")
    saved.save_to_disk(tmp_path / "one")
    for name in ("both", "one"):
        with pytest.raises(DataError, match="Expected a folder of domains, found one file or"):
            sources(tmp_path / name)
    found = sources(tmp_path / "both", domain_column="kind")
    assert counts(found, "train") == {"x": 8}
    assert counts(found, "validation") == {"x": 2}


@pytest.mark.parametrize(
    ("listing", "message"),
    [
        ("domains:\n  no: a.jsonl\n", "names of domains in quotes, found False"),
        ("domains:\n  ? [a, b]\n  : a.jsonl\n", "found a broken file"),
        ("domains: {a: 3}", "Expected a path or paths for train, found 3"),
        ("domains: {a: {train: a.jsonl, domain_column: 3}}", "Expected text for domain_column"),
        ("domains: {a: {train: a.jsonl, domain: x}}", "Expected a domain_column beside domain"),
        ("domains: {a: {train: a.txt, domain_column: k}}", "Expected rows that name their domain"),
        ("domains: {a: 'x**.jsonl'}", "'x**.jsonl'"),
    ],
)
def test_lists_of_the_wrong_shape(tmp_path: Path, listing: str, message: str) -> None:
    write_splits(tmp_path, "a.jsonl")
    (tmp_path / "a.txt").write_text("words")
    (tmp_path / "list.yaml").write_text(listing)
    with pytest.raises(DataError) as error:
        sources(tmp_path / "list.yaml")
    assert message in str(error.value)


def test_a_list_may_lie_in_a_folder_with_an_odd_name(tmp_path: Path) -> None:
    folder = tmp_path / "l_gl[o]b*"
    write_splits(folder, "1a.jsonl", "2a.jsonl")
    (folder / "list.json").write_text('{"domains":\t{"\\ud83d\\ude42": "*a.jsonl"}}')
    assert counts(sources(folder / "list.json")) == {"🙂": 20}


def test_links_that_lead_nowhere_and_pipes_are_named_or_counted(tmp_path: Path) -> None:
    """Whatever they are called, alone or below a pattern: no input is lost without a word."""
    (tmp_path / "law").mkdir()
    (tmp_path / "law/a.txt").write_text("text " * 100)
    listing = tmp_path / "list.yaml"
    listing.write_text("domains: {law: 'law/*'}")
    for name, told in (("b.txt", "leads nowhere"), ("b.jsonl", "leads nowhere"), ("p", "a pipe")):
        path = tmp_path / "law" / name
        path.symlink_to("nowhere") if told != "a pipe" else os.mkfifo(path)
        for data in (tmp_path, listing):
            if data == tmp_path:
                listing.rename(tmp_path / ".list")
            with pytest.raises(DataError, match=f"{told}.*: .*/{name}"):
                sources(data)
            found = {s.name: s for s in sources(data, on_error="skip")}
            assert [row.text for row in found[f"law/{name}"].read()] == [None]
            if data == tmp_path:
                (tmp_path / ".list").rename(listing)
        path.unlink()


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    """`Path.resolve` raises at two links to each other; `glob` follows two links back for years."""
    write_domains(tmp_path / "text", {"a": "abcde", "b": "vwxyz"}, files=3)
    for domain in "ab":
        folder = tmp_path / "text" / domain
        (folder / "one").symlink_to(folder / "two")
        (folder / "two").symlink_to(folder / "one")
        for number in range(4):
            (folder / f"back-{number}").symlink_to(folder)
    with pytest.raises(DataError, match="Too many levels of symbolic links"):
        sources(tmp_path / "text")
    for link in ("one", "two"):
        for domain in "ab":
            (tmp_path / "text" / domain / link).unlink()
    names = [f"{domain}/{number}.txt" for domain in "ab" for number in range(3)]
    assert sorted(source.name for source in sources(tmp_path / "text")) == names
    listed = {"a": "text/a/**/*.txt", "b": str(tmp_path / "text/**/b/[0-1].*")}
    (tmp_path / "list.json").write_text(json.dumps({"domains": listed}))
    assert sorted(source.name for source in sources(tmp_path / "list.json")) == [
        f"text/{name}" for name in names[:5]
    ]


def test_two_stars_at_the_end_are_all_files_below(tmp_path: Path) -> None:
    write_domains(tmp_path / "text", {"a": "abcde", "b": "vwxyz"}, files=2)
    names = [f"text/{domain}/{number}.txt" for domain in "ab" for number in range(2)]
    for pattern in ("text/**", str(tmp_path / "text/**")):
        (tmp_path / "list.json").write_text(json.dumps({"domains": {"a": pattern}}))
        assert sorted(source.name for source in sources(tmp_path / "list.json")) == names


def test_names_of_bytes_that_are_no_text(tmp_path: Path) -> None:
    write_domains(tmp_path / "text", {"a": "abcde", "b": "vwxyz"}, files=2)
    (tmp_path / "text/a/0.txt").rename(os.fsdecode(os.fsencode(tmp_path / "text/a") + b"/\xe9.txt"))
    found = sources(tmp_path / "text")
    assert sorted(source.name for source in found)[:2] == ["a/1.txt", "a/\\xe9.txt"]
    assert sum(counts(found).values()) == 4
    assert prepare(small_plan(tmp_path / "text"), tmp_path / "store").names == ("a", "b")
