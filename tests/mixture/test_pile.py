"""The Pile's names."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from bydore_pyro.mixture.pile import PILE_COLUMN, PILE_DOMAINS, PILE_WITHDRAWN

SHARED = Path(__file__).parents[3] / "shared"


def test_there_are_seventeen_and_five() -> None:
    assert len(set(PILE_DOMAINS.values())) == 17
    assert len({*PILE_DOMAINS, *PILE_WITHDRAWN}) == 22
    assert PILE_COLUMN == "meta.pile_set_name"


def test_the_piles_names_are_those_of_its_tables() -> None:
    if not SHARED.is_dir():
        pytest.skip("the tables of published weights are not here")
    with (SHARED / "tables" / "pile_weights.csv").open() as file:
        assert {r["domain"] for r in csv.DictReader(file)} == {*PILE_DOMAINS.values()}
