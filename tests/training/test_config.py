"""Options of a target's training."""

from __future__ import annotations

import pytest
import torch

from bydore_pyro.training.config import TargetConfig


def test_the_length_is_rounded_up_to_whole_steps() -> None:
    assert TargetConfig(tokens="1000", sequence_length=10, target_batch_sequences=8).steps == 13
    assert TargetConfig(tokens="150B").steps == 143_052
    with pytest.raises(ValueError, match="Expected tokens such as"):
        TargetConfig(tokens="many")


def test_auto_takes_a_gpu_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not TargetConfig(device="cpu").on_gpu
    assert TargetConfig(device="cuda").on_gpu
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert not TargetConfig(device="auto").on_gpu
