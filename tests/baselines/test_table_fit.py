"""Fits to tables of runs: the choice of the regression, priors, caps, and what is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from planted_tables import planted

from bydore_pyro.baselines.problem import Fit
from bydore_pyro.baselines.regmix import RegMixConfig
from bydore_pyro.baselines.table_fit import (
    Regressed,
    fit_runs,
    fit_table_of_runs,
    prior_of,
    regress_runs,
)
from bydore_pyro.baselines.tables import RunsTable
from bydore_pyro.mixture.published import pile_weights
from bydore_pyro.utils.errors import DataError

pytest.importorskip("botorch")

PRIOR = np.full(4, 0.25)


def table_of(runs: int, copies: float = 0.0) -> RunsTable:
    weights, losses = planted(runs, noise=0.05)
    if copies:
        weights[1] = weights[0]
        losses[1] = losses[0] + copies * losses.std()
    return RunsTable(
        runs=tuple(f"run {n}" for n in range(runs)),
        domains=("a", "b", "c", "d"),
        weights=weights,
        targets=("t",),
        losses=losses[:, None],
    )


def fitted(table: RunsTable, caps: np.ndarray | None = None) -> Fit:
    config = RegMixConfig(regmix_draws=600)
    return fit_runs(table, "t", PRIOR, config, regress_runs(table, "t", "auto"), caps=caps)


def test_auto_is_the_best_on_left_out_runs_and_the_process_for_few() -> None:
    table, steps = table_of(52), list[int]()
    found = regress_runs(table, "t", "auto", lambda: steps.append(1))
    assert isinstance(found, Regressed)
    assert found.kind == found.compared[0].kind == "gaussian_process"
    assert (len(found.compared), len(steps)) == (4, 20)
    assert found.model.width == found.compared[0].width  # type: ignore[union-attr]
    some = regress_runs(table_of(45), "t", "lightgbm")
    assert some.compared == (), "40 runs are needed, and 36 are left where a fifth is left out"
    few = regress_runs(table_of(10), "t", "auto")
    assert (few.kind, few.compared) == ("gaussian_process", ())
    with pytest.raises(DataError, match="Expected one of the targets t, found 'u'"):
        regress_runs(table, "u", "auto")


def test_the_optimum_keeps_caps() -> None:
    caps = np.array([0.4, 1.0, 0.25, 0.6])
    found = fitted(table_of(40), caps)
    assert (np.array(found.mixture.weights) <= caps + 1e-9).all()
    assert found.mixture.weights[0] == pytest.approx(0.4, abs=0.03), "the most useful is full"
    assert found.mixture.free_weights is not None
    assert found.mixture.free_weights[0] > 0.45


def test_few_runs_and_copies_in_conflict_are_refused() -> None:
    config = RegMixConfig(regmix_draws=500)
    with pytest.raises(DataError, match=r"as many runs as domains \(4\), found 3; --few_runs"):
        fit_table_of_runs(table_of(3), {"t": 1.0}, PRIOR, config)
    found = fit_table_of_runs(table_of(3), {"t": 1.0}, PRIOR, config, few_runs=True)
    assert "3 runs of 4 domains, fewer runs than domains" in found.mixture.notes[0]
    with pytest.raises(DataError, match="found runs 'run 0' and 'run 1' on the same weights"):
        fit_table_of_runs(table_of(12, copies=3.0), {"t": 1.0}, PRIOR, config)
    table_of(12, copies=0.2).check("t")  # noise


def test_priors_of_tables(tmp_path: Path) -> None:
    prior, source = prior_of(table_of(40))
    np.testing.assert_allclose(prior, table_of(40).weights.mean(0))
    assert source.startswith("the mean of the runs' mixtures")
    shares = pile_weights()["token_share"]
    pile = dataclasses.replace(table_of(2), domains=tuple(sorted(shares)))
    prior, source = prior_of(pile)
    assert source == "the Pile's token shares"
    total = sum(shares.values())
    np.testing.assert_allclose(prior, [shares[name] / total for name in pile.domains], atol=1e-6)
    (tmp_path / "prior.json").write_text('{"law": 1}')
    with pytest.raises(DataError, match="Expected the same domains in"):
        prior_of(pile, str(tmp_path / "prior.json"))
