"""Marin's design and law against closed forms, and what they lead to."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from bydore_pyro.methods.d_optimal import (
    d_optimal_design,
    design_features,
    elastic_losses,
    elastic_optimum,
    elastic_proposal,
    fit_elastic,
    greedy_design,
)


def test_a_line_is_measured_at_its_ends_and_a_simplex_at_its_corners() -> None:
    """The D-optimal designs of a straight line and of a linear blend are known."""
    line = np.tile(np.linspace(-1, 1, 9), 2)
    chosen = greedy_design(np.column_stack([np.ones(18), line]), 4)
    assert sorted(line[chosen]) == [-1, -1, 1, 1]
    blends = np.array([p for p in itertools.product(range(4), repeat=3) if sum(p) == 3]) / 3
    chosen = greedy_design(blends, 3)
    assert sorted(blends[chosen].tolist()) == np.eye(3)[::-1].tolist()
    determinants = [
        np.linalg.det(blends[list(p)]) ** 2 for p in itertools.combinations(range(10), 3)
    ]
    assert np.linalg.det(blends[chosen]) ** 2 == pytest.approx(max(determinants))


def test_a_larger_design_begins_with_a_smaller_one() -> None:
    np.testing.assert_array_equal(d_optimal_design(5, 12, 0)[:4], d_optimal_design(5, 4, 0))


def test_features_are_standardised_and_begin_with_a_constant() -> None:
    drawn = np.random.default_rng(0).dirichlet(np.ones(4), 50)
    found = design_features(drawn)
    assert found.shape == (50, 15)
    assert (found[:, 0] == 1).all()
    np.testing.assert_allclose(found[:, 1:].mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(found[:, 1:].std(0), 1)


def test_of_elasticity_one_the_optimum_is_the_shares() -> None:
    """At rho = 0 and few epochs the law is ``c - A prod w_k^a_k``: least at w = a."""
    shares, epochs, even = np.array([0.5, 0.3, 0.2]), np.full(3, 1e-3), np.full(3, 1 / 3)
    law = np.concatenate([[5.0, 9.0, -2.0, 0.0, 0.0], np.log(shares)])
    expected = 5 - np.exp(9) * 1e-3 / 3 + np.exp(-2) * np.log1p(np.exp(-1)) ** 2
    assert elastic_losses(law, even[None], epochs)[0] == pytest.approx(expected, rel=1e-3)
    np.testing.assert_allclose(elastic_optimum(law, epochs, even), shares, atol=2e-3)


TRUE = np.array([6.0, 1.5, -3.0, -0.2, 0.5, 1.0, 0.5, 0.0, -0.5])
EPOCHS = np.array([0.2, 0.3, 3.0, 0.1])


def test_the_laws_derivatives_are_its_differences() -> None:
    weights = np.array([0.1, 0.2, 0.4, 0.3])
    _, of_law, of_weights = elastic_losses(TRUE, weights[None], EPOCHS)
    found = approx_fprime(TRUE, lambda law: elastic_losses(law, weights[None], EPOCHS)[0][0])
    np.testing.assert_allclose(of_law[0], found, atol=1e-5)
    found = approx_fprime(weights, lambda w: elastic_losses(TRUE, w[None], EPOCHS)[0][0])
    np.testing.assert_allclose(of_weights[0], found, atol=1e-5)


def test_the_law_is_found_again_from_sixteen_runs() -> None:
    rng, even = np.random.default_rng(0), np.full(4, 0.25)
    runs, others = rng.dirichlet(np.ones(4), (2, 16))
    fitted = fit_elastic(runs, elastic_losses(TRUE, runs, EPOCHS)[0], EPOCHS, 0)
    expected = elastic_losses(TRUE, others, EPOCHS)[0]
    np.testing.assert_allclose(elastic_losses(fitted, others, EPOCHS)[0], expected, atol=0.05)
    losses = elastic_losses(TRUE, runs, EPOCHS)[0]
    optima = [elastic_proposal(runs, losses, EPOCHS, 0), elastic_optimum(TRUE, EPOCHS, even)]
    best, least = elastic_losses(TRUE, np.stack(optima), EPOCHS)[0]
    assert best < least + 0.005 < expected.min()
