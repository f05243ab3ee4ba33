"""RegMix: its draws, its regressions and its optimum, on closed forms and planted answers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_tables import planted
from tiny import steps_spent

from bydore_pyro.baselines.problem import Fit, Problem
from bydore_pyro.baselines.regmix import (
    RegMixConfig,
    Regressed,
    check_runs,
    fit_regmix,
    fit_runs,
    prior_of,
    regress_runs,
)
from bydore_pyro.baselines.regression import fit_regression
from bydore_pyro.baselines.runs_table import RunsTable
from bydore_pyro.baselines.simulated_optimum import (
    simulated_optimum,
)
from bydore_pyro.mixture.published import pile_weights
from bydore_pyro.utils.errors import DataError
from bydore_pyro.utils.tensor_tree import read_tree

PRIOR = np.array([0.5, 0.3, 0.15, 0.05])


# ---- trained, or from tables


@pytest.mark.parametrize("regression", ["linear", "gaussian_process"])
def test_the_targets_own_domain_wins(problem: Problem, regression: Any) -> None:
    config = RegMixConfig(regmix_proxies=16, regmix_draws=1000, regmix_regression=regression)
    found = fit_regmix(problem, config)
    assert max(found.mixture.as_dict().items(), key=lambda item: item[1])[0] == "birds"
    assert (found.mixture.hdi is not None) == (regression == "gaussian_process")
    spent = steps_spent(problem)
    assert 0.9 * 800 < spent <= 800


def test_adaptive_proxies_keep_caps_and_the_budget(problem: Problem) -> None:
    capped = dataclasses.replace(problem, most=dict.fromkeys(problem.names, 0.6))
    config = RegMixConfig(regmix_proxies=4, regmix_draws=200, adaptive=5)
    found = fit_regmix(capped, config)
    told = found.details["adaptive"]
    assert found.details["proxies"] == 4 + told["runs"] == 9, told
    runs = [dict(read_tree(path)[0]["run"]["weights"]) for path in problem.runs.iterdir()]
    assert sum(max(weights.values()) <= 0.6 + 1e-9 for weights in runs) >= 5
    spent = steps_spent(capped)
    assert 0.9 * 800 < spent <= 800


def fitted(
    table: RunsTable, prior: np.ndarray, draws: int = 600, caps: np.ndarray | None = None
) -> Fit:
    config = RegMixConfig(regmix_draws=draws)
    return fit_runs(table, "t", prior, config, regress_runs(table, "t", "auto"), caps=caps)


def test_tables_lead_to_the_same_optimum_as_their_parts() -> None:
    weights, losses = planted(40, noise=0.05)
    names = ("a", "b", "c", "d")
    table = RunsTable(
        runs=tuple(map(str, range(40))),
        domains=names,
        weights=weights,
        targets=("t",),
        losses=losses[:, None],
    )
    prior, source = prior_of(table)
    np.testing.assert_allclose(prior, weights.mean(0) / weights.mean(0).sum())
    assert source.startswith("the mean of the runs' mixtures")
    found = fitted(table, prior)
    model = fit_regression("gaussian_process", weights, losses)
    expected = simulated_optimum(model, prior, draws=600)
    np.testing.assert_allclose(found.mixture.weights, expected.single, atol=1e-12)
    assert found.details["simulated_optimum"] == dict(zip(names, expected.weights, strict=True))
    for weight, (low, high) in zip(found.mixture.weights, found.mixture.hdi or (), strict=True):
        assert low <= weight <= high
    with pytest.raises(DataError, match="Expected one of the targets t, found 'u'"):
        regress_runs(table, "u", "auto")


def few_table(runs: int, copies: float = 0.0) -> RunsTable:
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


def test_fewer_runs_than_domains_are_refused_unless_asked_for() -> None:
    table, prior = few_table(3), np.full(4, 0.25)
    with pytest.raises(DataError, match=r"as many runs as domains \(4\), found 3; --few_runs"):
        check_runs(table, "t", fewer_than_domains=False)
    check_runs(table, "t", fewer_than_domains=True)
    notes = fitted(table, prior, 500).mixture.notes
    assert "3 runs of 4 domains, fewer runs than domains" in notes[0]
    assert not any("fewer runs" in note for note in fitted(few_table(4), prior, 500).mixture.notes)


def test_copies_of_a_run_with_conflicting_losses_are_refused_by_name() -> None:
    with pytest.raises(DataError, match="found runs 'run 0' and 'run 1' on the same weights"):
        check_runs(few_table(12, copies=3.0), "t", fewer_than_domains=False)
    few_table(12, copies=0.2).check_copies("t")  # noise


def test_the_optimum_keeps_caps() -> None:
    table, prior = few_table(40), np.full(4, 0.25)
    caps = np.array([0.4, 1.0, 0.25, 0.6])
    found = fitted(table, prior, caps=caps)
    assert (np.array(found.mixture.weights) <= caps + 1e-9).all()
    assert found.mixture.weights[0] == pytest.approx(0.4, abs=0.02), "the most useful is full"
    assert found.mixture.free_weights is not None
    assert found.mixture.free_weights[0] > 0.45
    with pytest.raises(DataError, match=r"caps that add up to 1 or more, found 0\.400"):
        fitted(table, prior, caps=caps / caps.sum() * 0.4)


def test_priors_of_tables(tmp_path: Path) -> None:
    shares = pile_weights()["token_share"]
    count = len(shares)
    table = RunsTable(
        runs=("0",),
        domains=tuple(sorted(shares)),
        weights=np.full((1, count), 1 / count),
        targets=("t",),
        losses=np.ones((1, 1)),
    )
    prior, source = prior_of(table)
    assert source == "the Pile's token shares"
    total = sum(shares.values())
    np.testing.assert_allclose(prior, [shares[name] / total for name in table.domains], atol=1e-6)
    (tmp_path / "prior.json").write_text('{"law": 1}')
    with pytest.raises(DataError, match="Expected the same domains in"):
        prior_of(table, str(tmp_path / "prior.json"))


def test_auto_is_the_best_on_left_out_runs_and_the_process_for_few() -> None:
    weights, losses = planted(52, noise=0.05)
    table = RunsTable(
        runs=tuple(map(str, range(52))),
        domains=("a", "b", "c", "d"),
        weights=weights,
        targets=("exam",),
        losses=losses[:, None],
    )
    steps: list[int] = []
    found = regress_runs(table, "exam", "auto", quick=True, progress=lambda: steps.append(1))
    assert isinstance(found, Regressed)
    assert found.kind == found.compared[0].kind == "gaussian_process"
    assert len(found.compared) == 4
    assert len(steps) == 20
    assert found.model.width == found.compared[0].width  # type: ignore[union-attr]
    some = regress_runs(_first(table, 45), "exam", "lightgbm")
    assert some.compared == (), "40 runs are needed, and 36 are left where a fifth is left out"
    few = regress_runs(_first(table, 10), "exam", "auto", quick=True)
    assert (few.kind, few.compared) == ("gaussian_process", ())


def _first(table: RunsTable, count: int) -> RunsTable:
    return dataclasses.replace(
        table,
        runs=table.runs[:count],
        weights=table.weights[:count],
        losses=table.losses[:count],
    )
