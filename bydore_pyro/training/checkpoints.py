"""The checkpoints that a run goes on from: the Trainer's, each sealed with the hashes of its files.

The seal, `belongs.json`, is written last. It holds what a checkpoint belongs to and where the order
of domains stands. A checkpoint without it was not written to its end. A run does not go on from
one whose files have other hashes.

Weights are safetensors. The Trainer loads optimiser, schedule and random states with
`weights_only=True`, which builds tensors and plain values and calls nothing that a file names.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bydore_pyro.data import TokenStore, file_sha256
from bydore_pyro.files import appearing_file, check_belongs, content_hash, set_aside, versions
from bydore_pyro.terminal import tell
from bydore_pyro.training.config import TargetConfig
from bydore_pyro.training.order import MixtureState
from bydore_pyro.training.stages import Stages

PREFIX, SEAL = "checkpoint-", "belongs.json"
# The options that decide which sequences a step sees, and what it does with them. The others say
# how that is computed, read, reported and kept: they may change on the way.
DECIDING = (
    *("tokens", "sequence_length", "target_batch_sequences", "seed", "precision"),
    *("learning_rate", "warmup_share", "weight_decay", "max_gradient_norm"),
)


def copy_tokenizer(tokenizer: Path, folder: Path) -> None:
    """Copies a tokenizer's files beside a model."""
    # `copytree` would set the folder's time, which the Trainer takes for a checkpoint's age.
    for path in tokenizer.iterdir():
        if path.is_file():
            shutil.copyfile(path, folder / path.name)


def belonging(
    model: str, store: TokenStore, stages: Stages, config: TargetConfig
) -> dict[str, Any]:
    """Returns what a checkpoint belongs to; the place of the model's folder does not count."""
    return {
        **{name: getattr(config, name) for name in DECIDING},
        "model": Path(model).name,
        "text": store.sha256,
        "mixture": json.loads(stages.to_json()),
        "versions": versions(),
    }


def write_seal(folder: Path, belongs: Mapping[str, Any], state: MixtureState) -> None:
    """Records what a checkpoint belongs to, the state of its order, and the hashes of its files."""
    content = {"belongs": dict(belongs), "order": state._asdict(), "files": _hashes(folder)}
    with appearing_file(folder / SEAL) as aside:
        aside.write_text(json.dumps({**content, "sha256": content_hash(content)}), "utf-8")


def read_seal(folder: Path) -> tuple[dict[str, Any], MixtureState]:
    """Returns what a checkpoint belongs to, and where its order of domains stands.

    Raises:
        ValueError: When a file is not as it was written; says which.
    """
    if not (folder / SEAL).is_file():
        raise ValueError(f"which has no {SEAL}: it was not written to its end")
    try:
        content = json.loads((folder / SEAL).read_text("utf-8"))
        intact = content.pop("sha256") == content_hash(content)
        state, noted = MixtureState(**content["order"]), dict(content["files"])
        intact = intact and folder.name == f"{PREFIX}{state.step}"
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        intact = False
    if not intact:
        raise ValueError(f"whose {SEAL} was changed")
    if other := sorted(name for name, _ in noted.items() ^ _hashes(folder).items()):
        raise ValueError(f"whose {other[0]} was changed, lost or added")
    return content["belongs"], state


def _hashes(folder: Path) -> dict[str, str]:
    """The hashes of a checkpoint's files, but for the seal and hidden ones."""
    names = sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    visible = [n for n in names if not any(part.startswith(".") for part in n.parts)]
    return {n.as_posix(): file_sha256(folder / n) for n in visible if n.as_posix() != SEAL}


def last_checkpoint(
    folder: Path, belongs: Mapping[str, Any], *, writes: bool = False
) -> tuple[Path, MixtureState] | None:
    """Returns the newest checkpoint that a run can go on from, with its order's state, or None.

    Args:
        folder: Holds `checkpoint-N`.
        belongs: What the run is, from `belonging`.
        writes: Whether those passed over are set aside, by name, and counted no longer.

    Raises:
        RunFolderError: When a sound checkpoint is another run's; it names the field that differs.
    """
    found = [p for p in folder.glob(f"{PREFIX}*") if p.name.removeprefix(PREFIX).isdecimal()]
    for path in sorted(found, key=lambda p: int(p.name.removeprefix(PREFIX)), reverse=True):
        try:
            saved, state = read_seal(path)
        except ValueError as reason:
            named = f"; it is set aside as {set_aside(path).name}" if writes else ""
            tell(f"passing over {path}, {reason}{named}")
            continue
        check_belongs(path, saved, belongs)
        return path, state
    return None
