"""What a search's options refuse."""

from __future__ import annotations

import warnings

import pytest

from bydore_pyro.runs.options import SMOKE
from bydore_pyro.search.config import SearchConfig


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps >= 1"),
        ({"batch_sequences": 0}, "batch_sequences >= 1"),
        ({"kl_weight": 0.0}, "kl_weight in"),
        ({"tolerance": float("nan")}, "finite tolerance"),
        ({"signal_average": 1.0}, "signal_average in"),
        ({"average_from": -0.1}, "average_from in"),
        ({"tolerance": -1.0}, "tolerance >= 0"),
        ({"guide_warmup": 400}, "guide_warmup in"),
        ({"guide_learning_rate_decay": 0.0}, "guide_learning_rate_decay in"),
        ({"moment": "median"}, "moment one of"),
        ({"evidence": "none"}, "evidence one of"),
        ({"kl": "median"}, "kl one of"),
        ({"kl_scale": "log"}, "kl_scale one of"),
        ({"epsilon_rule": "newton"}, "epsilon_rule one of"),
    ],
)
def test_bad_configurations_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SearchConfig(**{"evidence": "linear", **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps >= 1"),
        ({"rounds": 0}, "rounds >= 1"),
        ({"train_share": 0.0}, r"train_share in \(0, 1\]"),
        ({"train_share": 1.1}, r"train_share in \(0, 1\]"),
        ({"round_sequences": 1}, "round_sequences >= 2"),
        ({"sketch_size": 0}, "sketch_size >= 1"),
        ({"inference_steps": 0}, "inference_steps >= 1"),
        ({"check_sequences": 1}, "check_sequences 0 or >= 2"),
        ({"check_sequences": -1}, "check_sequences >= 0"),
        ({"steps": 5}, "at least one step per round, actual 2 steps .* for 3 rounds"),
        ({"learner": "lucky"}, "learner one of"),
        ({"strategy": "none"}, "strategy one of"),
    ],
)
def test_bad_configurations_of_matching_are_refused(options: dict, message: str) -> None:
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
    # An equal share at first, then what a domain with all the weight gets, and the check.
    assert config.measured_sequences(4) == 128 + 2 * 320 + 32


def test_the_defaults_warn_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        SearchConfig()
        SearchConfig(evidence="linear")
        smoke = {k: v for k, v in SMOKE.items() if k in SearchConfig.__dataclass_fields__}
        SearchConfig(**smoke)
        SearchConfig(evidence="linear", **smoke)
