"""Language models: from a Hugging Face configuration to fresh weights, and to their losses."""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from bydore_pyro.errors import DataError, expecting

if TYPE_CHECKING:
    from transformers import PretrainedConfig

PACKAGE = Path(__file__).resolve().parents[1]  # models/ lies beside it in a checkout, else in it
OURS = "models"  # the folder of our own models
# In the config.json of a model that was trained here: tokens of a sequence.
TRAINED_LENGTH = "trained_sequence_length"
MAX_LOGITS = 2**26  # held at once; 256 MiB in float32


def model_source(named: str) -> str:
    """Returns the folder of a model or its hub name; our own models are found from any folder."""
    places = [Path(named)]
    if places[0].parent.name == OURS:  # not the folders of the package itself
        places += [PACKAGE.parent / named, PACKAGE / named]
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


def load_language_model(folder: str, vocabulary: int) -> nn.Module:
    """Loads a trained Hugging Face causal language model, in float32, from safetensors.

    Args:
        folder: Of the model, or its hub name. Code that comes with a model is never run.
        vocabulary: Tokens of the tokenizer; the model may have more, where it was padded.

    Raises:
        DataError: When there is no such model, its weights are quantised or not exactly those of
            its configuration, or it knows fewer tokens.
    """

    # Gradients cannot be taken of packed weights; many kinds of them need a package or a GPU.
    if getattr(read_model_config(folder), "quantization_config", None) is not None:
        raise DataError(
            f"Expected weights that are not quantised, found a quantization_config in {folder}"
        )
    with expecting(f"Expected the weights of {folder} as safetensors, found:"):
        model = load_weights(folder, dtype=torch.float32)
    if model.config.vocab_size < vocabulary:
        raise DataError(
            f"Expected a model of the text's {vocabulary} tokens, found {model.config.vocab_size} "
            f"in {folder}"
        )
    return model


def load_weights(folder: str | Path, **options: Any) -> Any:
    """Loads a causal language model whose files hold exactly the weights of its configuration.

    Args:
        folder: Of the model, or its hub name.
        options: Further ones for `from_pretrained`.

    Raises:
        ValueError: When a weight is missing, has another shape, is not used or is not finite.
        OSError, RuntimeError, SafetensorError: When there are no such files or they are damaged.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    before, shown = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # it reports in a table what is refused here in a line
    logging.disable_progress_bar()
    try:
        model, about = AutoModelForCausalLM.from_pretrained(
            folder,
            trust_remote_code=False,
            use_safetensors=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            **options,
        )
    finally:
        logging.set_verbosity(before)
        if shown:
            logging.enable_progress_bar()
    if others := sorted(about["mismatched_keys"]):
        name, *shapes = others[0]
        found, expected = map(tuple, shapes)
        raise ValueError(f"{name} of shape {found}, of which config.json makes {expected}")
    if lost := sorted(about["missing_keys"]):
        raise ValueError(f"no weights for {lost[0]}")
    if unused := sorted(about["unexpected_keys"]):
        raise ValueError(f"{unused[0]}, which the model of config.json does not use")
    if broken := [name for name, p in model.named_parameters() if not torch.isfinite(p).all()]:
        raise ValueError(f"NaN or infinity in {broken[0]}")
    return model


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


def configuration_of(model: str | Path) -> dict[str, Any]:
    """Returns what a model's `config.json` says, without who wrote it: plain values by name.

    Raises:
        DataError: When there is none.
    """
    from transformers import PretrainedConfig

    with _of_a_language_model(model):
        content, _ = PretrainedConfig.get_config_dict(str(model))
    writer = ("transformers_version", "_")
    return {name: content[name] for name in sorted(content) if not name.startswith(writer)}


def _of_a_language_model(model: str | Path | PretrainedConfig) -> AbstractContextManager[None]:
    named = model if isinstance(model, str | Path) else type(model).__name__
    return expecting(
        "Expected the configuration of a causal language model: a folder with config.json or a "
        f"hub name, found '{named}':"
    )


class TokenLosses(nn.Module):
    """``input_ids (B, T) -> losses of the tokens from the second on (B, T - 1)``, nats.

    Where the logits ``(B, T, V)`` would be many, the unembedding and the loss are computed in
    chunks of tokens, and again in the backward pass; no more than 2^26 logits exist at a time.
    That needs a Hugging Face model whose logits are its output embeddings of its last hidden state;
    whether they are is tried out once. Other models give all logits at once.

    On a GPU, losses that a gradient will be taken of are computed by liger-kernel's fused kernel,
    which leaves the gradient in the place of the logits, if it is installed.

    Args:
        language_model: Called with `input_ids`, it returns an object with `logits`, or logits.
        liger: Whether the fused kernel may be used.
    """

    def __init__(self, language_model: nn.Module, *, liger: bool = True) -> None:
        super().__init__()
        self.language_model: Any = language_model
        self._liger = liger and find_spec("liger_kernel") is not None
        self._splits: bool | None = None  # whether the logits can be had from the hidden states

    def forward(self, input_ids: Tensor) -> Tensor:
        """Returns the losses ``(B, T - 1)``, in float32 or the model's type if that is wider."""
        # The last position has no target; marking it costs less than slicing it off the logits.
        targets = nn.functional.pad(input_ids[:, 1:], (0, 1), value=-100).flatten()
        vocabulary = getattr(getattr(self.language_model, "config", None), "vocab_size", 0)
        chunk = max(1, MAX_LOGITS // max(vocabulary, 1))  # tokens
        if targets.numel() > chunk and self._can_split(input_ids):
            losses = self._in_chunks(input_ids, targets, chunk)
        else:
            output = self.language_model(input_ids=input_ids)
            logits = getattr(output, "logits", output)  # (B, T, V)
            losses = self._cross_entropy(logits.flatten(0, 1), targets)
        return losses.view(input_ids.shape)[:, :-1]

    def _in_chunks(self, input_ids: Tensor, targets: Tensor, chunk: int) -> Tensor:
        hidden = self._hidden(input_ids).flatten(0, 1)  # (B T, D)
        parts = []
        for states, aims in zip(hidden.split(chunk), targets.split(chunk), strict=True):
            if torch.is_grad_enabled():
                parts.append(checkpoint(self._of_hidden, states, aims, use_reentrant=False))
            else:
                parts.append(self._of_hidden(states, aims))
        return torch.cat(parts)

    def _hidden(self, input_ids: Tensor) -> Tensor:
        return self.language_model.base_model(input_ids=input_ids).last_hidden_state

    def _of_hidden(self, states: Tensor, targets: Tensor) -> Tensor:
        return self._cross_entropy(self.language_model.get_output_embeddings()(states), targets)

    def _can_split(self, input_ids: Tensor) -> bool:
        """Whether the logits are the output embeddings of the last hidden state."""
        if self._splits is None:
            model, few = self.language_model, input_ids[:1, :8]
            embeddings = getattr(model, "get_output_embeddings", lambda: None)()
            self._splits = False
            if embeddings is not None and model.base_model is not model:
                with torch.no_grad():
                    logits = model(input_ids=few).logits
                    again = embeddings(self._hidden(few))
                self._splits = logits.shape == again.shape and torch.equal(logits, again)
        return self._splits

    def _cross_entropy(self, logits: Tensor, targets: Tensor) -> Tensor:
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        # Perturbed losses have no gradient and stay torch's own; the kernel knows no float64.
        wanted = logits.requires_grad and logits.dtype == torch.float32
        if self._liger and wanted and _on_gpu(logits):
            from liger_kernel.transformers import LigerCrossEntropyLoss

            return LigerCrossEntropyLoss(ignore_index=-100, reduction="none")(logits, targets)
        return nn.functional.cross_entropy(logits, targets, ignore_index=-100, reduction="none")


def _on_gpu(logits: Tensor) -> bool:
    return logits.is_cuda
