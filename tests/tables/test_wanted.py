"""What is wanted of a table: metrics that differ, in one unit, and a prior."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from planted_tables import planted_table

from bydore_pyro.errors import DataError
from bydore_pyro.mixture.published import pile_weights
from bydore_pyro.tables.wanted import Wanted, prior_of


def test_a_metric_in_another_unit_is_noted() -> None:
    table = planted_table(8)
    both = dataclasses.replace(table, targets=("t", "u"), losses=table.losses * [1, 100])
    notes = [Wanted.of(both, s).notes() for s in ({"t": 0.5, "u": 0.5}, {"t": 0.6, "u": 0.4})]
    assert "'u' differs 100 times as much as 't'" in notes[0][0]
    assert notes[1] == []


def test_priors_of_tables(tmp_path: Path) -> None:
    prior, source = prior_of(planted_table(40))
    np.testing.assert_allclose(prior, planted_table(40).weights.mean(0))
    assert source.startswith("the mean of the runs' mixtures")
    shares = pile_weights()["token_share"]
    pile = dataclasses.replace(planted_table(2), domains=tuple(sorted(shares)))
    prior, source = prior_of(pile)
    assert source == "the Pile's token shares"
    total = sum(shares.values())
    np.testing.assert_allclose(prior, [shares[name] / total for name in pile.domains], atol=1e-6)
    three = dataclasses.replace(planted_table(2), domains=("law", "web", "code"))
    (tmp_path / "prior.csv").write_text("name,weight\nx/Web,0.5\ncode,0.25\nlaw.jsonl,0.25\n")
    prior, _ = prior_of(three, str(tmp_path / "prior.csv"))
    assert prior.tolist() == [0.25, 0.5, 0.25], "by names that are like the runs'"
    (tmp_path / "prior.json").write_text('{"law": 1}')
    with pytest.raises(DataError, match="Expected the same domains in"):
        prior_of(pile, str(tmp_path / "prior.json"))
