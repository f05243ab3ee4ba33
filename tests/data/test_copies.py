"""Documents of a target among the training text: found as by comparing all, and left out."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from tiny import (
    assert_same_text,
    documents_in,
    documents_of,
    random_store,
    row,
    text_of,
    write_lines,
)

from bydore_pyro.data.copies import copies_in, without_documents
from bydore_pyro.data.store import Text, TokenStore, open_store
from bydore_pyro.data.variants import with_validation_file


def documents(text: Text) -> list[bytes]:
    """Without the token that ends each."""
    return [one[:-1].tobytes() for one in documents_of(text)]


def with_target(store: TokenStore, held_out: list[np.ndarray]) -> TokenStore:
    """A store with the domain `exam` of these held-out documents."""
    validation = {**store.validation, "exam": text_of(held_out)}
    return dataclasses.replace(store, validation=validation)


@pytest.mark.parametrize("block", [3, 7, 2**16])
def test_copies_are_those_that_comparing_all_finds(
    monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    """Equal but for the end; equal lengths; equal lengths and beginnings; empty ones."""
    monkeypatch.setattr("bydore_pyro.data.copies.BLOCK", block)
    rng = np.random.default_rng(1)
    store = random_store(documents=20)
    train = {}
    for name, text in store.train.items():
        ends = np.sort(rng.choice(np.arange(1, 6399), 199, replace=False))
        train[name] = Text(text.tokens, np.append(ends, 6400))
    store = dataclasses.replace(store, train=train)
    of_training = [documents_of(store.train[n]) for n in "ab"]
    held_out = []
    for number, one in enumerate(of_training[0][5:45] + of_training[1][-9:]):
        copy = one.copy()
        if number % 2:
            copy[-1] = 23  # another end of text
        elif number % 3 == 0 and len(copy) > 20:
            copy[18] ^= 1
        held_out.append(copy)
    store = with_target(store, held_out)
    exam = documents(store.validation["exam"])
    found = copies_in(store, "exam", store.names)
    assert {*"ab"} <= {*found}
    for name in store.names:
        there = {*documents(store.train[name])}
        brute = np.array([one in there for one in exam])
        np.testing.assert_array_equal(found.get(name, np.zeros(len(exam), bool)), brute)
    assert not found["a"].all()
    assert 30 < found["a"].sum() < 49
    assert copies_in(store, "exam", []) == {}


def test_rows_that_are_trained_on_are_left_out(store: Path, tmp_path: Path) -> None:
    """What is left is the store of a file without them; space around a row is nothing."""
    corpus = open_store(store)
    trained = documents_in(corpus)["train"]
    new = [row("abcde vwxyz", number)["text"] for number in range(4)]
    texts = [trained["a"][3], new[0], f"\n {trained['a'][7]}\n", new[1], trained["b"][0], *new[2:]]
    path = write_lines(tmp_path / "exam.jsonl", [{"text": text} for text in texts])
    whole = with_validation_file(corpus, path)
    found = copies_in(whole, "exam", corpus.names)
    assert {name: np.flatnonzero(own).tolist() for name, own in found.items()} == {
        "a": [0, 2],
        "b": [4],
    }
    left = without_documents(whole, "exam", np.any([*found.values()], 0))
    fresh = write_lines(tmp_path / "fresh" / "exam.jsonl", [{"text": text} for text in new])
    wanted = with_validation_file(corpus, fresh)
    ends = left.validation["exam"].ends
    assert_same_text(left.validation["exam"], wanted.validation["exam"])
    entry = left.index["domains"]["exam"]
    assert (entry["in_training_dropped"], entry["validation"]["tokens"]) == (3, ends[-1])
    assert left.sha256 not in (whole.sha256, corpus.sha256)
    assert copies_in(left, "exam", corpus.names) == {}
    assert not any(copies_in(corpus, name, corpus.names) for name in corpus.names), "by prepare"
