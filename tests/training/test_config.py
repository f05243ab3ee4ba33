"""Options of a target's training."""

from __future__ import annotations

import pytest

from bydore_pyro.training.config import TargetConfig


def test_the_length_is_rounded_up_to_whole_steps() -> None:
    assert TargetConfig(tokens="1000", sequence_length=10, target_batch_sequences=8).steps == 13
    assert TargetConfig(tokens="150B").steps == 143_052
    with pytest.raises(ValueError, match="Expected tokens such as"):
        TargetConfig(tokens="many")
