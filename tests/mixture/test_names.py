"""Names of other files are matched to those of the data, or refused."""

from __future__ import annotations

import pytest

from bydore_pyro.errors import DataError
from bydore_pyro.mixture.names import matched, names_of_paths, names_of_prefixes

KNOWN = ("web", "web/law", "code", "wiki_en", "python", "python_tests")


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("Code", "code"),
        ("wiki-en", "wiki_en"),
        ("org/code", "code"),
        ("law", "web/law"),
        ("data/web/law", "web/law"),
        ("/d/code_text_document", "code"),
        ("train_code", "code"),
        ("code.jsonl.gz", "code"),
        ("s3://bucket/code-v1.2/", "code"),
        ("wiki", "wiki_en"),
    ],
)
def test_a_name_stands_for_the_one_that_is_like_it(name: str, known: str) -> None:
    assert matched([name], KNOWN) == {name: known}


def test_equal_names_come_first_and_strangers_stay() -> None:
    assert matched(["python", "python_tests", "books", "coder"], KNOWN) == {}
    assert matched(["wiki"], KNOWN, beginnings=False) == {}
    # What is named by itself is not what another may stand for.
    assert matched(["code", "org/code"], KNOWN) == {}


def test_two_of_the_data_or_two_of_the_file_are_refused() -> None:
    with pytest.raises(DataError, match="found 'x/law', which matches 'a/law', 'b/law': write"):
        matched(["x/law"], ["a/law", "b/law"])
    with pytest.raises(DataError, match="'a/code' and 'b/code', which both match 'code': write"):
        matched(["a/code", "b/code"], KNOWN)


def test_paths_and_prefixes_are_cut_where_all_agree() -> None:
    assert names_of_paths(["/d/a", "/d/b"]) == (["a", "b"], "by their paths without '/d/'")
    assert names_of_prefixes(["train_a", "train_b"])[0] == ["a", "b"]
