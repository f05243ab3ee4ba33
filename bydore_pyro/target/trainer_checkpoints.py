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

__all__ = [
    "check_same_text",
    "checkpoint_step",
    "copy_tokenizer",
    "last_checkpoint",
    "tensors_only",
]

PREFIX = "checkpoint-"


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


def check_same_text(folder: Path, store: TokenStore) -> None:
    """Checks that a run goes on with the text that it was begun with.

    Args:
        folder: Of the run.
        store: The text.

    Raises:
        RunFolderError: When it is other text, or there is no run.
    """
    try:
        begun = json.loads((folder / "manifest.json").read_text("utf-8"))["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunFolderError(f"Expected a training to go on with in {folder}: {error}") from None
    if begun != store.sha256:
        raise RunFolderError(
            f"Expected the tokens that {folder} was begun with ({begun[:12]}), found others "
            f"({store.sha256[:12]}) in {store.folder}"
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
