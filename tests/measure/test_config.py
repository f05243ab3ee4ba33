"""What a search's options refuse."""

from __future__ import annotations

import pytest
from bydore_pyro.search.config import SearchConfig


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"evidence": "linear", "guide_warmup": 400}, r"guide_warmup in \[0, steps = 400\)"),
        ({"check_sequences": 1}, "check_sequences 0 or >= 2"),
        ({"steps": 5}, "at least one step per round, actual 2 steps .* for 3 rounds"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SearchConfig(**options)


def test_rounds_are_spread_evenly_and_end_with_the_search() -> None:
    assert SearchConfig().trained_steps == 168
    assert SearchConfig().measured_steps == (56, 112, 168)
    assert SearchConfig(steps=3, train_share=1.0).measured_steps == (1, 2, 3)
    assert SearchConfig(evidence="linear", steps=70).trained_steps == 70
    for steps in range(8, 60):
        config = SearchConfig(steps=steps, rounds=3)
        assert len(set(config.measured_steps)) == 3
        assert config.measured_steps[0] >= 1
        assert config.measured_steps[-1] == config.trained_steps


def test_many_domains_are_measured_on_fewer_sequences() -> None:
    config = SearchConfig()
    for domains, expected in ((2, 128), (64, 128), (100, 81), (512, 16), (10_000, 16)):
        assert config.sequences_of_round(domains) == expected
    assert SearchConfig(round_sequences=4).sequences_of_round(10_000) == 4
    assert SearchConfig(evidence="linear").measured_sequences(10) == 0
    assert config.measured_sequences(4) == 3 * 128 + 32
