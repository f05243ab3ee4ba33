"""Options of a target's training."""

from __future__ import annotations

import pytest

from bydore_pyro.target.config import TargetConfig


def test_the_length_is_rounded_up_to_whole_steps() -> None:
    config = TargetConfig(tokens="1000", sequence_length=10, target_batch_sequences=8)
    assert config.steps == 13
    assert config.sequences == 104
    large = TargetConfig(tokens="150B")
    assert large.steps == 143_052
    assert large.sequences * 2048 >= 150e9


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("tokens", "many", "Expected tokens such as"),
        ("sequence_length", 1, "Expected sequence_length >= 2, actual 1"),
        ("target_batch_sequences", 0, "Expected target_batch_sequences >= 1"),
        ("device_batch_sequences", 0, "Expected device_batch_sequences >= 1"),
        ("learning_rate", 0.0, "Expected learning_rate > 0"),
        ("learning_rate", float("nan"), "Expected a finite learning_rate"),
        ("final_learning_rate", 1.1, "Expected final_learning_rate in"),
        ("warmup_share", -0.1, "Expected warmup_share in"),
        ("weight_decay", -1.0, "Expected weight_decay in"),
        ("max_gradient_norm", 0.0, "Expected max_gradient_norm > 0"),
        ("max_epochs", 0.0, "Expected max_epochs > 0"),
        ("device", "tpu", "Expected device 'cuda' or 'cpu', actual 'tpu'"),
        ("precision", "float16", "Expected precision"),
        ("loader_workers", -1, "Expected loader_workers >= 0"),
        ("loader_workers", 99_999, "Expected loader_workers <= 64, actual 99999"),
        ("log_every", 0, "Expected log_every >= 1"),
        ("save_every", 0, "Expected save_every >= 1"),
        ("kept_checkpoints", 0, "Expected kept_checkpoints >= 1"),
        ("log", "wandb", "Expected log"),
        ("seed", -1, "Expected seed in"),
    ],
)
def test_bad_options_are_refused(field: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TargetConfig(**{field: value})  # type: ignore[arg-type]


def test_a_cpu_shards_nothing() -> None:
    with pytest.raises(ValueError, match="Expected device 'cuda' with fsdp, actual 'cpu'"):
        TargetConfig(fsdp=True, device="cpu")
