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


def measured(
    target: torch.Tensor, noise: float, seed: int = 1, of_target: float | None = None
) -> MeasuredRound:
    """A round of 32 documents of two sequences each, which are alike; the target's noise apart."""
    rng = torch.Generator().manual_seed(seed)
    documents = torch.arange(32).repeat_interleave(2)

    def sample(mean: torch.Tensor, noise: float) -> Sample:
        of_document = torch.randn(32, 30, generator=rng, dtype=torch.float64)[documents]
        own = torch.randn(64, 30, generator=rng, dtype=torch.float64)
        return Sample(mean + noise * (of_document + own), documents)

    domains = [sample(mean, noise) for mean in mean_gradients()]
    return measured_round(domains, sample(target, noise if of_target is None else of_target))


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
    one = measured(target_of([0.25] * 4), 0.01)
    with pytest.raises(ValueError, match=r"Expected a length in \(0, 1\], actual"):
        shorter_step(match([one]), share)
    with pytest.raises(ValueError, match=r"Expected a length in \(0, 1\], actual"):
        shorter_step_draws(match([one]), [one], share)


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
    """Where no weight is near 0, the optimum is linear in ``c``, so its covariance is known."""
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


@pytest.mark.parametrize("length", [1.0, 0.8])
def test_intervals_of_draws_hold_the_mixture_of_all_text(length: float) -> None:
    """Of 600 weights above 0, for a target that no mixture matches. A covariance that is 0.6 times
    as large holds 85 % of them, one that is twice as large or without the domains' noise 99 %."""
    means = mean_gradients()
    rng = torch.Generator().manual_seed(2)
    apart = 0.3 * torch.randn(30, generator=rng, dtype=torch.float64)
    target = target_of([0.3, 0.15, 0.35, 0.2]) + apart
    inside = []
    for seed in range(150):
        one = measured(target, 1.5, seed, of_target=0.5)
        found = match([one])
        step = length * found.scale
        truth = least_on_simplex(step**2 * means @ means.T, step * means @ target)
        assert float(truth.min()) > 0.05
        drawn = shorter_step_draws(found, [one], length, draws=100, seed=seed)
        inside.append((drawn.quantile(0.03, 0) <= truth) & (truth <= drawn.quantile(0.97, 0)))
    assert torch.stack(inside).double().mean() == pytest.approx(0.94, abs=0.03)


def test_draws_know_how_often_text_is_read() -> None:
    """By the delta method: the optimum's slope in ``c``, and the moments' covariance at ``v``."""
    one = measured(target_of([0.25, 0.4, 0.2, 0.15]), 0.02, of_target=0.002)
    found = match([one])
    rates = torch.tensor([0.1, 8.0, 0.1, 0.1], dtype=torch.float64)  # the second is short

    def effective(weights: torch.Tensor) -> torch.Tensor:
        return found.scale * effective_shares(weights, rates, 0.5)

    weights = shorter_step(found, 1.0, effective)
    assert float((weights * rates).max()) > 2
    assert float(weights.min()) > 0.05
    change = 1e-3 * float(found.cross.abs().max())
    slopes = [
        shorter_step(replace(found, cross=found.cross + change * axis), 1.0, effective) - weights
        for axis in torch.eye(4, dtype=torch.float64)
    ]
    slope = torch.stack(slopes, 1) / change
    drawn = torch.cov(shorter_step_draws(found, [one], 1.0, effective, draws=1000).T)
    read, fresh = effective(weights), found.scale * weights
    right, wrong = (slope @ covariance_of([one], v) @ slope.T for v in (read, fresh))
    largest = right.diagonal().max()
    assert float((drawn - right).abs().max() / largest) < 0.15
    assert float((wrong - right).abs().max() / largest) > 0.3


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
