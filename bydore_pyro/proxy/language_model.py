"""Which language model is trained: a Hugging Face configuration becomes fresh weights."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from bydore_pyro.utils import DataError, one_line

if TYPE_CHECKING:
    from transformers import PretrainedConfig

__all__ = ["build_language_model", "model_source", "read_model_config"]

PACKAGE = Path(__file__).resolve().parents[1]  # models/ lies beside it in a checkout, else in it


def model_source(named: str) -> str:
    """Returns the folder of a model, also of one of ours from any other folder, or its hub name."""
    places = (Path(named), PACKAGE.parent / named, PACKAGE / named)
    return str(next((place for place in places if place.is_dir()), named))


def build_language_model(model: str | Path | PretrainedConfig, vocabulary: int) -> nn.Module:
    """Builds a Hugging Face causal language model with fresh weights.

    Args:
        model: A folder with a `config.json`, a hub name, or a configuration object. Code that comes
            with a model is never run.
        vocabulary: Tokens of the tokenizer; replaces the configuration's.

    Raises:
        DataError: When there is no such configuration, or it is not one of a causal language model.
    """
    from transformers import AutoModelForCausalLM

    config = copy.deepcopy(read_model_config(model))
    with _of_a_language_model(model):
        config.vocab_size = vocabulary
        # bf16 weights would round the finite difference's perturbation away.
        return AutoModelForCausalLM.from_config(
            config, trust_remote_code=False, dtype=torch.float32
        )


def read_model_config(model: str | Path | PretrainedConfig) -> PretrainedConfig:
    """Reads the configuration that `build_language_model` builds from; builds nothing.

    Raises:
        DataError: When there is none, or it is not one of a causal language model.
    """
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig, PretrainedConfig

    if isinstance(model, PretrainedConfig):
        return model
    with _of_a_language_model(model):
        config = AutoConfig.from_pretrained(str(model), trust_remote_code=False)
        if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
            raise ValueError(f"{config.model_type} is none")
        return config


@contextmanager
def _of_a_language_model(model: str | Path | PretrainedConfig) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # whatever a wrong configuration makes of it
        if isinstance(error, MemoryError) or "failed to map segment" in str(error):
            raise  # no configuration is to blame for want of memory
        named = model if isinstance(model, str | Path) else type(model).__name__
        raise DataError(
            "Expected the configuration of a causal language model: a folder with config.json or a "
            f"hub name, found '{named}': {type(error).__name__}: {one_line(error)}"
        ) from error
