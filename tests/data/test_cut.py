"""A store cut by document: of the right size, seeded, and told apart from the whole one."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tiny import random_store

from bydore_pyro.data.cut import cut_store
from bydore_pyro.data.store import TokenStore
from bydore_pyro.utils.errors import DataError


def numbered(documents: int = 20, length: int = 50) -> TokenStore:
    """A store whose every token is the number of its document."""
    tokens = np.repeat(np.arange(documents), length).astype(np.uint16)
    store = random_store("ab", tokens=documents * length, documents=documents)
    return dataclasses.replace(store, train=dict.fromkeys("ab", tokens))


def test_whole_documents_are_taken_in_a_seeded_order() -> None:
    store = numbered()
    cut = cut_store(store, {"a": 220}, seed=1)
    taken, ends = cut.train["a"], cut.train_documents["a"]
    assert len(taken) == 220
    assert ends.tolist() == [50, 100, 150, 200, 220], "only the last is not whole"
    documents = [np.unique(part).tolist() for part in np.split(taken, ends[:-1])]
    assert len({d for (d,) in documents}) == 5, "each is of one document"
    assert documents != [[0], [1], [2], [3], [4]]
    np.testing.assert_array_equal(cut.train["b"], store.train["b"])
    assert cut.validation is store.validation
    np.testing.assert_array_equal(cut_store(store, {"a": 220}, seed=1).train["a"], taken)
    assert (cut_store(store, {"a": 220}, seed=2).train["a"] != taken).any()
    larger = cut_store(store, {"a": 700}, seed=1).train["a"]
    np.testing.assert_array_equal(larger[:220], taken)


def test_without_a_seed_the_beginning_is_taken() -> None:
    store = numbered()
    cut = cut_store(store, {"a": 120, "b": 10**6})
    np.testing.assert_array_equal(cut.train["a"], store.train["a"][:120])
    assert cut.train_documents["a"].tolist() == [50, 100, 120]
    np.testing.assert_array_equal(cut.train["b"], store.train["b"])


def test_every_cut_has_a_hash_of_its_own_and_an_unknown_domain_is_refused() -> None:
    store = numbered()
    cuts = [cut_store(store, {"a": n}, seed) for n in (100, 200) for seed in (None, 0, 1)]
    assert len({store.sha256, *(cut.sha256 for cut in cuts)}) == 7
    with pytest.raises(DataError, match=r"a domain of the data \(a, b\), found 'z'"):
        cut_store(store, {"z": 1})
