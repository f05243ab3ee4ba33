"""A dataclass of plain values comes back from its file (`tests/runs/test_record.py` has more)."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import pytest

from bydore_pyro.files.records import Number, plain, read_as


@dataclass(frozen=True)
class Found:
    """What a test finds."""

    value: Number = 0.0
    text: str = ""
    pair: tuple[Number, ...] = ()


@pytest.mark.parametrize("value", [0.1 + 0.2, 1e300, -3.0, math.inf])
def test_numbers_come_back_bit_for_bit(tmp_path: Path, value: float) -> None:
    found = Found(value=value, text="infinite", pair=(1.0, value))
    (tmp_path / "found.json").write_text(json.dumps(plain(found), allow_nan=False))
    assert read_as(Found, tmp_path / "found.json") == found
