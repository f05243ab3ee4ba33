"""What is checked before a training starts: mixture, text, length, device and batch."""

from __future__ import annotations

import torch

from bydore_pyro.command_line import number_of_tokens
from bydore_pyro.data import TokenStore
from bydore_pyro.errors import DataError, distinct, require
from bydore_pyro.terminal import tell
from bydore_pyro.training.config import TargetConfig
from bydore_pyro.training.order import MixtureDataset
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


def checked_dataset(store: TokenStore, stages: Stages, config: TargetConfig) -> MixtureDataset:
    """Returns the sequences of a training, after checking that it can run here, and that mixture,
    text and length go together.

    Args:
        store: The text.
        stages: The mixtures.
        config: How the model is trained.

    Raises:
        DataError: When a package is missing, a mixture has domains that the store lacks or is for
            another tokenizer, or the text of a domain is shorter than a sequence or would be read
            more than `max_epochs` times.
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
    dataset = MixtureDataset(store, stages.names, config.sequence_length, config.seed)
    _check_epochs(dataset, stages, config, store)
    return dataset


def _check_epochs(
    dataset: MixtureDataset, stages: Stages, config: TargetConfig, store: TokenStore
) -> None:
    """Refuses to read a text more than `max_epochs` times.

    The tokens that were asked for are divided by those of the text, as in a search, which knows
    neither steps nor sequences of this training. What these add is reported.
    """
    shares, tokens = stages.shares(), number_of_tokens(config.tokens)
    epochs = {n: tokens * shares[n] / len(store.train[n]) for n in dataset.names}
    worst = max(epochs, key=lambda name: epochs[name])
    if epochs[worst] > config.max_epochs * (1 + ROUNDING):
        allowed, found = distinct(config.max_epochs, epochs[worst])
        sample = ", of which the store holds a sample," if store.in_all(worst) else ""
        raise DataError(
            f"Expected to read the text of a domain at most {allowed} times (--max_epochs), found "
            f"'{worst}'{sample} {found} times with weight {shares[worst]:.3g}; --tokens "
            f"{0.95 * tokens * config.max_epochs / epochs[worst]:.1e} would fit"
        )
    sequences = config.steps * config.target_batch_sequences
    epochs = dataset.epochs({name: sequences * shares[name] for name in dataset.names})
    worst = max(epochs, key=lambda name: epochs[name])
    if epochs[worst] > config.max_epochs * (1 + ROUNDING):
        allowed, found = distinct(config.max_epochs, epochs[worst])
        tell(
            f"'{worst}' is read {found} times (--max_epochs {allowed}), because the run has whole "
            f"steps, {sequences * config.sequence_length:,} tokens in all, of whole sequences"
        )
