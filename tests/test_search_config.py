"""What a search's options refuse."""

from __future__ import annotations

import pytest

from bydore_pyro.search_config import SearchConfig


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
        ({"kl": "median"}, "kl one of"),
        ({"kl_scale": "log"}, "kl_scale one of"),
        ({"epsilon_rule": "newton"}, "epsilon_rule one of"),
    ],
)
def test_bad_configurations_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SearchConfig(**options)
