"""The mixture for a shorter step, against a general optimiser and its two ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from bydore_pyro.core.matching import Matching, Sample, match, measured_round
from bydore_pyro.core.shorter_step import shorter_step
from bydore_pyro.mixture.repetition import effective_shares


def matched(planted: list[float], noise: float = 0.01) -> Matching:
    """Evidence of gradients of K domains, of unlike lengths, and of a planted mixture of them."""
    rng = torch.Generator().manual_seed(0)
    lengths = torch.tensor([1.0, 3.0, 0.5, 2.0], dtype=torch.float64)[:, None]
    means = lengths * torch.randn(4, 30, generator=rng, dtype=torch.float64) + 1.0

    def sample(mean: torch.Tensor) -> Sample:
        z = mean + noise * torch.randn(64, 30, generator=rng, dtype=torch.float64)
        return Sample(z, torch.arange(64))

    target = torch.tensor(planted, dtype=torch.float64) @ means
    return match([measured_round([sample(m) for m in means], sample(target))])


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
    again = shorter_step(found, 1.0, lambda w: found.scale * effective_shares(w, rates, 0.5))
    once = shorter_step(found, 1.0)

    def loss(weights: torch.Tensor) -> float:
        u = found.scale * effective_shares(weights, rates, 0.5)
        return float(u @ found.gram @ u / 2 - found.cross @ u)

    assert loss(again) < loss(once)


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
