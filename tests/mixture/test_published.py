"""The Pile's published weights: complete, and as printed."""

from __future__ import annotations

import pytest

from bydore_pyro.mixture.published import PILE_COLUMN, PILE_DOMAINS, PILE_WITHDRAWN, pile_weights


def test_there_are_seventeen_domains_and_five() -> None:
    assert len({*PILE_DOMAINS, *PILE_WITHDRAWN}) == 22
    assert PILE_COLUMN == "meta.pile_set_name"


def test_weights_are_those_of_the_seventeen_domains_and_not_normalised() -> None:
    weights = pile_weights()
    sums = {"human": 0.7868, "doremi": 0.8148, "regmix": 1.0, "token_share": 1.0}
    assert list(weights) == list(sums)
    for column, total in sums.items():
        assert {*weights[column]} == {*PILE_DOMAINS.values()}
        assert sum(weights[column].values()) == pytest.approx(total, abs=1e-9)
        assert all(weight > 0 for weight in weights[column].values())
