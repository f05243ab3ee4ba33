"""What a run goes on from: the Trainer's checkpoints, of which nothing but tensors is unpickled.

Weights are safetensors. Optimiser, schedule and random states are the Trainer's, written by
`torch.save` and loaded with `weights_only=True`, which builds tensors and plain values and calls
nothing that a file names.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import safe_open

from bydore_pyro.data import TokenStore
from bydore_pyro.proxy import build_language_model
from bydore_pyro.target.checkpoint_seal import broken_seal, read_seal
from bydore_pyro.target.config import TargetConfig
from bydore_pyro.target.mixture_schedule import MixtureSchedule
from bydore_pyro.utils import RunFolderError, check_belongs, set_aside, versions

__all__ = [
    "belonging",
    "check_checkpoint",
    "check_same_run",
    "checkpoint_step",
    "copy_tokenizer",
    "last_checkpoint",
    "tensors_only",
]

PREFIX = "checkpoint-"
# The options that decide which sequences a step sees, and what it does with them. The others tell
# how that is computed, read, told and kept: they may change on the way.
DECIDING = (
    *("tokens", "sequence_length", "target_batch_sequences", "seed", "precision"),
    *("learning_rate", "final_learning_rate", "warmup_share", "weight_decay"),
    "max_gradient_norm",
)


def checkpoint_step(path: Path | None) -> int:
    """Returns the steps that a checkpoint's model has taken, 0 for none."""
    return 0 if path is None else int(path.name.removeprefix(PREFIX))


def copy_tokenizer(tokenizer: Path, folder: Path) -> None:
    """Copies a tokenizer's files beside a model.

    The folder's own times stay as they are: the Trainer takes a checkpoint's for its age.
    """
    for path in tokenizer.iterdir():
        if path.is_file():
            shutil.copyfile(path, folder / path.name)


def last_checkpoint(
    folder: Path,
    vocabulary: int,
    tell: Callable[[str], None],
    *,
    fsdp: bool = False,
    writes: bool = False,
) -> Path | None:
    """Returns the newest checkpoint that a run can go on from with the same bits, None without one.

    Args:
        folder: Holds `checkpoint-N`.
        vocabulary: Tokens that the model knows.
        tell: Is given a line for each that is passed over.
        fsdp: Whether weights and optimiser are FSDP's, which are not looked into.
        writes: Whether those passed over are set aside, by name, and counted no longer.
    """
    found = {}
    for path in folder.glob("checkpoint-*"):
        number = path.name.removeprefix("checkpoint-")
        if number.isdecimal():
            found[int(number)] = path
    for _, path in sorted(found.items(), reverse=True):
        reason = _damage_of_state(path)
        if reason is None and not fsdp:
            reason = _damage_of_pickles(path) or _damage_of_weights(path, vocabulary)
        reason = reason or broken_seal(path)
        if reason is None:
            return path
        named = f"; it is set aside as {set_aside(path).name}" if writes else ""
        tell(f"passing over {path}, {reason}{named}")
    return None


def _damage_of_state(path: Path) -> str | None:
    """What is wrong with the Trainer's record, which it writes last."""
    from transformers import TrainerState

    name = "trainer_state.json"
    try:
        state = TrainerState.load_from_json(str(path / name))
        if state.global_step != checkpoint_step(path):
            return f"whose {name} is another's"
        if not all(isinstance(entry, dict) for entry in state.log_history):
            return f"whose {name} has no log"
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return "which was not written to its end"
    return None


def _damage_of_pickles(path: Path) -> str | None:
    """What is wrong with optimiser, schedule and random states; only tensors are unpickled."""
    from transformers.trainer_pt_utils import safe_globals

    keys = {"optimizer.pt": {"state", "param_groups"}, "scheduler.pt": {"last_epoch"}}
    # Of each process; one more than there were begins with its own.
    random = [file.name for file in path.glob("rng_state*.pth")]
    for name in (*keys, *random):
        if not (path / name).is_file():
            return f"which has no {name}"
        try:
            with safe_globals():
                content = torch.load(path / name, weights_only=True, map_location="cpu", mmap=True)
            if not keys.get(name, set()) <= content.keys():
                return f"whose {name} is another's"
        except UnpicklingError:
            return f"whose {name} holds more than tensors, which is not read"
        except Exception as error:  # whatever torch makes of a damaged file
            return f"whose {name} cannot be read ({type(error).__name__})"
    return None


def _damage_of_weights(path: Path, vocabulary: int) -> str | None:
    """What is wrong with the weights: one is missing, or has another shape."""
    try:
        shapes: dict[str, list[int]] = {}
        for file in path.glob("*.safetensors"):
            with safe_open(file, "pt") as stored:
                shapes |= {name: stored.get_slice(name).get_shape() for name in stored.keys()}  # noqa: SIM118
        with torch.device("meta"):
            model = build_language_model(path, vocabulary)
    except Exception as error:  # whatever a damaged file makes of it
        return f"whose weights cannot be read ({type(error).__name__})"
    tied: dict[int, list[str]] = {}  # of tied weights one is stored
    for name, value in model.state_dict(keep_vars=True).items():
        tied.setdefault(id(value), []).append(name)
    values = model.state_dict(keep_vars=True)
    for names in tied.values():
        if not any(shapes.get(name) == list(values[name].shape) for name in names):
            return f"which has no {names[0]} of shape {tuple(values[names[0]].shape)}"
    return None


def belonging(
    model: str, store: TokenStore, schedule: MixtureSchedule, config: TargetConfig
) -> dict[str, Any]:
    """Returns what a checkpoint belongs to.

    Args:
        model: Its folder or name; where the folder lies is not compared.
        store: The text.
        schedule: The mixtures.
        config: The options; only those count that decide what a step sees and does.
    """
    return {
        **{name: getattr(config, name) for name in DECIDING},
        "model": Path(model).name,
        "text": store.sha256,
        "mixture": json.loads(schedule.to_json()),
        "versions": versions(),
    }


def check_same_run(
    folder: Path, store: TokenStore, schedule: MixtureSchedule, config: TargetConfig
) -> None:
    """Checks that what is gone on with would see the sequences that it was begun with.

    Args:
        folder: Of the run.
        store: The text.
        schedule: The mixtures.
        config: The options; those that have no part in what a step sees and does may differ.

    Raises:
        RunFolderError: When they are others, or there is no run.
    """
    try:
        manifest, options, stages = (
            json.loads((folder / name).read_text("utf-8"))
            for name in ("manifest.json", "config.json", "schedule.json")
        )
        begun = {name: options["target"][name] for name in DECIDING}
        begun |= {"text": manifest["sha256"], "mixture": stages}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"Expected a training to go on with in {folder}: {error!r}") from None
    given = {name: getattr(config, name) for name in DECIDING}
    given |= {"text": store.sha256, "mixture": json.loads(schedule.to_json())}
    for name, value in begun.items():
        if value != given[name]:
            raise RunFolderError(
                f"Expected the {name} that {folder} was begun with ({value!s:.40}), found "
                f"{given[name]!s:.40}"
            )


def check_checkpoint(
    checkpoint: Path, belongs: Mapping[str, Any], tell: Callable[[str], None]
) -> None:
    """Checks that a sound checkpoint belongs to the run that would go on from it.

    Args:
        checkpoint: From `last_checkpoint`.
        belongs: What the run is, from `belonging`.
        tell: Is told of other versions.

    Raises:
        RunFolderError: When it is another's; it names the field that differs.
    """
    check_belongs(checkpoint, read_seal(checkpoint), belongs, tell)


@contextmanager
def tensors_only(checkpoint: Path | None) -> Iterator[None]:
    """Lets nothing be unpickled but tensors and plain values, whatever loads it.

    Raises:
        RunFolderError: When the checkpoint holds something else.
    """
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    except Exception as error:
        if type(error).__name__ in ("UnpicklingError", "SafetensorError"):
            reason = " ".join(str(error).split())[:200]
            raise RunFolderError(f"Expected a sound {checkpoint}, found: {reason}") from error
        raise
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
