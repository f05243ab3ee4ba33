"""Judged text is a third of the held-out documents, and stays it in every store made of a store."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pytest
from tiny import assert_same_text, documents_of, row, text_of, write_lines

from bydore_pyro.data.domains import Domains
from bydore_pyro.data.held_out import HeldOut, held_out_counts, held_out_stream
from bydore_pyro.data.pools import pooled, with_branches
from bydore_pyro.data.store import SIDES, Text, TokenStore, nothing_counted, open_store
from bydore_pyro.data.variants import cut_store, joined_stores, with_validation_file
from bydore_pyro.errors import DataError

NAMES = ("a/x", "a/y", "b")


def numbered(names: tuple[str, ...] = NAMES, documents: int = 40) -> TokenStore:
    """A store, not yet parted, in which every token occurs once: a token tells where it stood."""
    rng, first = np.random.default_rng(len(names)), 0
    texts: dict[str, dict[str, Text]] = {side: {} for side in SIDES[:2]}
    for name in names:
        for side in texts:
            ends = np.cumsum(rng.integers(0, 30, documents))
            last = first + int(ends[-1])
            texts[side][name] = Text(np.arange(first, last, dtype=np.uint32), ends)
            first = last
    index = {"vocabulary": first, "sha256": "numbered", "tokenizer_sha256": "none", "dtype": "<u4"}
    entry = nothing_counted()
    for side in texts:
        entry[side] |= {"sha256": side, "ends_sha256": side}
    index["domains"] = dict.fromkeys(names, entry)
    return TokenStore(Path(), *texts.values(), index)


def tokens_on(store: TokenStore, side: str) -> set[int]:
    return {token for tokens in getattr(store, side).values() for token in np.asarray(tokens)}


def test_judged_text_is_every_third_document_by_brute_force() -> None:
    whole = numbered()
    store = whole.with_judged()
    for name in NAMES:
        every = documents_of(whole.validation[name])
        for side, chosen in (
            ("judged", every[2::3]),
            ("validation", [d for i, d in enumerate(every) if i % 3 != 2]),
        ):
            tokens, expected = getattr(store, side)[name], np.concatenate(chosen)
            assert_same_text(tokens, text_of(chosen))
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
    ends = [getattr(store, side)["b"].ends for side in SIDES[1:]]
    assert [*map(len, ends)] == [min(documents, 2), documents // 3]
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
    assert len(given.validation["exam"].ends) == 9
    own = given.with_judged(["exam"])
    assert [len(getattr(own, side)["exam"].ends) for side in SIDES] == [0, 6, 3]
    assert own.judged["birds"] is corpus.judged["birds"]
    assert own.sha256 != given.sha256
    assert own.with_judged(["exam"]).sha256 == own.sha256


def test_judged_text_is_read_from_files_that_do_not_change(store: Path, tmp_path: Path) -> None:
    found = open_store(Path(shutil.copytree(store, tmp_path / "store")))
    stream = held_out_stream(found, "a", 16, 0, "judged")
    assert stream.read(0, 3).shape == (3, 16)
    (found.folder / "validation" / "a.bin").write_bytes(b"")
    with pytest.raises(DataError, match=r"a\.bin not to change while it is read"):
        stream.read(0, 3)


def test_judged_text_is_the_same_for_every_seed(corpus: TokenStore) -> None:
    """And that of a target is not."""
    sides: tuple[HeldOut, ...] = ("judged", "validation")
    for side in sides:
        one, other = (held_out_stream(corpus, "birds", 16, seed, side) for seed in (0, 5))
        rows = [stream.read(0, stream.count) for stream in (one, other)]
        assert np.array_equal(*rows) == (side == "judged")


def test_a_target_holds_its_shares_also_when_they_are_normalised_twice() -> None:
    store = numbered().with_judged()
    held_out = {name: len(store.validation[name]) // 2 for name in NAMES}
    for shares in ((0.1, 0.2, 0.7), (1.0, 1.0, 1.0), (1 / 3, 1 / 3, 1 / 7)):
        target = dict(zip(NAMES, shares, strict=True))
        counts = held_out_counts(store, target, 2, 90)
        assert sum(counts.values()) <= 90
        for name, count in counts.items():
            assert count <= held_out[name]
            assert abs(count - target[name] / sum(shares) * 90) < 1
        for scale in (sum(shares), 3.7):
            again = {name: share / scale for name, share in target.items()}
            assert held_out_counts(store, again, 2, 90) == counts
            found = Domains(store, again, sequence_length=2, validation_sequences=90)
            assert {name: len(one) for name, one in found.targets.items()} == counts
    with pytest.raises(DataError, match=r"at least 91 validation sequences of 2 tokens, found 90"):
        held_out_counts(store, {"b": 1.0}, 2, 90, 91)
    with pytest.raises(DataError, match=r"a validation share of at least one in \d+ for 'a/x'"):
        held_out_counts(store, {"b": 1.0, "a/x": 1e-3}, 2, 90)
