"""The mixture for a shorter step, against a general optimiser and its two ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from bydore_pyro.core.matching import (
    Matching,
    MeasuredRound,
    Sample,
    covariance_of,
    match,
    measured_round,
)
from bydore_pyro.core.quadratic import least_on_simplex
from bydore_pyro.core.shorter_step import shorter_step, shorter_step_draws
from bydore_pyro.mixture.repetition import effective_shares


def mean_gradients() -> torch.Tensor:
    """Of four domains, of unlike lengths ``(K, S)``."""
    rng = torch.Generator().manual_seed(0)
    lengths = torch.tensor([1.0, 3.0, 0.5, 2.0], dtype=torch.float64)[:, None]
    return lengths * torch.randn(4, 30, generator=rng, dtype=torch.float64) + 1.0


def measured(target: torch.Tensor, noise: float, seed: int = 1) -> MeasuredRound:
    """A round of 32 documents of two sequences each, which are alike."""
    rng = torch.Generator().manual_seed(seed)
    documents = torch.arange(32).repeat_interleave(2)

    def sample(mean: torch.Tensor) -> Sample:
        of_document = torch.randn(32, 30, generator=rng, dtype=torch.float64)[documents]
        own = torch.randn(64, 30, generator=rng, dtype=torch.float64)
        return Sample(mean + noise * (of_document + own), documents)

    return measured_round([sample(mean) for mean in mean_gradients()], sample(target))


def target_of(planted: list[float]) -> torch.Tensor:
    return torch.tensor(planted, dtype=torch.float64) @ mean_gradients()


def matched(planted: list[float], noise: float = 0.01) -> Matching:
    """Evidence of a planted mixture."""
    return match([measured(target_of(planted), noise)])


def test_no_other_optimiser_finds_a_better_mixture() -> None:
    found = matched([0.5, 0.0, 0.3, 0.2])
    for share in (1.0, 0.5, 0.25):
        step = share * found.scale

        def loss(x: np.ndarray, step: float = step) -> float:
            u = step * torch.from_numpy(x)
            return float(u @ found.gram @ u / 2 - found.cross @ u)

        one = {"type": "eq", "fun": lambda x: x.sum() - 1}
        other = minimize(
            loss, np.full(4, 0.25), bounds=[(0, 1)] * 4, constraints=one, method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 1000},
        )  # fmt: skip
        mine = shorter_step(found, share)
        assert float(mine.sum()) == pytest.approx(1)
        np.testing.assert_allclose(mine.numpy(), other.x, atol=1e-4)


def test_a_whole_step_gives_the_planted_mixture_and_a_tiny_one_the_best_domain() -> None:
    planted = [0.5, 0.0, 0.3, 0.2]
    found = matched(planted)
    np.testing.assert_allclose(shorter_step(found, 1.0).numpy(), planted, atol=0.01)
    best = int(found.cross.argmax())
    np.testing.assert_allclose(shorter_step(found, 1e-3).numpy(), np.eye(4)[best], atol=1e-6)


def test_effective_shares_of_text_that_is_not_repeated_change_nothing() -> None:
    found = matched([0.5, 0.0, 0.3, 0.2])
    rates = torch.full((4,), 0.5, dtype=torch.float64)  # half an epoch of each at most
    effective = shorter_step(found, 0.5, lambda w: found.scale * effective_shares(w, rates, 1.0))
    torch.testing.assert_close(effective, shorter_step(found, 0.5), atol=1e-9, rtol=0)


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, float("nan")])
def test_a_length_out_of_its_range_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match=r"Expected a length in \(0, 1\], actual"):
        shorter_step(matched([0.25] * 4), share)


def test_a_target_that_nothing_matches_gives_uniform_weights() -> None:
    found = matched([-1.0, -1.0, -1.0, -1.0])
    assert found.scale == 0
    torch.testing.assert_close(shorter_step(found, 0.5), torch.full((4,), 0.25).double())


def test_text_that_is_read_again_loses_weight() -> None:
    found = matched([0.5, 0.0, 0.3, 0.2])
    rates = torch.tensor([8.0, 0.1, 0.1, 0.1], dtype=torch.float64)  # the first is short

    def loss(x: np.ndarray) -> float:
        u = found.scale * effective_shares(torch.from_numpy(x), rates, 0.5)
        return float(u @ found.gram @ u / 2 - found.cross @ u)

    again = shorter_step(found, 1.0, lambda w: found.scale * effective_shares(w, rates, 0.5))
    assert float(again[0]) < float(shorter_step(found, 1.0)[0]) - 0.05
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 21)] * 3), -1).reshape(-1, 3)
    grid = np.c_[grid, 1 - grid.sum(1)]
    others = min(loss(x) for x in grid[grid[:, 3] >= 0])
    assert others - 1e-3 < loss(again.numpy()) <= others


def test_a_gram_of_few_noisy_gradients_counts_as_positive() -> None:
    """It is unbiased, so it may have negative eigenvalues; the mixture is that without them."""
    found = matched([0.5, 0.0, 0.3, 0.2])
    values, vectors = torch.linalg.eigh(found.gram)
    values[0] = 0.0
    positive = (vectors * values) @ vectors.T
    values[0] = -0.05 * float(values[-1])
    negative = (vectors * values) @ vectors.T
    left, right = (shorter_step(replace(found, gram=g), 0.5) for g in (positive, negative))
    torch.testing.assert_close(left, right, atol=1e-6, rtol=0)


@pytest.mark.parametrize("length", [1.0, 0.8])
def test_draws_within_the_simplex_scatter_as_the_delta_method_says(length: float) -> None:
    """Where no weight is near 0, the optimum is linear in ``c``, and so is its covariance known."""
    one = measured(target_of([0.4, 0.3, 0.2, 0.1]), 0.01)
    found = match([one])
    v = length * found.scale * shorter_step(found, length)
    assert float(v.min()) > 0.02
    inverse = torch.linalg.inv(found.gram)
    total = inverse.sum()
    solve = (inverse - inverse.sum(1)[:, None] * inverse.sum(0) / total) / (length * found.scale)
    expected = solve @ covariance_of([one], v) @ solve.T
    drawn = shorter_step_draws(found, [one], length, draws=4000, seed=3)
    assert drawn.shape == (4000, 4)
    torch.testing.assert_close(drawn.sum(1), torch.ones(4000).double())
    error = (torch.cov(drawn.T) - expected).abs().max() / expected.diagonal().max()
    assert float(error) < 0.08


@pytest.mark.parametrize("length", [1.0, 0.5])
def test_intervals_of_draws_hold_the_mixture_of_all_text(length: float) -> None:
    """Of 94 % intervals of 160 weights, some of them 0; also where no mixture matches."""
    means = mean_gradients()
    rng = torch.Generator().manual_seed(2)
    target = target_of([0.5, 0.0, 0.3, 0.2]) + torch.randn(30, generator=rng, dtype=torch.float64)
    inside = []
    for seed in range(40):
        one = measured(target, 1.0, seed)
        found = match([one])
        step = length * found.scale
        truth = least_on_simplex(step**2 * means @ means.T, step * means @ target)
        weights = shorter_step(found, length)
        drawn = shorter_step_draws(found, [one], length, draws=200, seed=seed)
        low = torch.minimum(drawn.quantile(0.03, 0), weights)
        high = torch.maximum(drawn.quantile(0.97, 0), weights)
        inside.append((low <= truth + 1e-9) & (truth <= high + 1e-9))
    assert 0.89 < torch.stack(inside).double().mean() < 0.99


def test_draws_are_those_of_their_seed_and_need_a_match() -> None:
    one = measured(target_of([0.5, 0.0, 0.3, 0.2]), 1.0)
    found = match([one])
    drawn = [shorter_step_draws(found, [one], 0.5, draws=8, seed=seed) for seed in (0, 0, 1)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    effective = shorter_step_draws(found, [one], 0.5, lambda w: found.scale * w, draws=8)
    torch.testing.assert_close(effective, drawn[0], atol=1e-8, rtol=0)
    nothing = matched([-1.0, -1.0, -1.0, -1.0])
    with pytest.raises(ValueError, match="Expected a match with a scale above 0, actual 0"):
        shorter_step_draws(nothing, [one], 0.5)
