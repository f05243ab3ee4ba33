"""What is measured when, and what the options refuse."""

from __future__ import annotations

import pytest

from bydore_pyro.measure.config import MatchingConfig


def test_one_sequence_is_too_few_for_a_check() -> None:
    with pytest.raises(ValueError, match="check_sequences 0 or >= 2"):
        MatchingConfig(check_sequences=1)


def test_each_round_follows_half_the_steps_of_the_next() -> None:
    assert MatchingConfig().trial_steps == 120
    assert MatchingConfig().measured_steps == (100, 200, 400)
    assert MatchingConfig(steps=4).measured_steps == (1, 2, 4)
    assert MatchingConfig(steps=9, rounds=1).measured_steps == (9,)


def test_many_domains_are_measured_on_fewer_sequences() -> None:
    config = MatchingConfig()
    for domains, expected in ((2, 128), (64, 128), (100, 81), (512, 16), (10_000, 16)):
        assert config.sequences_of_round(domains) == expected
    assert MatchingConfig(round_sequences=4).sequences_of_round(10_000) == 4
    assert MatchingConfig(round_sequences=4).sequences_of_check(4) == 4
    assert config.measured_sequences(4) == 3 * 128 + 48 + 32


def test_branches_are_short_and_read_little_of_many_domains() -> None:
    config = MatchingConfig()
    assert config.steps_of_branch == 20
    assert MatchingConfig(steps=80).steps_of_branch == 10, "an eighth of the steps"
    assert MatchingConfig(steps=2).steps_of_branch == 1
    for domains, expected in ((2, 0), (3, 48), (42, 48), (100, 20), (1000, 4)):
        assert config.sequences_of_branches(domains) == expected
    assert [config.number_of_branches(k) for k in (2, 3, 13, 24, 100)] == [0, 3, 13, 24, 24]
    with pytest.raises(ValueError, match="branches 0 or >= 3, actual 2"):
        MatchingConfig(branches=2)
    assert MatchingConfig(branches=0).sequences_of_branches(4) == 0
    without = MatchingConfig(branches=0).measured_sequences(4)
    assert without == config.measured_sequences(4) - 48
