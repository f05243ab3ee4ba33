"""AutoScale's power laws: planted ones are found, and what is none is told."""

from __future__ import annotations

import numpy as np
import pytest
from planted_tables import law_for, laws_of, measured

from bydore_pyro.baselines.autoscale import probe_counts
from bydore_pyro.baselines.power_laws import PowerLaws, fit_power_laws, positive


def test_planted_laws_are_recovered() -> None:
    """Each by the branch on whose side it lies; both branches pass through all three points."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        cut, grow = rng.uniform(0.1, 0.6), rng.uniform(1.5, 5)
        alpha = rng.choice([0.0, rng.uniform(0, 1), rng.uniform(0, 10)], size=4)
        gamma = np.exp(rng.uniform(np.log(0.02), np.log(8), size=4))
        planted = laws_of(gamma.tolist(), alpha.tolist(), rng.uniform(1e6, 1e9, 4).tolist())
        counts = probe_counts(planted.base, cut, grow)
        losses = measured(planted, counts)
        fast, slow = (fit_power_laws(counts, losses, branch) for branch in ("fast", "slow"))
        assert (slow.gamma <= fast.gamma + 1e-9).all()
        assert (slow.alpha <= fast.alpha + 1e-9).all()
        for k in range(4):
            if counts[0, k] and losses[1 + k] - losses[5 + k] < 1e-5:
                continue  # the three points are one
            near = [
                abs(law.gamma[k] - gamma[k]) / gamma[k]
                + abs(law.alpha[k] - alpha[k]) / (1 + alpha[k])
                for law in (fast, slow)
            ]
            assert min(near) < 1e-5
            for law in (fast, slow):
                assert law.fits[k] == "exact"
                assert law.misfit[k] < 1e-9
                assert law.constant[k] == pytest.approx(1 - (1 + law.alpha[k]) ** -law.gamma[k])
        np.testing.assert_allclose(fast.smallest, cut * planted.base)


@pytest.mark.parametrize(
    ("gamma", "alpha", "branch"),
    [(0.3, 0.2, "slow"), (0.1, 1.0, "slow"), (1.25, 2.7, "fast"), (2.0, 0.5, "fast")],
)
def test_planted_laws_are_recovered_to_solver_tolerance(
    gamma: float, alpha: float, branch: str
) -> None:
    planted = laws_of([gamma], [alpha], [1.0])
    counts = probe_counts(planted.base)
    found = fit_power_laws(counts, measured(planted, counts), branch)  # type: ignore[arg-type]
    np.testing.assert_allclose([found.gamma[0], found.alpha[0]], [gamma, alpha], rtol=1e-10)
    assert found.constant[0] == pytest.approx(planted.constant[0], abs=1e-12)


def test_two_laws_pass_through_three_points() -> None:
    """The documented ambiguity: all but equal within the probed range, different beyond it."""
    fast, slow = (law_for(1.05, 0.94, branch=branch) for branch in ("fast", "slow"))
    assert fast.gamma[0] > 2 * slow.gamma[0] > 0
    assert fast.constant[0] > slow.constant[0] > 0
    within = [
        abs(fast.relative_loss([n]) - slow.relative_loss([n])) for n in (200, 400, 1200, 1800)
    ]
    assert max(within) < 2e-3
    assert fast.relative_loss([60_000]) > slow.relative_loss([60_000]) + 0.02
    # Where the loss falls by more before the base than after it, only one has alpha >= 0.
    fast, slow = (law_for(1.05, 0.96, branch=branch) for branch in ("fast", "slow"))
    assert (fast.gamma[0], fast.alpha[0]) == (slow.gamma[0], slow.alpha[0])


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
    for branch in ("fast", "slow"):
        laws = law_for(*relative, branch=branch)
        assert laws.fits == (fit,)
        assert 0 <= laws.alpha[0] <= 1000
        assert 0 <= laws.gamma[0] <= 20
        assert (laws.gamma[0] == 0) == (fit == "none")
        x = np.array([1 / 3, 1, 3])
        law = (x + laws.alpha[0]) ** -laws.gamma[0] + laws.constant[0]
        gap = np.abs(law - [relative[0], 1, relative[1]]).max()
        assert laws.misfit[0] == pytest.approx(gap, abs=1e-12)
        assert (gap < 1e-9) == (fit == "exact" or relative == (1.0, 1.0))


@pytest.mark.parametrize("relative", [(0.98, 0.95), (1.05, 1.01), (1.005, 0.95), (1.9, 0.1)])
def test_the_nearest_law_is_that_of_least_squares(relative: tuple[float, float]) -> None:
    """Against a grid over all laws within the bounds."""
    laws = law_for(*relative)
    x, y = np.array([1 / 3, 1, 3]), np.array([relative[0], 1, relative[1]])
    alpha = np.concatenate([[0], np.geomspace(1e-3, 1000, 300)])[:, None, None]
    gamma = np.concatenate([[0], np.geomspace(1e-3, 20, 300)])[None, :, None]

    def squares(alpha: np.ndarray, gamma: np.ndarray) -> np.ndarray:
        difference = y - (x + alpha) ** -gamma
        return ((difference - difference.mean(-1, keepdims=True)) ** 2).sum(-1)

    found = squares(laws.alpha, laws.gamma[:, None][:, 0])
    assert found <= squares(alpha, gamma).min() + 1e-8


@pytest.mark.parametrize(
    ("counts", "losses", "message"),
    [
        ([[3.0], [1.0]], [1, 1], r"counts \(2 K \+ 1, K\), actual \(2, 1\)"),
        ([3.0, 1.0, 9.0], [1, 1, 1], r"\(2 K \+ 1, K\)"),
        ([[3.0], [-1.0], [9.0]], [1, 1, 1], "counts > 0"),
        ([[3.0], [np.nan], [9.0]], [1, 1, 1], "finite counts"),
        ([[3.0], [1.0], [9.0]], [1, 1], r"losses \(3,\), actual \(2,\)"),
        ([[3.0], [1.0], [9.0]], [1, 1, np.inf], "finite losses"),
        ([[3.0], [1.0], [9.0]], [1, 0, 1], "losses > 0"),
        ([[3.0], [9.0], [1.0]], [1, 1, 1], "each domain cut, each domain grown"),
        ([[3, 3], [1, 3], [3, 1], [9, 3], [4, 9]], [1] * 5, "leave the others unchanged"),
    ],
)
def test_bad_tables(counts: list, losses: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_power_laws(np.array(counts), np.array(losses))


def test_counts_may_be_rounded_and_branches_have_names() -> None:
    counts = np.array([[300, 600], [100, 599], [300, 200], [900, 602], [300, 1800]])
    losses = np.array([3, 3.1, 3.2, 2.9, 2.8])
    assert fit_power_laws(counts, losses).fits == ("exact", "exact")
    with pytest.raises(ValueError, match=r"a branch of .*, actual 'flat'"):
        fit_power_laws(counts, losses, "flat")  # type: ignore[arg-type]


def test_the_relative_loss_is_one_at_the_base() -> None:
    laws: PowerLaws = laws_of([0.3, 1.2], [0.1, 2.0], [100, 300])
    assert laws.relative_loss(laws.base) == pytest.approx(1)
    by_hand = 1 + (2.1**-0.3 - 1.1**-0.3) + (2.5**-1.2 - 3.0**-1.2)
    assert laws.relative_loss(np.array([200, 150])) == pytest.approx(by_hand)


def test_positive_values() -> None:
    assert positive(np.array([1, 2]), "counts").dtype == float
    for wrong in ([], [0.0], [np.nan], [[1.0]]):
        with pytest.raises(ValueError, match="Expected finite counts > 0"):
            positive(np.array(wrong), "counts")
