"""A table of finished runs: what it takes, its prior, and given mixtures."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from planted_tables import planted, truth

pytest.importorskip("botorch")

from bydore_pyro.mixture.published import pile_weights
from bydore_pyro.tables.gaussian_process import fit_law_processes, worth_of
from bydore_pyro.tables.table_fit import RegressionConfig, fit_table_of_runs, prior_of
from bydore_pyro.tables.tables import RunsTable
from bydore_pyro.utils.errors import DataError

PRIOR = np.full(4, 0.25)


def table_of(runs: int) -> RunsTable:
    weights, losses = planted(runs, noise=0.05)
    return RunsTable(
        runs=tuple(f"run {n}" for n in range(runs)),
        domains=("a", "b", "c", "d"),
        weights=weights,
        targets=("t",),
        losses=losses[:, None],
    )


def test_fewer_runs_than_domains_and_a_missing_file_are_refused() -> None:
    config = RegressionConfig(regmix_draws=500)
    linear = RegressionConfig(regmix_draws=500, regmix_regression="linear")
    with pytest.raises(DataError, match=r"as many runs as domains \(4\), found 3"):
        fit_table_of_runs(table_of(3), {"t": 1.0}, PRIOR, linear, method="regmix")
    with pytest.raises(DataError, match="found one run"):
        fit_table_of_runs(table_of(1), {"t": 1.0}, PRIOR, config)
    with pytest.raises(DataError, match=r"nowhere\.csv"):
        fit_table_of_runs(table_of(9), {"t": 1.0}, PRIOR, config, predict=Path("nowhere.csv"))


def test_a_metric_in_another_unit_is_noted() -> None:
    table, config = table_of(8), RegressionConfig(regmix_draws=500, regmix_regression="linear")
    both = dataclasses.replace(table, targets=("t", "u"), losses=table.losses * [1, 100])
    notes = [
        fit_table_of_runs(both, shares, PRIOR, config, method="regmix")[0].notes
        for shares in ({"t": 0.5, "u": 0.5}, {"t": 0.6, "u": 0.4})
    ]
    assert ["'u' differs 100 times as much as 't'" in " ".join(one) for one in notes] == [
        True,
        False,
    ]


def test_what_smaller_runs_say_of_domains_ranks_better_than_four_runs_alone() -> None:
    small = table_of(60)
    worth = worth_of(small.weights, small.losses, [-1])
    assert worth[0].argmax() == 0
    unseen, _ = planted(200, seed=5)
    ranks = []
    for seed in range(10, 14):
        weights, losses = planted(4, noise=0.05, seed=seed)
        laws = [fit_law_processes(weights, losses[:, None] + 1, [-1], w)[0] for w in (None, worth)]
        ranks.append([np.corrcoef(one.predict(unseen), truth(unseen))[0, 1] for one in laws])
    alone, scaled_up = np.mean(ranks, 0)
    assert scaled_up > alone + 0.05


def test_runs_of_a_smaller_model_are_of_the_same_domains_and_metrics() -> None:
    small, few = table_of(60), table_of(4)
    other = dataclasses.replace(small, domains=("d", "c", "b", "a"), weights=small.weights[:, ::-1])
    config = RegressionConfig(regmix_draws=500)
    found = [
        fit_table_of_runs(few, {"t": 1.0}, PRIOR, config, smaller=one)[0].weights
        for one in (small, other)
    ]
    assert found[0] == pytest.approx(found[1], abs=1e-6)
    bad = {
        "found 'd' in one table only": dataclasses.replace(small, domains=("a", "b", "c", "e")),
        "in --scale_up, found none": dataclasses.replace(small, targets=("u",)),
        "at least 6 runs in --scale_up, found 5": table_of(5),
        "runs in --scale_up that differ in loss": dataclasses.replace(
            small, losses=np.ones_like(small.losses)
        ),
        "runs in --scale_up on different mixtures": dataclasses.replace(
            small, weights=np.full_like(small.weights, 0.25)
        ),
    }
    for message, one in bad.items():
        with pytest.raises(DataError, match=message):
            fit_table_of_runs(few, {"t": 1.0}, PRIOR, config, smaller=one)
    with pytest.raises(
        DataError, match="a smaller model's runs in --scale_up, found the losses of"
    ):
        fit_table_of_runs(small, {"t": 1.0}, PRIOR, config, smaller=small)
    linear = RegressionConfig(regmix_draws=500, regmix_regression="linear")
    with pytest.raises(DataError, match="Expected the law of losses with --scale_up, found linear"):
        fit_table_of_runs(table_of(9), {"t": 1.0}, PRIOR, linear, method="regmix", smaller=small)


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
