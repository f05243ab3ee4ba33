"""What a run goes on from: the Trainer's checkpoints, each sealed with the hashes of its files.

The seal, `belongs.json`, is written last and tells what a checkpoint belongs to. One without it was
not written to its end, and one whose files are others than it tells is not gone on from.

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
from typing import Any

from bydore_pyro.data import TokenStore, file_sha256
from bydore_pyro.target.config import TargetConfig
from bydore_pyro.target.mixture_schedule import MixtureSchedule
from bydore_pyro.utils import (
    RunFolderError,
    appearing_file,
    check_belongs,
    content_hash,
    set_aside,
    versions,
)

__all__ = [
    "belonging",
    "broken_seal",
    "checkpoint_step",
    "copy_tokenizer",
    "last_checkpoint",
    "tensors_only",
    "write_seal",
]

PREFIX, SEAL = "checkpoint-", "belongs.json"
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


def write_seal(folder: Path, belongs: Mapping[str, Any]) -> None:
    """Notes what a checkpoint belongs to, and the hashes of all its files.

    Args:
        folder: The checkpoint, whole.
        belongs: From `belonging`.
    """
    content = {"name": folder.name, "belongs": dict(belongs), "files": _hashes(folder)}
    with appearing_file(folder / SEAL) as aside:
        aside.write_text(json.dumps({**content, "sha256": content_hash(content)}), "utf-8")


def broken_seal(folder: Path) -> str | None:
    """Returns what is wrong with a checkpoint's files, None when they are as they were written."""
    if not (folder / SEAL).is_file():
        return f"which has no {SEAL}: it was not written to its end"
    try:
        content = json.loads((folder / SEAL).read_text("utf-8"))
        if content.pop("sha256") != content_hash(content) or content["name"] != folder.name:
            raise ValueError
        noted = dict(content["files"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return f"whose {SEAL} was changed"
    found = _hashes(folder)
    for name in sorted({*noted, *found}):
        if name not in found:
            return f"which has no {name}"
        if name not in noted:
            return f"whose {name} was not saved with it"
        if found[name] != noted[name]:
            return f"whose {name} was changed"
    return None


def _hashes(folder: Path) -> dict[str, str]:
    """The hashes of a checkpoint's files, but for the seal and hidden ones."""
    names = sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    visible = [n for n in names if not any(part.startswith(".") for part in n.parts)]
    return {n.as_posix(): file_sha256(folder / n) for n in visible if n.as_posix() != SEAL}


def last_checkpoint(
    folder: Path,
    belongs: Mapping[str, Any],
    tell: Callable[[str], None],
    *,
    writes: bool = False,
) -> Path | None:
    """Returns the newest checkpoint that a run can go on from with the same bits, None without one.

    Args:
        folder: Holds `checkpoint-N`.
        belongs: What the run is, from `belonging`.
        tell: Is given a line for each that is passed over, and for other versions.
        writes: Whether those passed over are set aside, by name, and counted no longer.

    Raises:
        RunFolderError: When a sound checkpoint is another run's; it names the field that differs.
    """
    found = [p for p in folder.glob(f"{PREFIX}*") if p.name.removeprefix(PREFIX).isdecimal()]
    for path in sorted(found, key=checkpoint_step, reverse=True):
        reason = broken_seal(path)
        if reason is None:
            saved = json.loads((path / SEAL).read_text("utf-8"))["belongs"]
            check_belongs(path, saved, belongs, tell)
            return path
        named = f"; it is set aside as {set_aside(path).name}" if writes else ""
        tell(f"passing over {path}, {reason}{named}")
    return None


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
            raise RunFolderError(f"Expected a valid {checkpoint}, found: {reason}") from error
        raise
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
