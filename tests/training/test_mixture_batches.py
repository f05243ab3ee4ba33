"""The order of domains: within one sequence of the quota at every step, whatever the weights."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bydore_pyro.training.mixture_batches import MixtureState, begin, next_batch

ROUNDING = 1e-9


def deviation(weights: np.ndarray, batch: int) -> float:
    """The largest |sequences - quota| of any domain at any step; `weights` are of each ``(t, K)``.

    Quotas are summed up here, step by step.
    """
    state, counts = begin(weights.shape[1]), []
    for row in weights:
        found, state = next_batch(state, row, batch)
        assert found.min() >= 0
        assert found.sum() == batch
        counts.append(found)
    total, quota = np.cumsum(counts, 0), np.cumsum(batch * weights, 0)
    assert state.step == len(weights)
    assert not total[-1][~weights.any(0)].any(), "what has no weight never comes"
    assert state.taken == total[-1].tolist()
    np.testing.assert_allclose(state.carry, quota[-1] - total[-1], atol=1e-8)
    return float(np.abs(total - quota).max())


def random_weights(rng: np.random.Generator, count: int) -> np.ndarray:
    weights = rng.dirichlet(np.full(count, rng.choice([0.05, 0.3, 1.0, 10.0])))
    weights[rng.random(count) < 0.2] = 0.0
    weights[0] = rng.choice([1e-6, 0.1, 1.0])
    return weights / weights.sum()


@pytest.mark.parametrize("seed", range(30))
def test_every_count_is_within_one_sequence(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch, count = int(rng.choice([1, 2, 3, 8, 64, 512])), int(rng.integers(1, 65))
    weights = np.tile(random_weights(rng, count), (300, 1))
    assert deviation(weights, batch) < 1 + ROUNDING


@pytest.mark.parametrize(
    "weights",
    [
        [1.0],
        [1 - 1e-6, 1e-6],
        [1e-6] * 63 + [1 - 63e-6],
        [1 / 3, 1 / 3, 1 / 3],
        [1 / 64] * 64,
        [0.98, 0.01, 0.01, 0.0],
    ],
)
def test_extreme_weights(weights: list[float]) -> None:
    assert deviation(np.tile(weights, (2000, 1)), 1) < 1 + ROUNDING
    assert deviation(np.tile(weights, (300, 1)), 7) < 1 + ROUNDING


def test_the_first_due_keeps_within_one_where_the_largest_remainder_does_not() -> None:
    """Largest remainders are 1.2 sequences off with these weights."""
    parts = np.array([20, 4, 1, 1, 1, 1, 3, 25, 25, 3, 9, 1, 3])
    assert deviation(np.tile(parts / 97, (2 * 97, 1)), 1) < 1 + ROUNDING


@pytest.mark.parametrize("seed", range(20))
def test_weights_may_change_at_any_step(seed: int) -> None:
    """Within one where each domain is owed a whole sequence of every batch; else below two."""
    rng = np.random.default_rng(seed)
    count, batch = int(rng.integers(2, 17)), int(rng.choice([32, 100, 512]))
    every = int(rng.choice([1, 7, 100]))
    rows = np.array([random_weights(rng, count) for _ in range(-(-200 // every))])
    weights = np.repeat(rows, every, axis=0)[:200]
    share = count / batch
    assert deviation(share / count + (1 - share) * weights, batch) < 1 + ROUNDING
    assert deviation(weights, int(rng.choice([1, 2, 8, batch]))) < 2


def test_a_state_that_was_written_goes_on_with_the_same_order() -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(9))
    whole = resumed = begin(9)
    for _ in range(50):
        written = json.dumps(resumed._asdict())
        again, resumed = next_batch(MixtureState(**json.loads(written)), weights, 5)
        counts, whole = next_batch(whole, weights, 5)
        np.testing.assert_array_equal(again, counts)
        assert resumed == whole
