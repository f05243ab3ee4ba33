"""Trainings of a tiny model that take a second."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import LlamaConfig, TrainerCallback

from bydore_pyro.data.store import TokenStore
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.training.config import TargetConfig
from bydore_pyro.training.stages import Stages
from bydore_pyro.training.training import train_target

WEIGHTS = {"birds": 0.5, "digits": 0.3, "greek": 0.15, "upper": 0.05}


def tiny_shape() -> LlamaConfig:
    """A Llama of 0.04 million parameters."""
    return LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )


def mixture_for(store: TokenStore) -> Mixture:
    """Weights of the four domains, for the store's tokenizer."""
    return Mixture(
        names=tuple(WEIGHTS), weights=tuple(WEIGHTS.values()), tokenizer=store.tokenizer_sha256
    )


def tiny_config(**fields: Any) -> TargetConfig:
    """12 steps of 8 x 32 tokens on a CPU, with a checkpoint every 4."""
    given = {
        "tokens": "3072",
        "sequence_length": 32,
        "target_batch_sequences": 8,
        "device_batch_sequences": 4,
        "learning_rate": 1e-2,
        "device": "cpu",
        "loader_workers": 0,
        "log_every": 1,
        "save_every": 4,
    }
    return TargetConfig(**{**given, **fields})


def train(store: TokenStore, out: Path, *, resume: bool = False, **rest: Any) -> dict[str, Any]:
    """Trains the tiny model on the four domains; `rest` are options, or `callbacks`."""
    callbacks = rest.pop("callbacks", ())
    stages = rest.pop("stages", None) or Stages.constant(mixture_for(store))
    return train_target(
        rest.pop("model", tiny_shape()),
        store,
        stages,
        tiny_config(**rest),
        out,
        resume=resume,
        callbacks=callbacks,
    )


def weights_in(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def same_bits(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


class StopAt(TrainerCallback):
    """Breaks off a training behind a step, as a signal would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        if state.global_step == self.step:
            raise KeyboardInterrupt


class SignalAt(TrainerCallback):
    """Sends this process a signal twice in a step, as `timeout` does."""

    def __init__(self, step: int, number: int) -> None:
        self.step, self.number, self.saved = step, number, 0

    def on_step_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        if state.global_step + 1 == self.step:
            os.kill(os.getpid(), self.number)
            os.kill(os.getpid(), self.number)

    def on_save(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        self.saved += 1
