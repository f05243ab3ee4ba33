"""What a checkpoint belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bydore_pyro.utils.belonging import check_belongs, versions
from bydore_pyro.utils.errors import RunFolderError

SAVED = {"data": "abc", "run": {"seed": 0, "domains": ["a", "b"]}, "versions": {"torch": "2.0"}}


def test_the_same_run_goes_on_in_silence() -> None:
    told: list[str] = []
    own = {**SAVED, "run": {"seed": 0, "domains": ("a", "b")}}  # JSON knows no tuples
    check_belongs(Path("step"), SAVED, own, told.append)
    assert not told


@pytest.mark.parametrize(
    ("own", "message"),
    [
        (
            {**SAVED, "data": "abd"},
            "Expected data abc, with which step was saved, found abd: ",
        ),
        ({**SAVED, "run": {"seed": 1, "domains": ["a", "b"]}}, r"Expected run\.seed 0, .* found 1"),
        ({**SAVED, "run": {"seed": 0}}, r"Expected run\.domains \['a', 'b'\], .* found nothing"),
        ({**SAVED, "more": True}, "Expected more nothing, .* found True"),
    ],
)
def test_another_run_is_refused_by_the_field(own: dict, message: str) -> None:
    with pytest.raises(RunFolderError, match=message):
        check_belongs(Path("step"), SAVED, own, print)


def test_other_versions_are_told() -> None:
    told: list[str] = []
    check_belongs(Path("step"), SAVED, {**SAVED, "versions": {"torch": "2.1"}}, told.append)
    assert told == [
        "warning: step was saved with torch 2.0, this is 2.1: the result may differ in its last "
        "bits"
    ]
    found = versions()
    assert set(found) == {"torch", "pyro-ppl", "bydore-pyro"}
    assert found["torch"] == torch.__version__
