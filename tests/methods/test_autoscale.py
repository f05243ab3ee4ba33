"""AutoScale: planted laws, the authors' own figures, the optimum against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from bydore_pyro.errors import DataError
from bydore_pyro.methods.autoscale import (
    PowerLaws,
    extrapolate,
    fit_power_laws,
    optimal_counts,
    probe_counts,
)

# Validation perplexities in github.com/feiyang-k/AutoScale, algorithms/DDO_example.ipynb: the base
# with uniform weights, then each of seven domains cut, then each grown to 3; the fit takes 1/5 for
# the cut. Its optimum is the authors', with GitHub, the second, held at 0.2.
AUTHORS = np.concatenate(
    [
        [28.11373645],
        [30.11152249, 28.37687875, 29.85955983, 29.90195668, 30.37704005, 29.23766591, 28.92552215],
        [25.78619752, 27.68033216, 26.25833879, 26.47376351, 25.49797272, 27.01485416, 27.24200395],
    ]
)
AUTHORS_OPTIMUM = [1.62475352, 0.2, 1.27415166, 1.17979573, 1.8518998, 0.63716376, 0.23223551]


def laws_of(gamma: list[float], alpha: list[float], base: list[float]) -> PowerLaws:
    """Laws as given, fitted down to a third of the base."""
    n = np.array(base)
    return PowerLaws(base=n, smallest=n / 3, gamma=np.array(gamma), alpha=np.array(alpha))


def relative_loss(laws: PowerLaws, counts: np.ndarray) -> float:
    """The loss of counts ``(K,)`` in units of the base's: the domains' differences add up."""
    powers = (counts / laws.base + laws.alpha) ** -laws.gamma - (1 + laws.alpha) ** -laws.gamma
    return float(1 + powers.sum())


def test_probes() -> None:
    counts = probe_counts(np.array([300, 600]))
    expected = [[300, 600], [100, 600], [300, 200], [900, 600], [300, 1800]]
    np.testing.assert_allclose(counts, expected)
    np.testing.assert_allclose(probe_counts(np.array([2.0]), cut=0.25, grow=5)[:, 0], [2, 0.5, 10])


def test_the_authors_figures_are_reproduced() -> None:
    laws = fit_power_laws(probe_counts(np.full(7, 1 / 7), cut=0.2), AUTHORS)
    # As the notebook's solver, started at (1, 1, 1), finds them.
    alpha, gamma, _ = np.transpose(
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
    found = optimal_counts(laws)
    np.testing.assert_allclose(7 * found, AUTHORS_OPTIMUM, atol=1e-6)
    assert (found <= laws.smallest).tolist() == [False, True] + 5 * [False]


@pytest.mark.parametrize(("gamma", "alpha"), [(1.25, 2.7), (2.0, 0.5)])
def test_fast_laws_are_recovered_to_solver_tolerance(gamma: float, alpha: float) -> None:
    planted = laws_of([gamma], [alpha], [1.0])
    counts = probe_counts(planted.base)
    losses = np.array([3.3 * relative_loss(planted, run) for run in counts])
    found = fit_power_laws(counts, losses)
    np.testing.assert_allclose([found.gamma[0], found.alpha[0]], [gamma, alpha], rtol=1e-10)


def test_any_losses_give_laws_within_the_bounds_and_an_optimum_or_one_error() -> None:
    rng = np.random.default_rng(2)
    for spread in np.geomspace(1e-12, 1, 24):
        counts = probe_counts(rng.uniform(1, 9, 4), rng.uniform(0.01, 0.99), rng.uniform(1.01, 99))
        laws = fit_power_laws(counts, np.exp(spread * rng.standard_normal(9)))
        assert ((laws.alpha >= 0) & (laws.alpha <= 1000) & (laws.gamma >= 0)).all()
        try:
            found = optimal_counts(laws)
        except DataError:
            assert not laws.gamma.any()
        else:
            assert found.sum() == pytest.approx(counts[0].sum())
            assert (found >= laws.smallest).all()


@pytest.mark.parametrize("relative", [(1.0, 1.0), (0.98, 1.01), (1.02, 1.02)])
def test_laws_that_do_not_fall_have_no_optimum(relative: tuple[float, float]) -> None:
    laws = fit_power_laws(probe_counts(np.array([600.0])), 2.5 * np.array([1, *relative]))
    assert laws.gamma.tolist() == [0]
    with pytest.raises(DataError, match="one domain whose tokens lower the loss, found none"):
        optimal_counts(laws)


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
        total, found = laws.base.sum(), optimal_counts(laws)
        free = found > laws.smallest
        assert not free[laws.gamma == 0].any(), "what brings nothing stays at its bound"
        pinned += (~free).sum()
        assert found.sum() == pytest.approx(total, rel=1e-12)
        assert (found >= laws.smallest).all()
        gain = laws.gamma / laws.base * (found / laws.base + laws.alpha) ** (-laws.gamma - 1)
        np.testing.assert_allclose(gain[free], gain.max(), rtol=1e-6)
        other = optimize.minimize(
            lambda n, laws: relative_loss(laws, n * laws.base.sum()),
            laws.base / total,
            args=(laws,),
            bounds=[(low / total, None) for low in laws.smallest],
            constraints={"type": "eq", "fun": lambda n, _: n.sum() - 1, "args": (laws,)},
            options={"ftol": 1e-13, "maxiter": 1000},
        )
        if other.success:
            compared += 1
            assert relative_loss(laws, found) <= other.fun + 1e-9
    assert pinned > 20
    assert compared > 20


def test_extrapolation_by_hand() -> None:
    first, second = np.array([10.0, 20.0, 30.0]), np.array([40.0, 60.0, 20.0])
    third, fourth = np.array([160.0, 180.0, 40 / 3]), np.array([640.0, 540.0, 80 / 9])
    for counts in (second, third, fourth):
        np.testing.assert_allclose(extrapolate(first, second, counts.sum()), counts / counts.sum())
    between = extrapolate(first, second, 500)
    factor = np.log(500 * between / second) / np.log(second / first)
    np.testing.assert_allclose(factor, factor[0])
    assert 1 < factor[0] < 2
    far = extrapolate(np.array([1.0, 2.0, 3.0]), np.array([4.0, 4.0, 3.0]), 1e300)
    np.testing.assert_allclose(far, [1, 0, 0], atol=1e-12)


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
