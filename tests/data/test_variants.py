"""Stores made of stores: joined, with a file of rows to validate on, cut."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from tiny import (
    ALPHABETS,
    assert_same_text,
    documents_in,
    documents_of,
    ends_in,
    folder_content,
    lines_told,
    random_store,
    text_of,
    write_domains,
    write_lines,
)

from bydore_pyro.cli.main import main
from bydore_pyro.data.domains import Domains
from bydore_pyro.data.rows import RowConfig
from bydore_pyro.data.scored import together
from bydore_pyro.data.store import TokenStore, open_store
from bydore_pyro.data.variants import (
    cut_store,
    joined_stores,
    name_of_validation_file,
    with_held_out,
    with_validation_file,
)
from bydore_pyro.errors import DataError

QUESTIONS = [f"Which of the birds {n} is abcd?" for n in range(200)]


def prepared(folder: Path, alphabets: dict[str, str], *given: str) -> Path:
    text = write_domains(folder / "text", alphabets, 20)
    out = folder / "store"
    main(["prepare", "--data", str(text), "--out", str(out), "--processes", "0", *given])
    return out


def test_a_domain_of_the_same_name_is_replaced(store: Path, tmp_path: Path) -> None:
    alphabets = {"0": ALPHABETS["upper"], "b": ALPHABETS["digits"]}
    more = prepared(tmp_path, alphabets, "--tokenizer", str(store / "tokenizer"))
    first, second = open_store(store), open_store(more)
    both = joined_stores(first, second)
    assert both.names == ("0", "a", "b", "c")
    for name, origin in (("0", second), ("a", first), ("b", second), ("c", first)):
        assert both.train[name] is origin.train[name]
        assert both.validation[name] is origin.validation[name]
        assert both.index["domains"][name] == origin.index["domains"][name]
    assert both.sha256 == joined_stores(first, second).sha256
    assert both.sha256 not in (first.sha256, second.sha256)
    place = more / "train" / "b.bin"
    place.write_bytes(place.read_bytes()[::-1])
    with pytest.raises(DataError, match=r"b\.bin"):
        both.require_unchanged()
    both.read("train", "a", slice(4))


def test_every_row_is_held_out_text_of_a_domain_that_is_not_trained_on(
    corpus: TokenStore, tmp_path: Path
) -> None:
    before = folder_content(corpus.folder)
    path = write_lines(tmp_path / "exam.v1.jsonl", [{"ask": text} for text in QUESTIONS])
    columns = RowConfig(text_column="ask", domain_column="kind")
    store = with_validation_file(corpus, path, columns)
    assert documents_in(store)["validation"]["exam"] == QUESTIONS, "short ones too, in order"
    assert store.validation["exam"].ends.tolist() == ends_in(store, "validation", "exam")
    assert len(store.train["exam"]) == 0
    assert store.names == tuple(sorted([*corpus.names, "exam"]))
    assert store.index["domains"]["exam"]["validation"]["documents"] == len(QUESTIONS)
    domains = Domains(store, {"exam": 1.0}, sequence_length=16, validation_sequences=32)
    assert domains.names == tuple(corpus.names)
    assert together(domains.targets.values())[0].shape == (32, 16)
    other = write_lines(tmp_path / "more" / "exam.jsonl", [{"ask": t} for t in QUESTIONS[1:]])
    hashes = [corpus.sha256, store.sha256, with_validation_file(corpus, other, columns).sha256]
    assert len({*hashes, with_validation_file(corpus, path, columns).sha256}) == 3
    assert folder_content(corpus.folder) == before


def test_copies_of_a_row_are_no_witnesses(corpus: TokenStore, tmp_path: Path) -> None:
    """Four hundred copies of a row say no more than the row."""
    once = [{"text": text} for text in QUESTIONS]
    path = write_lines(tmp_path / "exam.jsonl", [*once, *[{"text": f" {QUESTIONS[3]}\n"}] * 400])
    with pytest.warns(UserWarning, match=r"exam\.jsonl: 400 of 600 rows are copies of others"):
        store = with_validation_file(corpus, path)
    alone = with_validation_file(corpus, write_lines(tmp_path / "b" / "exam.jsonl", once))
    entry = store.index["domains"]["exam"]
    assert (entry["duplicates_dropped"], entry["skipped"]) == (400, 0)
    assert "exam" not in store.index["empty"]
    np.testing.assert_array_equal(store.validation["exam"], alone.validation["exam"])


def test_rows_of_a_target_that_are_left_out_are_told(corpus: TokenStore, tmp_path: Path) -> None:
    """With the reason; and columns with text that are not read."""
    rows = [{"text": text, "answer": "abcd"} for text in QUESTIONS]
    path = write_lines(tmp_path / "exam.jsonl", [*rows, {"text": " "}, {"text": ""}, {"answer": 3}])
    skip = RowConfig(on_error="skip")
    with (
        lines_told() as told,
        pytest.warns(UserWarning, match="exam.jsonl: 2 of 203 rows are empty and are left out"),
        pytest.warns(UserWarning, match="1 of 203 rows could not be read and are left out"),
    ):
        store = with_validation_file(corpus, path, skip)
    assert told == [f"{path}: text is read from the column 'text', not from answer"]
    assert store.index["domains"]["exam"]["skipped"] == 1
    assert store.index["empty"]["exam"] == 2
    assert documents_in(store)["validation"]["exam"] == QUESTIONS


def test_a_text_file_is_a_target_in_pieces(corpus: TokenStore, tmp_path: Path) -> None:
    path = tmp_path / "novel.v1.txt"
    path.write_text("\n".join(f"{n}. {text}" for n, text in enumerate(QUESTIONS)))
    store = with_validation_file(corpus, path)
    pieces = documents_in(store)["validation"]["novel"]
    assert "\n".join(pieces) == path.read_text()
    assert len(pieces) == len(store.validation["novel"].ends) > 2
    assert name_of_validation_file(str(path)) == "novel"
    with pytest.raises(DataError, match=r"Expected a file, found none: .*lost\.txt"):
        with_validation_file(corpus, tmp_path / "lost.txt")
    path.write_text(" \n")
    with pytest.raises(DataError, match="validation file, found none in"):
        with_validation_file(corpus, path)


def test_what_is_refused_as_a_validation_file(corpus: TokenStore, tmp_path: Path) -> None:
    assert name_of_validation_file("some/exam.v1.jsonl.gz") == "exam"
    assert name_of_validation_file("some/NOVEL.TXT") == "NOVEL"
    assert name_of_validation_file("birds") is None
    assert name_of_validation_file("day=1/hour=2.jsonl") == "hour-2"
    rows = [{"text": text} for text in QUESTIONS]
    for path, message in (
        (write_lines(tmp_path / "birds.jsonl", rows), "not named like a domain of .*birds"),
        (write_lines(tmp_path / "none.jsonl", [{"text": ""}]), "validation file, found none in"),
        (tmp_path / "lost.jsonl", "Expected a file, found none: "),
        (write_lines(tmp_path / "a.jsonl", [{"words": "x"}]), "a column 'text', found words"),
    ):
        with pytest.raises(DataError, match=message):
            with_validation_file(corpus, path)


@pytest.fixture
def numbered() -> TokenStore:
    """A store whose every token is the number of its document."""
    text = text_of(np.repeat(np.arange(20), 50).astype(np.uint16).reshape(20, 50))
    return dataclasses.replace(random_store("ab"), train=dict.fromkeys("ab", text))


def test_whole_documents_are_taken_in_a_seeded_order(numbered: TokenStore) -> None:
    cut = cut_store(numbered, {"a": 220}, seed=1)
    taken = cut.train["a"]
    assert len(taken) == 220
    assert taken.ends.tolist() == [50, 100, 150, 200, 220], "only the last is not whole"
    documents = [np.unique(part).tolist() for part in documents_of(taken)]
    assert len({d for (d,) in documents}) == 5, "each is of one document"
    assert documents != [[0], [1], [2], [3], [4]]
    assert cut.train["b"] is numbered.train["b"]
    assert cut.validation is numbered.validation
    assert_same_text(cut_store(numbered, {"a": 220}, seed=1).train["a"], taken)
    other = cut_store(numbered, {"a": 220}, seed=2).train["a"]
    assert not np.array_equal(np.asarray(other), np.asarray(taken))
    larger = cut_store(numbered, {"a": 700}, seed=1).train["a"]
    np.testing.assert_array_equal(larger[:220], taken)


def test_without_a_seed_the_beginning_is_taken(numbered: TokenStore) -> None:
    cut = cut_store(numbered, {"a": 120, "b": 10**6})
    np.testing.assert_array_equal(cut.train["a"], numbered.train["a"][:120])
    assert cut.train["a"].ends.tolist() == [50, 100, 120]
    assert cut.train["b"] is numbered.train["b"]
    cuts = [cut_store(numbered, {"a": n}, seed) for n in (100, 200) for seed in (None, 0, 1)]
    assert len({numbered.sha256, *(cut.sha256 for cut in cuts)}) == 7
    entry = {"train": {"tokens": 500, "in_all": {"tokens": 9000, "standard_error": 7}}}
    index = {**numbered.index, "domains": {"a": entry, "b": entry}}
    sampled = cut_store(dataclasses.replace(numbered, index=index), {"a": 120, "b": 10**6})
    assert [sampled.size(name) for name in "ab"] == [120, 9000], "what is left is all there is"
    with pytest.raises(DataError, match=r"a domain of the data \(a, b\), found 'z'"):
        cut_store(numbered, {"z": 1})


def test_a_text_that_is_held_out_alone_is_never_judged(corpus: TokenStore) -> None:
    text, entry = corpus.validation["birds"], corpus.index["domains"]["birds"]
    found = with_held_out(corpus, "exam", text, entry, empty=2)
    assert_same_text(found.validation["exam"], text)
    assert len(found.train["exam"]) == len(found.judged["exam"]) == 0
    assert found.index["empty"]["exam"] == 2
    assert found.sha256 != corpus.sha256
    with pytest.raises(DataError, match=r"not named like a domain .* found 'birds': name= gives"):
        with_held_out(corpus, "birds", text, entry)
