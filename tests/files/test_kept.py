"""Kept work: computed once, set aside where it is damaged, and never taken for other work."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bydore_pyro.errors import RunFolderError
from bydore_pyro.files.kept import Kept, check_belongs, kept_series, set_aside

SAVED = {"data": "abc", "run": {"seed": 0, "domains": ["a", "b"]}, "versions": {"torch": "2.0"}}


def key(**more: object) -> dict[str, object]:
    return {"seed": 1, "versions": {"torch": "2"}, **more}


def test_what_is_computed_once_is_kept(tmp_path: Path) -> None:
    """To the last bit, and whole or not at all."""
    kept, calls = Kept(tmp_path / "a" / "b", key()), []

    def compute() -> dict[str, object]:
        calls.append(1)
        return {"x": torch.full((2,), 0.1), "loss": 0.1 + 0.2, "pair": (1, None)}

    first, second = kept.get_or(compute), kept.get_or(compute)
    assert len(calls) == 1
    assert torch.equal(first["x"], second["x"])
    assert {**first, "x": 0} == {**second, "x": 0}
    kept.put({"loss": 0})  # what is there stays
    assert kept.get()["loss"] == 0.1 + 0.2
    assert [path.name for path in kept.folder.parent.iterdir()] == ["b"]
    kept.remove()
    assert kept.get() is None
    with pytest.raises(TypeError, match="Expected plain values"):
        kept.get_or(lambda: object())
    assert not list(kept.folder.parent.iterdir())


@pytest.mark.parametrize("name", ["tree.json", "tensors.safetensors"])
def test_what_is_damaged_is_set_aside_and_computed_again(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = Kept(tmp_path / "a", key())
    kept.put({"x": torch.ones(2)})
    (kept.folder / name).write_bytes((kept.folder / name).read_bytes()[:-1])
    reader = Kept(kept.folder, key(), writes=False)
    assert reader.get() is None
    assert reader.get_or(lambda: 5) == 5
    assert [path.name for path in tmp_path.iterdir()] == ["a"], "one process of several writes"
    assert kept.get_or(lambda: 6) == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "refused-a"]
    assert "a cannot be used; it is set aside as refused-a: " in capsys.readouterr().err
    assert kept.get() == 6


def test_another_key_is_refused_or_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Kept(tmp_path / "a", key()).put(1)
    with pytest.raises(RunFolderError, match=r"Expected seed 1, with which .* found 2"):
        Kept(tmp_path / "a", key(seed=2)).get()
    assert Kept(tmp_path / "a", key(versions={"torch": "3"})).get() == 1
    assert "was saved with torch 2, this is 3" in capsys.readouterr().err
    assert Kept(tmp_path / "a", key(seed=2), replace=True).get_or(lambda: 2) == 2
    assert Kept(tmp_path / "refused-a", key()).get() == 1


def test_a_file_in_the_way_is_set_aside(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    assert Kept(tmp_path / "a", key()).get_or(lambda: 1) == 1
    assert Kept(tmp_path / "a", key()).get() == 1
    assert (tmp_path / "refused-a").is_file()


def test_a_series_ends_with_the_first_that_is_missing_or_damaged(tmp_path: Path) -> None:
    for number in (1, 2, 3, 5):
        Kept(tmp_path / f"n-{number}", key()).put(number)
    found = [(kept.folder.name, tree) for kept, tree in kept_series(tmp_path, "n", key())]
    assert found == [("n-1", 1), ("n-2", 2), ("n-3", 3)]
    (tmp_path / "n-2" / "tree.json").write_text("{")
    assert [tree for _, tree in kept_series(tmp_path, "n", key(), writes=False)] == [1]


def test_what_is_set_aside_keeps_its_content_and_counts_no_longer(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / "step-1").mkdir()
        (tmp_path / "step-1" / "n").write_text(str(number))
        place = set_aside(tmp_path / "step-1")
        assert (place / "n").read_text() == str(number)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["refused-step-1", "refused-step-1-2", "refused-step-1-3"]
    assert not list(tmp_path.glob("step-*"))


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({**SAVED, "data": "abd"}, "Expected data abc, with which step was saved, found abd: "),
        ({**SAVED, "more": True}, "Expected more nothing, .* found True"),
    ],
)
def test_another_run_is_refused_by_the_field(own: dict, message: str) -> None:
    with pytest.raises(RunFolderError, match=message):
        check_belongs(Path("step"), SAVED, own)


def test_the_same_run_goes_on_and_other_versions_are_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = {**SAVED, "run": {"seed": 0, "domains": ("a", "b")}}  # JSON knows no tuples
    check_belongs(Path("step"), SAVED, own)
    assert not capsys.readouterr().err
    check_belongs(Path("step"), SAVED, {**SAVED, "versions": {"torch": "2.1"}})
    (line,) = capsys.readouterr().err.splitlines()
    assert "step was saved with torch 2.0, this is 2.1" in line
