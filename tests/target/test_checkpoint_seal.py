"""A checkpoint's files are as they were written, or it is known which is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bydore_pyro.target.checkpoint_seal import broken_seal, read_seal, write_seal


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint-3"
    (folder / "part").mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "part" / "0.pt").write_bytes(b"optimiser")
    write_seal(folder, {"seed": 3, "versions": {"torch": "2"}})
    return folder


def test_an_untouched_checkpoint(checkpoint: Path) -> None:
    assert broken_seal(checkpoint) is None
    assert read_seal(checkpoint) == {"seed": 3, "versions": {"torch": "2"}}
    (checkpoint / ".nfs0001").touch()
    assert broken_seal(checkpoint) is None, "what a file system leaves is nobody's"


def seed_changed(folder: Path) -> None:
    text = (folder / "belongs.json").read_text()
    (folder / "belongs.json").write_text(text.replace('"seed": 3', '"seed": 4'))


CHANGES: dict[str, Callable[[Path], object]] = {
    "whose model.safetensors was changed": lambda p: (p / "model.safetensors").write_bytes(b"w"),
    "which has no part/0.pt": lambda p: (p / "part" / "0.pt").unlink(),
    "whose more.bin was not saved with it": lambda p: (p / "more.bin").touch(),
    "whose belongs.json was changed": seed_changed,
    "which has no belongs.json: it was not": lambda p: (p / "belongs.json").unlink(),
}


@pytest.mark.parametrize("reason", CHANGES)
def test_every_change_is_named(checkpoint: Path, reason: str) -> None:
    CHANGES[reason](checkpoint)
    assert str(broken_seal(checkpoint)).startswith(reason)


@pytest.mark.parametrize("content", ["{", "[]", "{}", json.dumps({"files": 3, "sha256": "0"})])
def test_a_seal_that_is_none(checkpoint: Path, content: str) -> None:
    (checkpoint / "belongs.json").write_text(content)
    assert broken_seal(checkpoint) == "whose belongs.json was changed"
