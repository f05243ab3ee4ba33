"""Weights of any file, by the names and the counts of a store."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import random_store

from bydore_pyro.data.pools import with_branches
from bydore_pyro.data.store import TokenStore, nothing_counted
from bydore_pyro.data.supply import supply_of
from bydore_pyro.data.weights import read_mixture
from bydore_pyro.errors import DataError


def test_names_and_counts_are_the_stores(
    corpus: TokenStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "streams.yaml"
    path.write_text("streams: {o/Birds: {repeat: 2}, digits: {repeat: 1}}")
    read = supply_of(corpus.index, corpus.names)
    share = 2 * read["birds"].tokens / (2 * read["birds"].tokens + read["digits"].tokens)
    assert read_mixture(path, corpus).as_dict() == pytest.approx(
        {"birds": share, "digits": 1 - share}
    )
    assert "'birds' for 'o/Birds'" in capsys.readouterr().err
    read_mixture(path, corpus, ["birds", "digits"])
    assert "without weight" not in capsys.readouterr().err, "all that were asked about have some"


def test_what_matches_two_domains_is_refused(corpus: TokenStore, tmp_path: Path) -> None:
    path = tmp_path / "weights.yaml"
    path.write_text("Birds: 0.5\nx/birds: 0.5")
    with pytest.raises(DataError, match="'Birds' and 'x/birds', which both match 'birds'"):
        read_mixture(path, corpus)


def test_the_domains_of_a_pool_stand_for_it(tmp_path: Path) -> None:
    store = random_store(["a/x", "a/y", "b"])
    store.index["domains"] = {name: nothing_counted() for name in store.names}
    store = with_branches(store, ["a"])
    path = tmp_path / "weights.yaml"
    path.write_text("X: 0.5\nb: 0.5")
    assert read_mixture(path, store, ["a", "b"]).as_dict() == {"a/x": 0.5, "b": 0.5}
