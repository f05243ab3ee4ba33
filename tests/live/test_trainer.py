"""`transformers.Trainer` trains on a live mixture and measures it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny import random_store
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

from bydore_pyro.data.domains import Domains
from bydore_pyro.live.live_mixture import LiveMixture
from bydore_pyro.live.trainer import LiveCallback, LiveDataset


def live_of() -> LiveMixture:
    domains = Domains(
        random_store(tokens=12800, documents=100),
        {"a": 1.0},
        sequence_length=16,
        validation_sequences=64,
        measured=40,
    )
    return LiveMixture(domains, first=2, sequences=8)


def test_the_trainer_moves_to_what_is_found(tmp_path: Path) -> None:
    torch.manual_seed(0)
    live = live_of()
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=24, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
            num_attention_heads=2, max_position_embeddings=16,
        )
    )  # fmt: skip
    arguments = TrainingArguments(
        output_dir=str(tmp_path), max_steps=8, per_device_train_batch_size=4, use_cpu=True,
        gradient_accumulation_steps=2, report_to="none", save_strategy="no", disable_tqdm=True,
        learning_rate=1e-2,
    )  # fmt: skip
    Trainer(
        model=model, args=arguments, train_dataset=LiveDataset(live), callbacks=[LiveCallback(live)]
    ).train()
    assert [one.step for one in live.rounds] == [2, 4], "not after the last step"
    assert live.weights["a"] > 0.85
    taken = live.state()["order"][1]
    assert sum(taken) == pytest.approx(8 * 8, abs=8), "and what was read ahead"
    assert taken[0] > 30


def test_workers_are_refused() -> None:
    loader = DataLoader(LiveDataset(live_of()), num_workers=1)
    with pytest.raises(ValueError, match="dataloader_num_workers=0"):
        next(iter(loader))
