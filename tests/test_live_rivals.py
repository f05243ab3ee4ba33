"""The mixtures that follow training losses: to the domain that is not learned yet, or fastest."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))

from live_rivals import Ado, Odm, _power_law

EQUAL, COUNTS = np.full(4, 0.25), np.array([2, 2, 2, 0])


def test_odm_goes_to_what_is_hard_and_explores() -> None:
    """One step by the paper: a reward of loss / weight, smoothed, then Exp3's shares."""
    rule = Odm(EQUAL, 100)
    losses = np.array([1.0, 2.0, 3.0, np.nan])
    rule.observe(COUNTS, losses)
    explored = [min(0.25, np.sqrt(np.log(4) / (4 * step))) for step in (1, 2)]
    reward = 0.1 * np.array([4.0, 8.0, 12.0, 0.0])
    share = np.exp(explored[0] * reward)
    expected = (1 - 4 * explored[1]) * share / share.sum() + explored[1]
    np.testing.assert_allclose(rule.weights, expected)
    for _ in range(300):
        rule.observe(COUNTS, losses)
    assert rule.weights.argmax() == 2
    assert rule.weights.min() > 0.02
    assert abs(rule.weights.sum() - 1) < 1e-9


def test_ado_finds_the_law_and_prefers_what_is_learned_fastest() -> None:
    n = np.arange(1, 200.0)
    eps, beta, alpha = _power_law(list(zip(n, 2 + 3 * n**-0.5, strict=True)))
    np.testing.assert_allclose([eps, beta, alpha], [2, 3, 0.5], rtol=0.02)
    rule = Ado(EQUAL, 100)
    for step in range(1, 21):
        read = 2.0 * step
        fast, slow = 2 + 4 * read**-0.5, 4 - 0.001 * step
        rule.observe(COUNTS, np.array([fast, slow, slow, np.nan]))
        if step < 5:
            np.testing.assert_array_equal(rule.weights, EQUAL)
    assert rule.weights.argmax() == 0
    assert abs(rule.weights.sum() - 1) < 1e-9
