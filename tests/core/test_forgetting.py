"""Older evidence counts where the newest agrees with it, and is forgotten where it does not."""

from __future__ import annotations

import statistics

import pytest
from sampled_rounds import SHARES, SIZE, a_round, normal
from torch import Tensor

from bydore_pyro.core.forgetting import importance_of
from bydore_pyro.core.matching import RoundEvidence, match


def rounds_of(seed: int, *, changed: bool, count: int) -> list[RoundEvidence]:
    """Two rounds at different parameters of a model, between which the target may change."""
    early, late = (0.3 * normal(4, SIZE, seed=place) for place in (0, 1))
    before = SHARES.flip(0) if changed else SHARES
    first = a_round(early, before, seed, count=count)
    return [first, a_round(late, SHARES, seed + 1000, count=count)]


def importance(*, changed: bool, count: int) -> list[float]:
    return [importance_of(rounds_of(n, changed=changed, count=count))[0] for n in range(1, 41)]


def test_rounds_that_agree_add_up() -> None:
    for count in (12, 48):
        found = importance(changed=False, count=count)
        assert statistics.median(found) > 0.8
        assert statistics.mean(found) > 0.6


def test_what_has_changed_is_forgotten_the_surer_the_more_was_measured() -> None:
    few, many = (importance(changed=True, count=count) for count in (24, 96))
    assert max(many) < 0.2
    assert statistics.mean(many) < 0.5 * statistics.mean(few)


def test_it_is_the_nats_that_the_older_optimum_loses() -> None:
    rounds = rounds_of(3, changed=True, count=48)
    newest, older = match(rounds[1:]), match(rounds[:1])

    def height(u: Tensor) -> float:
        return float(newest.linear @ u - u @ newest.precision @ u / 2)

    lost = height(newest.optimum) - height(older.optimum)
    free = int((newest.optimum > 0).sum())
    assert importance_of(rounds) == pytest.approx([free / lost, 1.0])


def test_the_newest_round_always_counts() -> None:
    assert importance_of(rounds_of(1, changed=True, count=12)[:1]) == [1.0]
    assert importance_of(rounds_of(1, changed=True, count=12)[:1] * 3) == [1.0] * 3
