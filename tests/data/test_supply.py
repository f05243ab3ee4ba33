"""How much there is of each domain, counted by hand and in a store."""

from __future__ import annotations

import numpy as np
import pytest

from bydore_pyro.data.store import TokenStore
from bydore_pyro.data.supply import (
    stated_tokens,
    supply_of,
    supply_of_rows,
    supply_of_text,
    with_domain_tokens,
)
from bydore_pyro.errors import DataError
from bydore_pyro.mixture.units import Supply


def test_a_stores_files_and_text_are_counted(corpus: TokenStore) -> None:
    rows, text = (of(corpus.index, corpus.names) for of in (supply_of_rows, supply_of_text))
    end = max(int(tokens[-1]) for tokens in corpus.train.values())
    for name, tokens in corpus.train.items():
        count = (np.asarray(tokens) == end).sum()
        assert rows[name].length == pytest.approx(len(tokens) / count, rel=0.02)
        assert (rows[name].documents, rows[name].kind) == (60, "files")
        assert text[name].tokens == corpus.size(name) < rows[name].tokens, "some are held out"
        assert text[name].length == pytest.approx(rows[name].length)
    assert supply_of(corpus.index, corpus.names) == rows


def test_a_sample_stands_for_all_text() -> None:
    train = {"tokens": 300, "bytes": 900, "in_all": {"tokens": 6000, "standard_error": 9}}
    index = {"domains": {"a": {"train": train}, "b": {"train": {"tokens": 0, "bytes": 0}}}}
    assert supply_of_text(index, ["a", "b", "c"]) == {"a": Supply(6000)}, "nothing is counted"
    assert supply_of(index, ["a"]) == {"a": Supply(6000)}


def test_what_is_stated_of_the_corpus_counts_before_what_is_there(
    corpus: TokenStore, capsys: pytest.CaptureFixture[str]
) -> None:
    some = ["birds", "digits"]
    store = with_domain_tokens(corpus, ["x/Birds=3B", "digits=1B", "books=9B"], some)
    assert "'birds' for 'x/Birds'" in (said := capsys.readouterr().err)
    assert "not among the domains: books\n" in said
    assert store.natural(some) == {"birds": 0.75, "digits": 0.25}
    assert (store.size("greek"), store.sha256) == (corpus.size("greek"), corpus.sha256)
    before = supply_of_rows(corpus.index, some)["birds"]
    for counted in (supply_of, supply_of_rows, supply_of_text):
        birds = counted(store.index, some)["birds"]
        assert birds.tokens == 3e9
        assert birds.length == pytest.approx(before.length), "documents are as long as before"
    assert with_domain_tokens(corpus, [], some) is corpus
    with pytest.raises(DataError, match=r"--domain_tokens of every domain, found none of digits$"):
        with_domain_tokens(corpus, ["birds=3B"], some)
    assert stated_tokens(["a=2", "b=3", "c=4"], ["a"], ["b"]) == {"a": 2, "b": 3}


def test_what_was_not_counted_is_refused() -> None:
    train = {"tokens": 300, "bytes": 900, "documents": 3}
    unit = {"of": "rows", "count": 5, "bytes": 900}

    def rows(train: object, units: object) -> Supply:
        index = {"domains": {"b": {"train": train}}, "units": units}
        return supply_of_rows(index, ["b"])["b"]

    assert rows(train, {"b": unit}) == Supply(300.0, 5, "rows")
    # Half of the text was dropped: copies and short rows, which a trainer still draws.
    assert rows({"tokens": 150, "bytes": 450}, {"b": unit}) == Supply(300.0, 5, "rows")
    with pytest.raises(DataError, match="Expected training text of 'b', found none"):
        rows({"tokens": 0, "bytes": 0}, {"b": unit})
    broken = (
        {**unit, "count": 0},
        {**unit, "bytes": "9"},
        {**unit, "of": None},
        {"of": "rows"},
        None,
    )
    for units in ({}, None, [], {"a": unit}, *({"b": one} for one in broken)):
        with pytest.raises(DataError, match="the number of rows or files that 'b' has, found none"):
            rows(train, units)
    for index in ({"domains": {}}, {"domains": {"b": {"train": train}}}):
        with pytest.raises(DataError, match="the number of rows or files that 'b' has, found none"):
            supply_of_rows(index, ["b"])
