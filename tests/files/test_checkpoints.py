"""Checkpoints: what was saved comes back, damage is set aside, another's is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bydore_pyro.files.checkpoints import load_checkpoint, save_checkpoint

BELONGS = {"seed": 1, "versions": {"torch": "2"}}


def save(folder: Path, *steps: int) -> None:
    for step in steps:
        save_checkpoint(folder, step, {"step": step, "x": torch.full((2,), step)}, BELONGS)


def steps_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_two_are_kept_and_the_newest_comes_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By number: step 1,000,000 comes after 999,999, and not in the order of words."""
    assert load_checkpoint(tmp_path / "none", BELONGS) is None
    assert capsys.readouterr().err == ""
    save(tmp_path, 5, 999_999, 1_000_000)
    assert steps_in(tmp_path) == ["step-1000000", "step-999999"]
    save_checkpoint(tmp_path, 1_000_000, {"step": 7}, BELONGS)  # what is there stays
    found = load_checkpoint(tmp_path, BELONGS)
    assert found is not None
    assert found["step"] == 1_000_000
    assert found["x"].tolist() == [1_000_000] * 2
    assert f"going on from {tmp_path / 'step-1000000'}" in capsys.readouterr().err


def test_a_damaged_one_is_set_aside_and_the_one_before_it_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path, 3, 4)
    tensors = tmp_path / "step-000004" / "tensors.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-1])
    for writes in (False, True):  # of several processes one sets aside
        assert (tmp_path / "step-000004").is_dir()
        found = load_checkpoint(tmp_path, BELONGS, writes=writes)
        assert found is not None
        assert found["step"] == 3
    assert steps_in(tmp_path) == ["refused-step-000004", "step-000003"]
    assert f"{tmp_path / 'step-000004'} cannot be used; it is set aside" in capsys.readouterr().err
    (tmp_path / "step-000003" / "tree.json").write_text("{")
    assert load_checkpoint(tmp_path, BELONGS) is None
    assert "no sound checkpoint: beginning anew" in capsys.readouterr().err


def test_a_full_disk_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 3)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("bydore_pyro.files.kept.write_tree", full)
        with pytest.raises(OSError, match="No space left"):
            save(tmp_path, 4)
    assert "step-000004" not in steps_in(tmp_path)
    found = load_checkpoint(tmp_path, BELONGS)
    assert found is not None
    assert found["step"] == 3
