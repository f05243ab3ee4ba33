"""AutoScale: planted laws, the authors' own figures, the optimum by brute force, and tables."""

from __future__ import annotations

import numpy as np
import pytest
from planted_tables import AUTHORS, AUTHORS_OPTIMUM, law_for, laws_of, relative_loss
from scipy import optimize
from tiny import steps_spent

from bydore_pyro.baselines.autoscale import (
    AutoScaleConfig,
    counts_of,
    extrapolate,
    fit_autoscale,
    fit_table,
    optimal_counts,
    probe_counts,
)
from bydore_pyro.baselines.power_laws import fit_power_laws
from bydore_pyro.baselines.problem import Problem
from bydore_pyro.baselines.runs_table import RunsTable
from bydore_pyro.utils.errors import DataError


def test_probes() -> None:
    counts = probe_counts(np.array([300, 600]))
    expected = [[300, 600], [100, 600], [300, 200], [900, 600], [300, 1800]]
    np.testing.assert_allclose(counts, expected)
    np.testing.assert_allclose(probe_counts(np.array([2.0]), cut=0.25, grow=5)[:, 0], [2, 0.5, 10])


def test_the_authors_figures_are_reproduced() -> None:
    laws = fit_power_laws(probe_counts(np.full(7, 1 / 7), cut=0.2), AUTHORS)
    assert laws.fits == ("exact",) * 7
    # As the notebook's solver, started at (1, 1, 1), finds them.
    alpha, gamma, constant = np.transpose(
        [
            optimize.curve_fit(
                lambda x, a, b, c: (x + a) ** -b + c,
                [0.2, 1, 3],
                np.array([AUTHORS[1 + k], AUTHORS[0], AUTHORS[8 + k]]) / AUTHORS[0],
                maxfev=10_000,
                absolute_sigma=True,
                check_finite=False,
            )[0]
            for k in range(7)
        ]
    )
    np.testing.assert_allclose(laws.alpha, alpha, rtol=1e-4)
    np.testing.assert_allclose(laws.gamma, gamma, rtol=1e-4)
    np.testing.assert_allclose(laws.constant, constant, rtol=1e-4)
    found = optimal_counts(laws)
    np.testing.assert_allclose(7 * found, AUTHORS_OPTIMUM, atol=1e-6)
    assert (found <= laws.smallest).tolist() == [False, True] + 5 * [False]


def test_any_losses_give_laws_within_the_bounds_and_an_optimum_or_one_error() -> None:
    rng = np.random.default_rng(2)
    for spread in np.geomspace(1e-12, 1, 24):
        counts = probe_counts(rng.uniform(1, 9, 4), rng.uniform(0.01, 0.99), rng.uniform(1.01, 99))
        losses = np.exp(spread * rng.standard_normal(9))
        laws = fit_power_laws(counts, losses)
        assert ((laws.alpha >= 0) & (laws.gamma >= 0) & np.isfinite(laws.constant)).all()
        try:
            found = optimal_counts(laws)
        except DataError:
            assert laws.fits == ("none",) * 4
        else:
            assert found.sum() == pytest.approx(counts[0].sum())
            assert (found >= laws.smallest).all()


def test_the_optimum_is_that_of_a_grid() -> None:
    laws = laws_of([0.3, 1.2, 0.6], [0.1, 2.0, 0.5], [100, 300, 200])
    found = optimal_counts(laws)
    assert found.sum() == pytest.approx(600, rel=1e-12)
    first, second = np.meshgrid(np.linspace(34, 500, 467), np.linspace(100, 500, 401))
    third = 600 - first - second
    inside = third >= 200 / 3
    table = np.stack([first[inside], second[inside], third[inside]], -1)
    losses = np.array([relative_loss(laws, counts) for counts in table[::7]])
    assert relative_loss(laws, found) <= losses.min() + 1e-12
    assert np.abs(table[::7][losses.argmin()] - found).max() < 12


def test_the_optimum_meets_its_conditions_and_is_that_of_scipy() -> None:
    rng = np.random.default_rng(1)
    pinned = compared = 0
    for _ in range(30):
        domains = int(rng.integers(2, 9))
        laws = laws_of(
            np.where(rng.random(domains) < 0.2, 0, rng.uniform(0.02, 3, domains)).tolist(),
            rng.uniform(0, 3, domains).tolist(),
            rng.uniform(50, 500, domains).tolist(),
        )
        if not laws.gamma.any():
            continue
        budget = laws.base.sum()
        found = optimal_counts(laws)
        free = found > laws.smallest
        pinned += (~free).sum()
        assert found.sum() == pytest.approx(budget, rel=1e-12)
        assert (found >= laws.smallest).all()
        gain = laws.gamma / laws.base * (found / laws.base + laws.alpha) ** (-laws.gamma - 1)
        np.testing.assert_allclose(gain[free], gain.max(), rtol=1e-6)
        other = optimize.minimize(
            lambda n, laws: relative_loss(laws, n * laws.base.sum()),
            laws.base / laws.base.sum() * budget / laws.base.sum(),
            args=(laws,),
            bounds=[(low / laws.base.sum(), None) for low in laws.smallest],
            constraints={
                "type": "eq",
                "fun": lambda n, laws, total=budget: n.sum() - total / laws.base.sum(),
                "args": (laws,),
            },
            options={"ftol": 1e-13, "maxiter": 1000},
        )
        if other.success:
            compared += 1
            assert relative_loss(laws, found) <= other.fun + 1e-9
    assert pinned > 20
    assert compared > 20


def test_domains_that_bring_nothing_stay_at_their_bounds() -> None:
    laws = laws_of([0.3, 0.0, 0.6], [0.0, 0.0, 0.5], [100, 300, 200])
    found = optimal_counts(laws)
    assert found[1] == pytest.approx(100)
    assert (found <= laws.smallest).tolist() == [False, True, False]
    assert optimal_counts(laws_of([0.5], [0.2], [10])).tolist() == pytest.approx([10])


def test_laws_that_do_not_fall_have_no_optimum() -> None:
    with pytest.raises(DataError, match="one domain whose tokens lower the loss, found none"):
        optimal_counts(law_for(1.0, 1.0))


def test_extrapolation_by_hand() -> None:
    first, second = np.array([10.0, 20.0, 30.0]), np.array([40.0, 60.0, 20.0])
    third, fourth = np.array([160.0, 180.0, 40 / 3]), np.array([640.0, 540.0, 80 / 9])
    for counts in (second, third, fourth):
        np.testing.assert_allclose(extrapolate(first, second, counts.sum()), counts / counts.sum())
    between = extrapolate(first, second, 500)
    factor = np.log(500 * between / second) / np.log(second / first)
    np.testing.assert_allclose(factor, factor[0])
    assert 1 < factor[0] < 2


def test_extrapolation_of_the_authors_figures() -> None:
    """Their notebook: 0.3 and 1.2 billion tokens, and what it finds for 5 and 412 billion."""
    first = np.array([1.55818971, 0.2, 1.1645966, 1.42333261, 1.49550525, 0.68184781, 0.47652801])
    second = np.array([1.63121445, 0.2, 1.30180479, 1.21425702, 1.83266187, 0.62006189, 0.2])
    first, second = first * 0.3 / 7, second * 1.2 / 7
    third = np.array([1.17096789, 0.13714286, 0.99783655, 0.71032654, 1.53999724])
    weights = extrapolate(first, second, 5.000487243200733)
    np.testing.assert_allclose(weights[:5] * 5.000487243200733, third, rtol=1e-6)
    sixth = np.array([85.97994105, 8.77714286, 89.19703657, 28.22608777, 181.3773799])
    weights = extrapolate(first, second, 412.44002730550164)
    np.testing.assert_allclose(weights[:5] * 412.44002730550164, sixth, rtol=1e-6)


def test_a_far_extrapolation_does_not_overflow() -> None:
    first, second = np.array([1.0, 2.0, 3.0]), np.array([4.0, 4.0, 3.0])
    np.testing.assert_allclose(extrapolate(first, second, 1e300), [1, 0, 0], atol=1e-12)


def test_the_targets_own_domain_wins(problem: Problem) -> None:
    found = fit_autoscale(problem, AutoScaleConfig())
    assert max(found.mixture.as_dict().items(), key=lambda item: item[1])[0] == "birds"
    small, large = found.details["steps_of_the_base_runs"]
    assert large == 2 * small
    assert found.details["fits"][0]["birds"] != "none"
    spent = steps_spent(problem)
    assert 0.9 * 800 < spent <= 1.05 * 800, "whole steps: half a step off at most in each run"


def authors_table(rows: np.ndarray) -> RunsTable:
    """The authors' figures as shares and losses, in another order, the shares rounded."""
    counts = probe_counts(np.full(7, 1 / 7), cut=0.2)
    return RunsTable(
        runs=tuple(str(n) for n in range(15)),
        domains=tuple("abcdefg"),
        weights=(counts / counts.sum(1, keepdims=True))[rows].round(5),
        targets=("perplexity",),
        losses=AUTHORS[rows][:, None],
    )


def test_the_authors_table_leads_to_their_optimum_in_any_order() -> None:
    rows = np.random.default_rng(0).permutation(15)
    table = authors_table(rows)
    counts, order = counts_of(table.weights)
    np.testing.assert_array_equal(rows[order], np.arange(15))
    np.testing.assert_allclose(7 * counts, probe_counts(np.ones(7), cut=0.2), rtol=1e-3)
    found = fit_table(table, "perplexity")
    np.testing.assert_allclose(7 * np.array(found.mixture.weights), AUTHORS_OPTIMUM, atol=2e-3)
    assert found.details["cut"]["a"] == pytest.approx(0.2, rel=1e-3), "the table's own"
    assert found.details["grown"]["g"] == pytest.approx(3, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("fewer", "Expected AutoScale's runs, .* found 14 runs of 7 domains"),
        ("two domains", "Expected AutoScale's runs, .* found 5 runs of 2 domains"),
        ("another", "Expected AutoScale's runs, .* found runs that differ in other ways"),
        ("none", "Expected AutoScale's runs, .* found a weight of 0"),
        ("negative loss", "Expected losses > 0 of t, found -1"),
    ],
)
def test_tables_that_are_not_autoscales_are_refused(change: str, message: str) -> None:
    table = authors_table(np.arange(15))
    weights, losses = table.weights.copy(), table.losses.copy()
    if change == "fewer":
        weights, losses = weights[:14], losses[:14]
    elif change == "two domains":
        weights = weights[:5, :2] / weights[:5, :2].sum(1, keepdims=True)
        losses = losses[:5]
    elif change == "another":
        weights[3] = np.random.default_rng(0).dirichlet(np.ones(7))
    elif change == "none":
        weights[1, 0] = 0  # of which the logarithm of a law is infinite
    else:
        losses[2] = -1
    changed = RunsTable(
        runs=tuple(map(str, range(len(weights)))),
        domains=tuple("abcdefg"[: weights.shape[1]]),
        weights=weights / weights.sum(1, keepdims=True),
        targets=("t",),
        losses=losses,
    )
    with pytest.raises(DataError, match=message):
        fit_table(changed, "t")
