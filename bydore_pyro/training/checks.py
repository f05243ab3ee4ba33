"""What is checked before a training starts: mixture, text, length, device and batch."""

from __future__ import annotations

import torch

from bydore_pyro import data
from bydore_pyro.command_line import number_of_tokens
from bydore_pyro.errors import DataError, distinct, require
from bydore_pyro.training.config import TargetConfig
from bydore_pyro.training.stages import Stages

ROUNDING = 1e-9  # of the product of a weight and a length


def device_batch(config: TargetConfig, processes: int) -> tuple[int, int]:
    """Returns how many sequences a device takes at once, at most `device_batch_sequences`, and how
    often in a step.

    Raises:
        ValueError: When the processes cannot share a step's sequences equally.
    """
    each, rest = divmod(config.target_batch_sequences, processes)
    if rest:
        raise ValueError(
            f"Expected --target_batch_sequences that {processes} processes share equally, found "
            f"{config.target_batch_sequences}"
        )
    largest = min(config.device_batch_sequences, each)
    size = next(size for size in range(largest, 0, -1) if each % size == 0)
    return size, each // size


def check_training(store: data.TokenStore, stages: Stages, config: TargetConfig) -> None:
    """Checks that a training can run here, and that mixture, text and length go together.

    Args:
        store: The text.
        stages: The mixtures.
        config: How the model is trained.

    Raises:
        DataError: When a package is missing, a mixture has domains that the store lacks or is for
            another tokenizer, or the text of a domain would be read more than `max_epochs` times.
        ValueError: When there is no GPU where one is asked for.

    Warns:
        UserWarning: When the weights of another tokenizer are accepted.
    """
    for package in ("accelerate", *([config.report_to] if config.report_to != "none" else [])):
        require(package, "target")
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("Expected a CUDA device, found none: --device cpu trains on the CPU")
    own = store.tokenizer_sha256
    for mixture in stages.mixtures:
        if mixture.tokenizer not in (None, own) and not config.other_tokenizer:
            raise DataError(
                f"Expected weights for the tokenizer of {store.folder} ({own[:12]}), found weights "
                f"for another ({mixture.tokenizer[:12]}): --other_tokenizer accepts them unchanged"
            )
        mixture.check(store.names, own, "the mixture")
    _check_epochs(store, stages, config)


def _check_epochs(store: data.TokenStore, stages: Stages, config: TargetConfig) -> None:
    """Refuses to read a text more than `max_epochs` times: the tokens that were asked for, divided
    by those of the text, as in a search. Whole steps of whole sequences may add a little."""
    shares, tokens = stages.shares(), number_of_tokens(config.tokens)
    texts = {name: len(store.train[name]) for name in shares if len(store.train[name])}
    epochs = {name: tokens * shares[name] / size for name, size in texts.items()}
    worst = max(epochs, key=lambda name: epochs[name], default=None)
    if worst is not None and epochs[worst] > config.max_epochs * (1 + ROUNDING):
        allowed, found = distinct(config.max_epochs, epochs[worst])
        sample = ", of which the store holds a sample," if store.in_all(worst) else ""
        raise DataError(
            f"Expected to read the text of a domain at most {allowed} times (--max_epochs), found "
            f"'{worst}'{sample} {found} times with weight {shares[worst]:.3g}; --tokens "
            f"{0.95 * tokens * config.max_epochs / epochs[worst]:.1e} would fit"
        )
