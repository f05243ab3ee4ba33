"""AutoScale: planted laws, the authors' own figures, the optimum by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from planted_tables import AUTHORS, AUTHORS_OPTIMUM, law_for, laws_of, measured, relative_loss
from scipy import optimize
from tiny import steps_spent

from bydore_pyro.baselines.autoscale import (
    AutoScaleConfig,
    extrapolate,
    fit_autoscale,
    fit_power_laws,
    optimal_counts,
    probe_counts,
)
from bydore_pyro.baselines.problem import Problem
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


@pytest.mark.parametrize(("gamma", "alpha"), [(1.25, 2.7), (2.0, 0.5)])
def test_fast_laws_are_recovered_to_solver_tolerance(gamma: float, alpha: float) -> None:
    planted = laws_of([gamma], [alpha], [1.0])
    counts = probe_counts(planted.base)
    found = fit_power_laws(counts, measured(planted, counts))
    np.testing.assert_allclose([found.gamma[0], found.alpha[0]], [gamma, alpha], rtol=1e-10)
    assert found.constant[0] == pytest.approx(planted.constant[0], abs=1e-12)


@pytest.mark.parametrize(
    ("relative", "fit"),
    [
        ((1.0, 1.0), "none"),  # flat
        ((0.98, 1.01), "none"),  # rises
        ((1.02, 1.02), "none"),  # falls and rises again
        ((0.98, 0.95), "nearest"),  # rises, then falls by more
        ((1.05, 1.01), "nearest"),  # falls, then rises by less
        ((1.05, 1.0), "nearest"),  # flat after the base
        ((1.0, 0.95), "nearest"),  # flat before it
        ((1.005, 0.95), "nearest"),  # falls faster and faster: not convex
        ((1.9, 0.1), "nearest"),  # falls by more than (1 + alpha)^-gamma can
        ((1.05, 0.96), "exact"),
        ((1.0005, 0.9996), "exact"),
    ],
)
def test_degenerate_fits_are_told(relative: tuple[float, float], fit: str) -> None:
    laws = law_for(*relative)
    assert laws.fits == (fit,)
    assert 0 <= laws.alpha[0] <= 1000
    assert 0 <= laws.gamma[0] <= 20
    assert (laws.gamma[0] == 0) == (fit == "none")
    x = np.array([1 / 3, 1, 3])
    law = (x + laws.alpha[0]) ** -laws.gamma[0] + laws.constant[0]
    gap = np.abs(law - [relative[0], 1, relative[1]]).max()
    assert (gap < 1e-9) == (fit == "exact" or relative == (1.0, 1.0))
