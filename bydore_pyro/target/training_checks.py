"""What is checked before a training starts: each failure is one line, and costs seconds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from bydore_pyro.data import TokenStore
from bydore_pyro.target.mixture_dataset import MixtureDataset
from bydore_pyro.target.mixture_schedule import MixtureSchedule
from bydore_pyro.utils import DataError, in_tokens

if TYPE_CHECKING:
    from transformers import PretrainedConfig

__all__ = [
    "check_epochs",
    "check_memory",
    "check_positions",
    "check_schedule",
    "device_batch",
    "memory_needed",
]

SHOWN = 4  # domains that a message names
STATE = 16  # bytes a parameter: weight, gradient and Adam's two moments, float32 each


def device_batch(batch: int, most: int, processes: int) -> tuple[int, int]:
    """Splits a batch among processes.

    Args:
        batch: Sequences of an optimiser's step, of all processes together.
        most: Most sequences that a device takes at once.
        processes: How many there are.

    Returns:
        Sequences that a device takes at once, the largest number up to `most` that fits, and how
        often it does so in a step. Their product with `processes` is `batch`.

    Raises:
        ValueError: When the batch cannot be shared equally.
    """
    if batch % processes:
        raise ValueError(
            f"Expected --target_batch_sequences that {processes} processes share equally, found "
            f"{batch}"
        )
    each = batch // processes
    size = next(size for size in range(min(most, each), 0, -1) if each % size == 0)
    return size, each // size


def check_schedule(schedule: MixtureSchedule, store: TokenStore, *, other_tokenizer: bool) -> None:
    """Holds a run's mixtures against the text that it is to be trained on.

    Args:
        schedule: The mixtures.
        store: The text.
        other_tokenizer: Whether weights of another tokenizer's tokens are taken, with a warning.

    Raises:
        DataError: When a domain that has weight is not in the store, or the weights are shares of
            another tokenizer's tokens.

    Warns:
        UserWarning: Where such weights are taken all the same.
    """
    own = store.tokenizer_sha256
    for mixture in schedule.mixtures:
        if mixture.tokenizer not in (None, own) and not other_tokenizer:
            raise DataError(
                f"Expected weights for the tokenizer of {store.folder} ({own[:12]}), found weights "
                f"for another ({mixture.tokenizer[:12]}): --other_tokenizer accepts them unchanged"
            )
        mixture.check(store.names, own, "the mixture")


def check_epochs(dataset: MixtureDataset, schedule: MixtureSchedule, most: float) -> None:
    """Checks that no text is read too often.

    Args:
        dataset: The run.
        schedule: Its mixtures.
        most: How many times the text of a domain may be read.

    Raises:
        DataError: With the domains that would be, and the length that fits.
    """
    shares = schedule.shares()
    over = {name: times for name, times in dataset.epochs().items() if times > most}
    if not over:
        return
    worst = sorted(over, key=lambda name: -over[name])
    told = [
        f"'{name}' {over[name]:.1f} times with weight {shares[name]:.3g}" for name in worst[:SHOWN]
    ]
    fits = len(dataset) * dataset.sequence_length * most / over[worst[0]]
    more = f" and {len(worst) - SHOWN} more" if len(worst) > SHOWN else ""
    raise DataError(
        f"Expected to read the text of a domain at most {most:g} times (--max_epochs), found "
        f"{', '.join(told)}{more}; --tokens {in_tokens(fits)} would fit"
    )


def check_positions(config: PretrainedConfig, sequence_length: int, model: str) -> None:
    """Checks that a model takes sequences of a length.

    Raises:
        DataError: When it does not.
    """
    longest = getattr(config, "max_position_embeddings", None)
    if longest is not None and sequence_length > longest:
        raise DataError(
            f"Expected sequence_length <= {longest}, the most that {model} takes, found "
            f"{sequence_length}"
        )


def memory_needed(
    model: nn.Module,
    batch: int,
    sequence_length: int,
    *,
    shards: int = 1,
    fused_loss: bool = False,
    recomputes: bool = False,
) -> float:
    """Returns roughly how many bytes a process needs for training.

    A parameter takes 16 bytes (weight, gradient, Adam's moments) and 2 for its bfloat16 copy. Of
    each token, a layer keeps about ``24 D + 8 I`` bytes for the backward pass (``D`` width, ``I``
    that of the feed-forward part), and the logits take 12 bytes for each of ``V`` words.

    Args:
        model: The model; it may be on the device `meta`.
        batch: Sequences that a device takes at once.
        sequence_length: ``T``, tokens in a sequence.
        shards: Processes among which parameters and their states are split.
        fused_loss: Whether the loss is computed without keeping the logits.
        recomputes: Whether layers keep their inputs alone and compute again.
    """
    config: Any = model.config
    parameters = sum(parameter.numel() for parameter in model.parameters())
    width = getattr(config, "hidden_size", 0)
    inner = getattr(config, "intermediate_size", None) or 4 * width
    layers = getattr(config, "num_hidden_layers", 0)
    layer = 24 * width + 8 * inner
    kept = layers * 4 * width + layer if recomputes else layers * layer
    logits = 0 if fused_loss else 12 * config.vocab_size
    return (STATE + 2) * parameters / shards + batch * sequence_length * (kept + logits)


def check_memory(needed: float, device: torch.device, processes: int) -> None:
    """Checks that a training fits.

    Args:
        needed: Bytes, of a process.
        device: The kind of device: a process has what is free of its GPU, or its share of the main
            memory, used or not.
        processes: How many share the main memory.

    Raises:
        ValueError: When it does not.
    """
    if device.type == "cuda":
        free = float(torch.cuda.mem_get_info(int(os.environ.get("LOCAL_RANK", "0")))[0])
    else:
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / processes
    if needed > free:
        raise ValueError(
            f"Expected about {needed / 2**30:.1f} GiB of memory for each process, found "
            f"{free / 2**30:.1f}: a smaller --device_batch_sequences, --activation_checkpointing "
            "or, with several GPUs, --fsdp needs less"
        )
