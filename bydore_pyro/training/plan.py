"""The plan of a training that has passed its checks: what will run, on what, and from where."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from bydore_pyro.command_line import number_of_tokens
from bydore_pyro.data import TokenStore, load_encoder
from bydore_pyro.errors import DataError, distinct, require
from bydore_pyro.proxy import build_language_model, number_of_processes
from bydore_pyro.terminal import tell
from bydore_pyro.training.checkpoints import belonging, last_checkpoint
from bydore_pyro.training.config import TargetConfig
from bydore_pyro.training.order import MixtureDataset, MixtureState, begin
from bydore_pyro.training.stages import Stages

if TYPE_CHECKING:
    from transformers import PretrainedConfig

CHECKPOINTS = "checkpoints"  # where they lie in the folder of a run
ROUNDING = 1e-9  # of the product of a weight and a length


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """What a training will do."""

    config: TargetConfig
    store: TokenStore
    model: PretrainedConfig  # with the text's vocabulary
    dataset: MixtureDataset
    stages: Stages
    processes: int
    device_batch: int  # sequences that a device takes at once
    accumulation: int  # how often it does so in a step
    belongs: Mapping[str, Any]  # what its checkpoints belong to
    checkpoint: Path | None  # what is gone on from
    state: MixtureState  # where the order of domains stands


def plan_training(
    model: str | Path | PretrainedConfig,
    store: TokenStore,
    stages: Stages,
    config: TargetConfig,
    resumed: Path | None,
) -> TrainingPlan:
    """Checks everything that can be checked before a long computation starts.

    Args:
        model: As `train_target` takes it; so are `store`, `stages` and `config`.
        resumed: The folder of the run that is continued, or None.

    Raises:
        DataError: When model, text, mixture and length do not go together, or a package is missing.
        RunFolderError: When the run that is to be continued is another one.
        ValueError: When there is no such device, or the batch cannot be shared among the processes.
    """
    processes = number_of_processes()
    for package in ("accelerate", *([config.report_to] if config.report_to != "none" else [])):
        require(package, "target")
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("Expected a CUDA device, found none: --device cpu trains on the CPU")
    each, accumulation = _device_batch(
        config.target_batch_sequences, config.device_batch_sequences, processes
    )
    _check_mixture(stages, store, other_tokenizer=config.other_tokenizer)
    dataset = MixtureDataset(store, stages.names, config.sequence_length, config.seed)
    _check_epochs(dataset, stages, config, store)
    named = str(model) if isinstance(model, str | Path) else type(model).__name__
    belongs, found = belonging(named, store, stages, config), None
    if resumed is not None:
        writes = os.environ.get("RANK", "0") == "0"
        found = last_checkpoint(resumed / CHECKPOINTS, belongs, writes=writes)
        tell(f"going on from {found[0]}" if found else "no checkpoint: beginning anew")
    checkpoint, state = found or (None, begin(len(stages.names)))
    with torch.device("meta"):
        empty: Any = build_language_model(checkpoint or model, store.vocabulary)
    longest = getattr(empty.config, "max_position_embeddings", None)
    if longest is not None and config.sequence_length > longest:
        raise DataError(
            f"Expected sequence_length <= {longest}, the most that {named} takes, found "
            f"{config.sequence_length}"
        )
    # Documents are joined by this token, so it is what a text begins with too.
    _, empty.config.eos_token_id = load_encoder(store.tokenizer)
    empty.config.bos_token_id = empty.config.eos_token_id
    tell(
        f"{sum(p.numel() for p in empty.parameters()):,} parameters; "
        f"{config.steps} steps of {config.target_batch_sequences} x {config.sequence_length} "
        f"tokens, {each} sequences at once, {accumulation} times, on {processes} x "
        f"{'cuda' if config.on_gpu else 'cpu'}"
    )
    return TrainingPlan(
        config=config,
        store=store,
        model=empty.config,
        dataset=dataset,
        stages=stages,
        processes=processes,
        device_batch=each,
        accumulation=accumulation,
        belongs=belongs,
        checkpoint=checkpoint,
        state=state,
    )


def _device_batch(batch: int, most: int, processes: int) -> tuple[int, int]:
    """Returns how many sequences a device takes at once, and how often in a step."""
    each, rest = divmod(batch, processes)
    if rest:
        raise ValueError(
            f"Expected --target_batch_sequences that {processes} processes share equally, found "
            f"{batch}"
        )
    size = next(size for size in range(min(most, each), 0, -1) if each % size == 0)
    return size, each // size


def _check_mixture(stages: Stages, store: TokenStore, *, other_tokenizer: bool) -> None:
    """Refuses domains that the store lacks, and weights that are shares of other tokens."""
    own = store.tokenizer_sha256
    for mixture in stages.mixtures:
        if mixture.tokenizer not in (None, own) and not other_tokenizer:
            raise DataError(
                f"Expected weights for the tokenizer of {store.folder} ({own[:12]}), found weights "
                f"for another ({mixture.tokenizer[:12]}): --other_tokenizer accepts them unchanged"
            )
        mixture.check(store.names, own, "the mixture")


def _check_epochs(
    dataset: MixtureDataset, stages: Stages, config: TargetConfig, store: TokenStore
) -> None:
    """Refuses to read a text more than `max_epochs` times.

    What counts are the tokens that were asked for and those of the text, as in a search, which
    knows neither steps nor sequences of this training. What these add is reported.
    """
    shares, tokens = stages.shares(), number_of_tokens(config.tokens)
    times = {n: tokens * shares.get(n, 0.0) / len(store.train[n]) for n in dataset.names}
    most = max(times, key=lambda name: times[name])
    if times[most] > config.max_epochs * (1 + ROUNDING):
        allowed, found = distinct(config.max_epochs, times[most])
        sample = ", of which the store holds a sample," if store.in_all(most) else ""
        raise DataError(
            f"Expected to read the text of a domain at most {allowed} times (--max_epochs), found "
            f"'{most}'{sample} {found} times with weight {shares[most]:.3g}; --tokens "
            f"{0.95 * tokens * config.max_epochs / times[most]:.1e} would fit"
        )
    sequences = config.steps * config.target_batch_sequences
    read = dataset.epochs({name: sequences * shares.get(name, 0.0) for name in dataset.names})
    most = max(read, key=lambda name: read[name])
    if read[most] > config.max_epochs * (1 + ROUNDING):
        allowed, found = distinct(config.max_epochs, read[most])
        tell(
            f"'{most}' is read {found} times (--max_epochs {allowed}), because the run has whole "
            f"steps, {sequences * config.sequence_length:,} tokens in all, of whole sequences"
        )
