"""What a run goes on from: the Trainer's checkpoints, of which nothing but tensors is unpickled.

Weights are safetensors. Optimiser, schedule and random states are the Trainer's, written by
`torch.save` and loaded with `weights_only=True`, which builds tensors and plain values and calls
nothing that a file names.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bydore_pyro.data.store import TokenStore
from bydore_pyro.errors import RunFolderError
from bydore_pyro.target.mixture_schedule import MixtureSchedule
from bydore_pyro.target.target_config import TargetConfig

__all__ = [
    "check_same_run",
    "checkpoint_step",
    "copy_tokenizer",
    "last_checkpoint",
    "tensors_only",
]

PREFIX = "checkpoint-"
# The options that decide which sequences a step sees.
DECIDING = ("tokens", "sequence_length", "target_batch_sequences", "seed")


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


def last_checkpoint(folder: Path, tell: Callable[[str], None]) -> Path | None:
    """Returns the newest checkpoint that is whole, None where there is none.

    The Trainer writes `trainer_state.json` last: a checkpoint without it was being written when the
    process ended.

    Args:
        folder: Holds `checkpoint-N`.
        tell: Is given a line for each that is passed over.
    """
    found = {}
    for path in folder.glob("checkpoint-*"):
        number = path.name.removeprefix("checkpoint-")
        if number.isdecimal():
            found[int(number)] = path
    for step, path in sorted(found.items(), reverse=True):
        try:
            state = json.loads((path / "trainer_state.json").read_text("utf-8"))
            if state["global_step"] == step:
                return path
        except (OSError, ValueError, KeyError, TypeError):
            pass
        tell(f"passing over {path}, which was not written to its end")
    return None


def check_same_run(
    folder: Path, store: TokenStore, schedule: MixtureSchedule, config: TargetConfig
) -> None:
    """Checks that what is gone on with would see the sequences that it was begun with.

    Args:
        folder: Of the run.
        store: The text.
        schedule: The mixtures.
        config: The options; those that have no part in the choice of sequences may differ.

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
