"""The size of a domain out of a sample, and how far it is off."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bydore_pyro.data.sizes import Sizes


def sized(clusters: list[tuple[int, int]], total: int) -> dict[str, int | None] | None:
    sizes = Sizes()
    for number, (size, tokens) in enumerate(clusters):
        sizes.add(number, "a", tokens)
        sizes.end(number, "a", size)
    sizes.close(len(clusters))
    return sizes.of("a", "a", total)


def test_the_ratio_estimate() -> None:
    assert sized([(100, 20), (300, 80)], 4000) == {
        "tokens": 1000,
        # R = 1/4, residuals -5 and 5: 10 sqrt(0.9 x 2 x 50), rounded
        "standard_error": round(10 * np.sqrt(0.9 * 2 * 50)),
    }
    assert sized([(100, 20)], 4000) == {"tokens": 800, "standard_error": None}
    assert sized([(100, 20), (300, 80)], 400) is None, "all was read"
    assert sized([], 400) is sized([(5, 0)], 400) is None, "nothing is known"


def test_the_error_is_that_of_repeated_samples() -> None:
    rng = np.random.default_rng(0)
    size = rng.integers(500, 1500, 400)
    tokens = (size * rng.gamma(30, 1 / 120, 400)).astype(int)
    found = []
    for _ in range(400):
        chosen = rng.permutation(400)[:40]
        pairs = list(zip(size[chosen].tolist(), tokens[chosen].tolist(), strict=True))
        estimate = sized(pairs, int(size.sum()))
        assert estimate is not None
        found.append((estimate["tokens"], estimate["standard_error"]))
    estimates, errors = np.array(found, float).T
    assert estimates.mean() == pytest.approx(tokens.sum(), rel=0.01)
    assert errors.mean() == pytest.approx(estimates.std(), rel=0.1)
    covered = np.abs(estimates - tokens.sum()) < 1.96 * errors
    assert 0.92 < covered.mean() < 0.98


def test_sums_go_on_from_their_state_and_leave_out_what_was_not_read_whole() -> None:
    whole, sizes = Sizes(), Sizes()
    for number in range(6):
        if number == 4:
            sizes.close(number)
            sizes = Sizes(json.loads(json.dumps(sizes.state())))
        for one in (whole, sizes):
            for name in "ab"[: 1 + number % 2]:
                one.add(number, name, 10 * number + 5)
            if number != 3:
                one.end(number, "", 100 + number)
    for one in (whole, sizes):
        one.close(6)
    assert whole.state() == sizes.state()
    assert whole.of("b", "", 10**4) == sizes.of("b", "", 10**4)
    total = (100 + 101 + 102 + 104 + 105) / 10**4
    assert sizes.of("b", "", 10**4)["tokens"] == round((15 + 55) / total)  # type: ignore[index]
