"""Judged text is a third of the held-out documents, and stays it in every store made of a store."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from tiny import documents_of, row, write_lines

from bydore_pyro.data.domains import held_out_stream
from bydore_pyro.data.held_out import held_out_counts
from bydore_pyro.data.pools import pooled, with_branches
from bydore_pyro.data.store import SIDES, TokenStore, nothing_counted
from bydore_pyro.data.tokens import parted
from bydore_pyro.data.variants import cut_store, joined_stores, with_validation_file
from bydore_pyro.utils.errors import DataError

NAMES = ("a/x", "a/y", "b")


def numbered(names: tuple[str, ...] = NAMES, documents: int = 40) -> TokenStore:
    """A store, not yet parted, in which every token occurs once: a token tells where it stood."""
    rng, first = np.random.default_rng(len(names)), 0
    arrays: dict[str, dict[str, np.ndarray]] = {side: {} for side in SIDES[:2]}
    ends: dict[str, dict[str, np.ndarray]] = {side: {} for side in SIDES[:2]}
    for name in names:
        for side in arrays:
            ends[side][name] = np.cumsum(rng.integers(0, 30, documents))
            last = first + int(ends[side][name][-1])
            arrays[side][name], first = np.arange(first, last, dtype=np.uint32), last
    index = {"vocabulary": first, "sha256": "numbered", "tokenizer_sha256": "none", "dtype": "<u4"}
    entry = nothing_counted()
    for side in arrays:
        entry[side] |= {"sha256": side, "ends_sha256": side}
    index["domains"] = dict.fromkeys(names, entry)
    return TokenStore(Path(), *arrays.values(), index, *ends.values())


def tokens_on(store: TokenStore, side: str) -> set[int]:
    return {token for tokens in getattr(store, side).values() for token in np.asarray(tokens)}


def test_judged_text_is_every_third_document_by_brute_force() -> None:
    whole = numbered()
    store = whole.with_judged()
    for name in NAMES:
        every = documents_of(whole.validation[name], whole.validation_documents[name])
        for side, chosen in (
            ("judged", every[2::3]),
            ("validation", [d for i, d in enumerate(every) if i % 3 != 2]),
        ):
            tokens, ends = getattr(store, side)[name], getattr(store, f"{side}_documents")[name]
            expected = np.concatenate(chosen)
            assert ends.tolist() == np.cumsum([len(d) for d in chosen]).tolist()
            np.testing.assert_array_equal(np.asarray(tokens), expected)
            places = np.array([[0, len(tokens) - 1], [7, 3]])
            np.testing.assert_array_equal(tokens[places], expected[places])
            np.testing.assert_array_equal(tokens[5:50][places[1]], expected[5:50][places[1]])
    assert store.train is whole.train
    again = store.with_judged()
    for side in SIDES[1:]:
        assert getattr(again, side) == getattr(store, side), "nothing is parted twice"


@pytest.mark.parametrize("documents", [1, 2, 3])
def test_judged_text_needs_three_documents(documents: int) -> None:
    whole = numbered(documents=documents)
    store = whole.with_judged()
    rest, judged = parted(whole.validation["b"], whole.validation_documents["b"])
    assert [len(rest[1]), len(judged[1])] == [min(documents, 2), documents // 3]
    np.testing.assert_array_equal(np.asarray(store.judged["b"]), np.asarray(judged[0]))
    if documents < 3:
        assert store.validation["b"] is whole.validation["b"]
        with pytest.raises(DataError, match=r"judged text .* of at least 1 tokens in 'b', found 0"):
            held_out_stream(store, "b", 1, 0, "judged")
    with pytest.raises(DataError, match=r"judged text .* in 'b', found 0"):
        held_out_stream(whole, "b", 1, 0, "judged")


def test_judged_text_is_of_another_side_in_no_store_made_of_a_store() -> None:
    """Of a pool, of all below a branch, of joined and of cut ones: no token is on two sides."""
    store = numbered().with_judged()
    other = numbered(("b", "c")).with_judged()
    more = dataclasses.replace(other, index={**other.index, "domains": {**other.index["domains"]}})
    made = {
        "pool": pooled(store, None, 400).store,
        "branch": with_branches(store, ["a"]),
        "cut": cut_store(store, {"b": 50}, 3),
        "joined": joined_stores(store, more),
    }
    assert "a/*" in made["pool"].names
    for name, one in made.items():
        assert {*one.judged} == {*one.validation}, name
    for name in ("pool", "branch", "cut"):
        judged = tokens_on(made[name], "judged")
        assert judged == tokens_on(store, "judged")
        assert not judged & (tokens_on(made[name], "validation") | tokens_on(made[name], "train"))
    joined = made["joined"]
    assert joined.judged["b"] is more.judged["b"]
    assert joined.judged["a/x"] is store.judged["a/x"]


def test_judged_text_of_a_file_is_set_apart_where_it_is_asked_for(
    corpus: TokenStore, tmp_path: Path
) -> None:
    path = write_lines(tmp_path / "exam.jsonl", [row("exam", i) for i in range(9)])
    given = with_validation_file(corpus, path)
    assert len(given.judged["exam"]) == 0
    assert len(given.validation_documents["exam"]) == 9
    for target, advice in (("exam", "rows of more text in exam"), ("birds", "--validation_frac")):
        with pytest.raises(DataError, match=advice):
            held_out_counts(given, {target: 1.0}, 16, 64, fewest=10**6)
    own = given.with_judged(["exam"])
    assert [len(getattr(own, f"{s}_documents")["exam"]) for s in SIDES] == [0, 6, 3]
    assert own.judged["birds"] is corpus.judged["birds"]
    assert own.sha256 != given.sha256
    assert own.with_judged(["exam"]).sha256 == own.sha256
