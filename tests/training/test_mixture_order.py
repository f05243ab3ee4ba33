"""The order of domains: exact shares at every point, whatever the weights."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from bydore_pyro.training.mixture_order import MixtureOrder
from bydore_pyro.training.mixture_schedule import MixtureSchedule

from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.training import mixture_order

ROUNDING = 1e-9  # shares are rounded to parts of 2^44, the tests' sums to a float


def schedule_of(*rows: np.ndarray, ends: tuple[float, ...] = (1.0,)) -> MixtureSchedule:
    names = tuple(f"d{k:02}" for k in range(len(rows[0])))
    mixtures = (Mixture(names=names, weights=tuple(row.tolist())) for row in rows)
    return MixtureSchedule(ends=ends, mixtures=tuple(mixtures))


def domains_of(order: MixtureOrder, start: int, stop: int) -> np.ndarray:
    return np.array([order.locate(n)[0] for n in range(start, stop)])


def deviation(schedule: MixtureSchedule, sequences: int) -> float:
    """The largest |count - quota| of any domain at any point, quotas summed up step by step."""
    order = MixtureOrder(schedule, sequences)
    domains = domains_of(order, 0, sequences)
    counts = np.cumsum(np.eye(len(order.names))[domains], 0)  # (N, K)
    starts = [round(end * sequences) for end in (0.0, *schedule.ends)]
    quotas = np.cumsum(np.repeat(schedule.weights, np.diff(starts), axis=0), 0)
    assert counts[-1].sum() == sequences
    return float(np.abs(counts - quotas).max())


def random_weights(rng: np.random.Generator, count: int) -> np.ndarray:
    weights = rng.dirichlet(np.full(count, rng.choice([0.05, 0.3, 1.0, 10.0])))
    weights[rng.random(count) < 0.2] = 0.0
    weights[0] = rng.choice([1e-6, 0.1, 1.0])
    return weights / weights.sum()


@pytest.mark.parametrize("seed", range(40))
def test_no_count_is_off_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(mixture_order, "CHUNK", int(rng.choice([7, 64, 1000])))
    count, stages = int(rng.integers(1, 65)), int(rng.integers(1, 5))
    ends = (*sorted(rng.random(stages - 1).tolist()), 1.0)
    schedule = schedule_of(*(random_weights(rng, count) for _ in range(stages)), ends=ends)
    assert deviation(schedule, int(rng.integers(50, 700))) < 1 + ROUNDING


@pytest.mark.parametrize(
    "weights",
    [
        [1.0],
        [1 - 1e-6, 1e-6],
        [1e-6] * 63 + [1 - 63e-6],
        [1 / 3, 1 / 3, 1 / 3],
        [1 / 64] * 64,
        [0.5, 0.25, 0.125, 0.0625, 0.0625],
        [0.98, 0.01, 0.01, 0.0],
    ],
)
def test_extreme_weights(weights: list[float]) -> None:
    assert deviation(schedule_of(np.array(weights)), 3000) < 1 + ROUNDING


def test_many_sequences() -> None:
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(64))
    order = MixtureOrder(schedule_of(weights), 10**9)
    for n in (1, 1000, 2**16, 2**16 + 1, 200_000):
        assert np.abs(order.counts(n) - n * weights).max() < 1 + ROUNDING
        np.testing.assert_allclose(order.quotas(n), n * weights, rtol=0, atol=1e-6)


def test_quotas_are_exact_far_out() -> None:
    """A float would be off by a thousandth there; parts of 2^44 sum to the whole."""
    order = MixtureOrder(schedule_of(np.array([1 / 3, 1 / 3, 1 / 3])), 2**40)
    assert [int(rates.sum()) for rates in order._rates] == [mixture_order.PARTS]
    exact = Fraction(int(order._rates[0][0]), mixture_order.PARTS) * 2**40
    assert order.quotas(2**40)[0] == pytest.approx(float(exact), abs=1e-3)


def test_domains_without_weight_never_come() -> None:
    order = MixtureOrder(schedule_of(np.array([0.5, 0.0, 0.5])), 100)
    assert order.names == ("d00", "d02")
    later = schedule_of(np.array([1.0, 0.0]), np.array([0.5, 0.5]), ends=(0.5, 1.0))
    domains = domains_of(MixtureOrder(later, 1000), 0, 1000)
    assert not domains[:500].any()
    assert domains[500:].mean() == 0.5


def test_every_look_shows_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    rows = [random_weights(rng, 9) for _ in range(3)]
    schedule = schedule_of(*rows, ends=(0.4, 0.45, 1.0))
    whole = MixtureOrder(schedule, 500)
    domains = domains_of(whole, 0, 500)
    monkeypatch.setattr(mixture_order, "CHUNK", 64)
    order = MixtureOrder(schedule, 500)
    for n in (499, 3, 128, 127, 64, 0, 320):  # backwards and forwards, over the chunks' borders
        domain, place = order.locate(n)
        assert (domain, place) == (domains[n], (domains[:n] == domains[n]).sum())
        expected = np.bincount(domains[:n], minlength=len(order.names))
        np.testing.assert_array_equal(order.counts(n), expected)
    assert len(order) == order.sequences == 500
    longer = MixtureOrder(schedule_of(rows[0]), 10**8)
    shorter = MixtureOrder(schedule_of(rows[0]), 300)
    np.testing.assert_array_equal(domains_of(longer, 0, 300), domains_of(shorter, 0, 300))


def test_the_order_of_names_does_not_matter() -> None:
    one = Mixture(names=("a", "b", "c"), weights=(0.2, 0.3, 0.5))
    other = Mixture(names=("c", "a", "b"), weights=(0.5, 0.2, 0.3))
    schedules = (MixtureSchedule.constant(mixture) for mixture in (one, other))
    orders = [domains_of(MixtureOrder(schedule, 200), 0, 200) for schedule in schedules]
    np.testing.assert_array_equal(*orders)


def test_bad_places_are_refused() -> None:
    schedule = schedule_of(np.array([0.5, 0.5]))
    for n in (-1, 10):
        with pytest.raises(IndexError, match="Expected a sequence in"):
            MixtureOrder(schedule, 10).locate(n)
    for sequences in (0, 2**40 + 1):
        with pytest.raises(ValueError, match="Expected a sequence for each of"):
            MixtureOrder(schedule, sequences)
