"""Options of a target's training."""

from __future__ import annotations

import pytest

from bydore_pyro.training.config import TargetConfig


def test_the_length_is_rounded_up_to_whole_steps() -> None:
    config = TargetConfig(tokens="1000", sequence_length=10, target_batch_sequences=8)
    assert config.steps == 13
    assert config.sequences == 104
    large = TargetConfig(tokens="150B")
    assert large.steps == 143_052
    assert large.sequences * 2048 >= 150e9


def test_the_length_is_a_number_of_tokens() -> None:
    with pytest.raises(ValueError, match="Expected tokens such as"):
        TargetConfig(tokens="many")


def test_a_cpu_shards_nothing() -> None:
    with pytest.raises(ValueError, match="Expected device 'cuda' with fsdp, actual 'cpu'"):
        TargetConfig(fsdp=True, device="cpu")
