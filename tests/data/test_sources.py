"""What `--data` can name, and what is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from tiny import ALPHABETS, lines_told, row, small_plan, write_domains, write_lines

from bydore_pyro.data.documents import CorpusConfig, File, sources_of
from bydore_pyro.data.preparation import prepare
from bydore_pyro.data.rows import RowConfig
from bydore_pyro.data.sources import (
    LISTS,
    TREE,
    LeftOut,
    ListedDomain,
    files_below,
    list_files,
    read_list,
)
from bydore_pyro.errors import DataError
from bydore_pyro.mixture.published import PILE_DOMAINS, PILE_WITHDRAWN

PAIR = {"a": "abcde", "b": "vwxyz"}


def listed(data: Path | str, **options: str) -> list[File | LeftOut]:
    files, left_out = list_files(str(data), RowConfig(**options))  # type: ignore[arg-type]
    return [*files, *left_out]


def sources(data: Path | str, **options: str) -> list[File]:
    return [one for one in listed(data, **options) if isinstance(one, File)]


def texts(found: Sequence[File | LeftOut], side: str | None = None) -> dict[str, list[str]]:
    """Documents by domain, in the order of the seed, on one side or on both."""
    result: dict[str, list[str]] = {}
    files = [one for one in found if isinstance(one, File)]
    for source in sources_of(files, CorpusConfig()):
        for document in source.documents():
            if side in (None, document.split):
                result.setdefault(str(document.domain), []).append(str(document.text))
    return result


def counts(found: Sequence[File | LeftOut], side: str | None = None) -> dict[str, int]:
    return {name: len(documents) for name, documents in texts(found, side).items()}


def names(found: Sequence[File | LeftOut]) -> list[str]:
    return sorted(source.name for source in found)


def write_list(path: Path, **domains: object) -> Path:
    path.write_text(json.dumps({"domains": domains}))  # JSON is YAML
    return path


def write_splits(folder: Path, *files: str, **columns: object) -> None:
    for number, name in enumerate(files):
        rows = [row(name, 100 * number + i, **columns) for i in range(10)]
        write_lines(folder / name, rows)


def test_folders_and_files_are_domains(tmp_path: Path) -> None:
    write_domains(tmp_path, ALPHABETS, files=3)
    write_lines(tmp_path / "law.jsonl.gz", [row("law", i) for i in range(7)])
    table = pyarrow.Table.from_pylist([row("web", i) for i in range(9)])
    parquet.write_table(table, tmp_path / "web.parquet")
    for name in (".hidden", "README.md", "LICENSE"):
        (tmp_path / name).write_text("no domain")
    assert counts(sources(tmp_path)) == {"law": 7, "web": 9, **dict.fromkeys(ALPHABETS, 3)}


def test_folders_of_folders(tmp_path: Path) -> None:
    """Sides are no part of a name; a folder may be a domain and hold others."""
    for place in ("web/law/high", "web/law", "code/train"):
        write_lines(tmp_path / place / "a.jsonl", [row(place, i) for i in range(5)])
    write_lines(tmp_path / "code/validation/b.jsonl", [row("held out", i) for i in range(3)])
    write_lines(tmp_path / "mail.jsonl", [row("mail", i) for i in range(2)])
    found = sources(tmp_path / TREE)
    assert counts(found) == {"code": 8, "mail": 2, "web/law": 5, "web/law/high": 5}
    assert counts(found, "validation")["code"] == 3
    assert counts(sources(tmp_path)) == {"code": 8, "mail": 2, "web": 10}, "as ever"
    with pytest.raises(DataError, match="found no folder"):
        sources(tmp_path / "none" / TREE)


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_list_of_domains(tmp_path: Path, suffix: str) -> None:
    write_lines(tmp_path / "data/law-1.jsonl", [row("law", i) for i in range(6)])
    write_lines(tmp_path / "data/law-2.jsonl.gz", [row("law", i) for i in range(6, 10)])
    write_lines(tmp_path / "web.jsonl", [{"body": f"web {i} " * 60} for i in range(3)])
    write_lines(tmp_path / "held.jsonl", [{"body": "held out " * 40}])
    write_splits(tmp_path / "hub", "train.jsonl", "validation.jsonl")
    held, hub = str(tmp_path / "held.jsonl"), f"hub:{tmp_path / 'hub'}"
    web = {"train": ["web.jsonl"], "validation": held, "text_column": "body"}
    code = {"train": hub, "validation": f"{hub}@validation"}
    domains = {"law": "data/law-*", "web": web, "exam": {"validation": "data"}, "code": code}
    found = sources(write_list(tmp_path / f"domains.{suffix}", **domains))
    assert counts(found) == {"law": 10, "web": 4, "exam": 10, "code": 20}
    assert counts(found, "validation").keys() >= {"web", "exam", "code"}
    assert counts(found, "train") | {"law": 0} == {"law": 0, "web": 3, "code": 10}
    assert f".{suffix}" in LISTS
    read = read_list(tmp_path / f"domains.{suffix}")
    assert read["law"] == ListedDomain(["data/law-*"], None, None)
    assert read["web"] == ListedDomain(["web.jsonl"], [held], "body")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.json", '{"domains": {"a": "x", "a": "y"}}', "found 'a' twice in"),
        ("a.yaml", "domains: !!python/object/apply:os.getcwd []", "found a broken file"),
        ("a.json", '{"domains": {"a": "none.jsonl"}}', "found none for 'none.jsonl' of domain 'a'"),
        (
            "a.json",
            '{"domains": {"a": "x\\u0000y"}}',
            r"Expected a path, found 'x\x00y' for domain",
        ),
        ("a.json", '{"domains": {"a": {"train": "x", "validation": []}}}', "one path for valid"),
        ("a.yaml", "domains:\n  no: a.jsonl\n", "names of domains in quotes, found False"),
    ],
)
def test_bad_lists_are_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError) as error:
        sources(tmp_path / name)
    assert message in str(error.value)
    assert str(tmp_path / name) in str(error.value) or "without" in message


def test_bad_data_is_refused(tmp_path: Path) -> None:
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
    with pytest.raises(DataError, match=r"found 'empty' again: .*empty\.txt"):
        sources(tmp_path)
    with pytest.raises(DataError, match=r"Expected \.jsonl, \.json"):
        sources(tmp_path, domain_column="set")
    with pytest.raises(DataError, match="Expected no --domain_column beside a list"):
        sources(write_list(tmp_path / "list.json", a="empty"), domain_column="set")
    write_splits(tmp_path, "rows.jsonl")
    for data in (tmp_path / "rows.jsonl", "hub:owner/name"):
        with pytest.raises(DataError, match=f"Expected --domain_column, .*row's domain in {data}"):
            sources(data)
    with pytest.raises(DataError, match="Expected the name of a dataset after 'hub:'"):
        sources("hub:", domain_column="kind")


def test_the_pile_by_name(tmp_path: Path) -> None:
    given = [*PILE_DOMAINS, *PILE_WITHDRAWN]
    for part in range(2):
        rows = [
            row(name, 22 * j + part, meta={"pile_set_name": name})
            for j in range(4)
            for name in given
        ]
        write_lines(tmp_path / f"train/{part:02}.jsonl.gz", rows)
    found = sources(f"pile:{tmp_path}")
    withdrawn = {"None": 8 * len(PILE_WITHDRAWN)}
    assert counts(found) == dict.fromkeys(PILE_DOMAINS.values(), 8) | withdrawn, "counted"
    assert {*texts(found)["None"]} == {"None"}
    (hub,) = sources("pile:owner/pile@validation")
    assert hub.name == "hub:owner/pile@validation"
    assert found[0].domains == hub.domains == tuple(PILE_DOMAINS.values())
    with pytest.raises(DataError, match=r"Expected \.jsonl, \.json"):
        sources(f"pile:{tmp_path / 'nowhere'}")
    with pytest.raises(DataError, match="after 'pile:', found none"):
        sources("pile:")


def test_links_that_lead_nowhere_and_pipes_are_named_or_counted(tmp_path: Path) -> None:
    """Whatever they are called, alone or below a pattern: no input is lost without a word."""
    (tmp_path / "text/law").mkdir(parents=True)
    (tmp_path / "text/law/a.txt").write_text("text " * 100)
    listing = write_list(tmp_path / "list.yaml", law="text/law/*")
    for name, told in (("b.txt", "leads nowhere"), ("b.jsonl", "leads nowhere"), ("p", "a pipe")):
        path = tmp_path / "text/law" / name
        path.symlink_to("nowhere") if told != "a pipe" else os.mkfifo(path)
        for data in (tmp_path / "text", listing):
            with pytest.raises(DataError, match=f"{told}.*: .*/{name}"):
                sources(data)
            (bad,) = (s for s in sources(data, on_error="skip") if s.name.endswith(f"law/{name}"))
            assert [row.text for row in bad.read()] == [None]
        path.unlink()


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    """Those to other folders are followed; `Path.resolve` raises at two links to each other."""
    text = write_domains(tmp_path / "text", PAIR, files=3)
    expected = [f"{domain}/{number}.txt" for domain in "ab" for number in range(3)]
    for domain in "ab":
        folder = text / domain
        (folder / "one").symlink_to(folder / "two")
        (folder / "two").symlink_to(folder / "one")
        for number in range(4):
            (folder / f"back-{number}").symlink_to(folder)
    with pytest.raises(DataError, match="Too many levels of symbolic links"):
        sources(text)
    for path in (text / domain / link for link in ("one", "two") for domain in "ab"):
        path.unlink()
    (text / "a/other").symlink_to(write_domains(tmp_path / "elsewhere", {"c": "efgh"}, files=1))
    assert names(sources(text)) == sorted([*expected, "a/other/c/0.txt"])
    listing = write_list(tmp_path / "list.json", a="text/a", b=str(text / "b" / "[0-1].*"))
    assert names(sources(listing)) == sorted(
        f"text/{name}" for name in [*expected[:5], "a/other/c/0.txt"]
    )


def test_names_of_bytes_that_are_no_text(tmp_path: Path) -> None:
    text = write_domains(tmp_path / "text", PAIR, files=2)
    (text / "a/0.txt").rename(os.fsdecode(os.fsencode(text / "a") + b"/\xe9.txt"))
    found = sources(text)
    assert names(found)[:2] == ["a/1.txt", "a/\\xe9.txt"]
    assert sum(counts(found).values()) == 4
    assert prepare(small_plan(text), tmp_path / "store").names == ("a", "b")


def test_what_lies_beside_rows_is_no_document_and_counted(tmp_path: Path) -> None:
    """What Hugging Face, Spark and git leave; a README among texts is one."""
    write_splits(tmp_path / "a", "part-0.json", "part-1.JSONL.gz")
    (tmp_path / "b").mkdir()
    for name in ("README.md", "LICENSE", "dataset_infos.json", "state.json", "_SUCCESS", ".crc"):
        (tmp_path / "a" / name).write_text('{"text": "no document"}')
        (tmp_path / "b" / name).write_text("words " * 60)
    (tmp_path / "dataset_info.json").write_text("{}")
    with lines_told() as told:
        found = listed(tmp_path)
    assert counts(found) == {"a": 20, "b": 2}
    assert told == [
        "left out (beside the text): a/LICENSE, a/README.md, a/_SUCCESS, a/dataset_infos.json, "
        "a/state.json and 4 more"
    ]


def test_files_below_a_folder_and_empty_folders(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/x").touch()
    (tmp_path / ".hidden").touch()
    assert files_below(tmp_path) == [tmp_path / "a/x"]
    assert files_below(tmp_path, empty=True) == [tmp_path / "a/b", tmp_path / "a/x"]
    assert files_below(tmp_path / "a/x") == [tmp_path / "a/x"]


def sides(found: Sequence[File | LeftOut]) -> dict[str, str | None]:
    """The side of each file, or why it is left out."""
    return {one.name: one.reason if isinstance(one, LeftOut) else one.side for one in found}


def test_a_test_split_is_never_read(tmp_path: Path) -> None:
    """Beside train alone what is held out is drawn from train; beside validation it is that."""
    write_splits(tmp_path / "law", "train-00000-of-00001.jsonl", "test-00000-of-00001.jsonl")
    write_splits(tmp_path / "web", "train.jsonl", "validation_matched.jsonl", "test_seen.jsonl")
    write_splits(tmp_path / "web", "more.jsonl")
    with lines_told() as told:
        found = listed(tmp_path)
    assert sides(found) == {
        "law/test-00000-of-00001.jsonl": "test split",
        "law/train-00000-of-00001.jsonl": None,
        "web/more.jsonl": "train",
        "web/test_seen.jsonl": "test split",
        "web/train.jsonl": "train",
        "web/validation_matched.jsonl": "validation",
    }
    read = texts(found)
    assert not any("test" in text for own in read.values() for text in own)
    assert counts(found, "validation")["web"] == 10
    assert told == ["left out (test split): law/test-00000-of-00001.jsonl, web/test_seen.jsonl"]


def test_in_a_tree_of_programs_all_is_text(tmp_path: Path) -> None:
    """Neither `eval.py` nor `dev/` becomes the held-out text, and `test.py` stays."""
    files = ("eval.py", "dev/tool.py", "validation.py", "test.py", "train.py", "src/model.py")
    for name in files:
        path = tmp_path / "code" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {name}\n" * 40)
    write_splits(tmp_path / "law", "test.jsonl", "a.jsonl")
    with lines_told() as told:
        found = listed(tmp_path)
    assert sides(found) == dict.fromkeys(
        [*(f"code/{f}" for f in files), "law/a.jsonl", "law/test.jsonl"]
    )
    line = "read as the rest of the domain (called like a held-out split, no train beside it): "
    assert told == [f"{line}law/test.jsonl"]
    names = {source.domain for source in sources(tmp_path / TREE)}
    assert names == {"code", "code/dev", "code/src", "law"}
    names = {source.domain for source in sources(tmp_path / "code" / TREE)}
    assert names == {"dev", "src", "eval", "validation", "test", "train"}, "not refused"


def test_in_a_tree_only_a_name_that_decides_is_no_part_of_a_domain(tmp_path: Path) -> None:
    """The sides may stand above the domains, or one domain may have no train."""
    write_splits(
        tmp_path,
        "train/law/a.jsonl",
        "validation/law/b.jsonl",
        "validation/web/c.jsonl",
        "test/law/d.jsonl",
        "code/dev/e.jsonl",
    )
    found = listed(tmp_path / TREE)
    assert sides(found) == {
        "code/dev/e.jsonl": None,
        "test/law/d.jsonl": "test split",
        "train/law/a.jsonl": "train",
        "validation/law/b.jsonl": "validation",
        "validation/web/c.jsonl": "validation",
    }
    assert {source.domain for source in found} == {"code/dev", "law", "web"}


def test_sides_in_place_of_domains_are_refused(tmp_path: Path) -> None:
    """Each would be a domain, and the test split would be trained on."""
    for number, names in enumerate(
        (
            ("train.jsonl", "test.jsonl"),
            ("law-train.txt", "law-val.txt"),
            ("train/a.txt", "test/a.txt"),
        )
    ):
        for name in names:
            path = tmp_path / str(number) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("words")
        with pytest.raises(
            DataError, match=r"names of the sides of a split, .*: put the files of each domain"
        ):
            sources(tmp_path / str(number))
    with pytest.raises(DataError, match=r"sides of a split, train\.jsonl and test\.jsonl, in"):
        sources(tmp_path / "0" / TREE)


def test_a_list_says_which_file_is_which_side(tmp_path: Path) -> None:
    """What it names itself is so; in a folder or pattern of training text no split is trained on,
    and where no side is named the names of files decide."""
    write_splits(tmp_path / "law", "train.jsonl", "test.jsonl", "validation.jsonl")
    for domain, expected in (
        ("law", {"train": "train", "test": "test split", "validation": "validation"}),
        ("law/*", {"train": "train", "test": "test split", "validation": "validation"}),
        ("law/t*", {"train": None, "test": "test split"}),
        (["law/train.jsonl", "law/test.jsonl"], {"train": None, "test": None}),
        (
            {"train": "law", "validation": "law/test.jsonl"},
            {"train": "train", "test": "validation", "validation": "validation split"},
        ),
        (
            {"train": "law/test.jsonl", "validation": "law/train.jsonl"},
            {"train": "validation", "test": "train"},
        ),
    ):
        found = listed(write_list(tmp_path / "list.yaml", law=domain))
        assert sides(found) == {f"law/{name}.jsonl": side for name, side in expected.items()}
        assert len(found) == len(expected), "what a side reads is not left out too"
    with pytest.raises(DataError, match="at least one file of text, found none for domain 'law'"):
        (tmp_path / "empty").mkdir()
        sources(write_list(tmp_path / "list.yaml", law="empty"))


def test_what_is_no_domain_is_named(tmp_path: Path) -> None:
    """Beside the domains of a folder, and among files whose rows name them."""
    write_splits(tmp_path, "law/a.jsonl", "web.jsonl", set="x")
    for name in ("notes.md", "book.epub", "LICENSE"):
        (tmp_path / name).write_text("words")
    assert sides(listed(tmp_path)) == {
        "LICENSE": "beside the text",
        "book.epub": "neither a folder, rows nor .txt",
        "law/a.jsonl": None,
        "notes.md": "neither a folder, rows nor .txt",
        "web.jsonl": None,
    }
    rows = sides(listed(tmp_path, domain_column="set"))
    assert {name for name, reason in rows.items() if reason} == {"LICENSE", "book.epub", "notes.md"}


def test_a_tree_of_domains_with_sides_in_their_names(tmp_path: Path) -> None:
    for name in ("law_train", "law_test", "web_train", "web_val", "deep/train", "deep/val_matched"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "a.txt").write_text(name)
    found = listed(f"{tmp_path}/**")
    by_folder = {
        source.name.removesuffix("/a.txt"): (source.domain, side)
        for source, side in zip(found, sides(found).values(), strict=True)
    }
    assert by_folder == {
        "law_train": ("law", None),
        "law_test": ("law", "test split"),
        "web_train": ("web", "train"),
        "web_val": ("web", "validation"),
        "deep/train": ("deep", "train"),
        "deep/val_matched": ("deep", "validation"),
    }
