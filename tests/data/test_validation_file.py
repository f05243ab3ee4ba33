"""A file of rows as a validation set beside a store: what it adds, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny import documents_in, ends_in, write_lines

from bydore_pyro.data.domains import Domains
from bydore_pyro.data.rows import RowConfig
from bydore_pyro.data.store import TokenStore
from bydore_pyro.data.validation_file import name_of_validation_file, with_validation_file
from bydore_pyro.utils.errors import DataError

QUESTIONS = [f"Which of the birds {n} is abcd?" for n in range(200)]


def test_every_row_is_held_out_text_of_a_domain_that_is_not_trained_on(
    corpus: TokenStore, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "exam.v1.jsonl", [{"ask": text} for text in QUESTIONS])
    columns = RowConfig(text_column="ask", domain_column="kind")
    store = with_validation_file(corpus, path, columns)
    assert documents_in(store)["validation"]["exam"] == QUESTIONS, "short ones too, in order"
    assert store.validation_documents["exam"].tolist() == ends_in(store, "validation", "exam")
    assert len(store.train["exam"]) == 0
    assert store.names == tuple(sorted([*corpus.names, "exam"]))
    assert store.index["domains"]["exam"]["validation"]["documents"] == len(QUESTIONS)
    assert store.manifest()["sha256"] == store.sha256
    for name in corpus.names:
        np.testing.assert_array_equal(store.train[name], corpus.train[name])
    domains = Domains(store, {"exam": 1.0}, sequence_length=16, validation_sequences=32)
    assert domains.names == tuple(corpus.names)
    assert domains.validation.shape == (32, 16)
    again = with_validation_file(corpus, path, columns)
    other = write_lines(tmp_path / "more" / "exam.jsonl", [{"ask": t} for t in QUESTIONS[1:]])
    assert again.sha256 == store.sha256
    assert (
        len({corpus.sha256, store.sha256, with_validation_file(corpus, other, columns).sha256}) == 3
    )


def test_copies_of_a_row_are_no_witnesses(corpus: TokenStore, tmp_path: Path) -> None:
    """Four hundred copies of a row say no more than the row."""
    once = [{"text": text} for text in QUESTIONS]
    path = write_lines(tmp_path / "exam.jsonl", [*once, *[{"text": f" {QUESTIONS[3]}\n"}] * 400])
    with pytest.warns(UserWarning, match=r"exam\.jsonl: 400 of 600 rows are copies of others"):
        store = with_validation_file(corpus, path)
    alone = with_validation_file(corpus, write_lines(tmp_path / "b" / "exam.jsonl", once))
    entry = store.index["domains"]["exam"]
    assert (entry["duplicates_dropped"], entry["skipped"]) == (400, 0)
    np.testing.assert_array_equal(store.validation["exam"], alone.validation["exam"])


def test_what_is_refused(corpus: TokenStore, tmp_path: Path) -> None:
    assert name_of_validation_file("some/exam.v1.jsonl.gz") == "exam"
    assert name_of_validation_file("birds") is None
    rows = [{"text": text} for text in QUESTIONS]
    with pytest.raises(DataError, match=r"not named like a domain of the data .*birds"):
        with_validation_file(corpus, write_lines(tmp_path / "birds.jsonl", rows))
    with pytest.raises(DataError, match="Expected text in the validation file, found none in"):
        with_validation_file(corpus, write_lines(tmp_path / "none.jsonl", [{"text": ""}]))
    with pytest.raises(DataError, match="Expected a file, found none: "):
        with_validation_file(corpus, tmp_path / "lost.jsonl")
    path, words = write_lines(tmp_path / "a.jsonl", rows), RowConfig(text_column="words")
    with pytest.raises(DataError, match="Expected a column 'words', found text"):
        with_validation_file(corpus, path, words)
