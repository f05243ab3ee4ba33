"""A dataclass of plain values comes back from its file (`tests/runs/test_record.py` has more)."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import pytest

from bydore_pyro.errors import DataError
from bydore_pyro.files.records import Number, parse_as, plain, read_as


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


@pytest.mark.parametrize("text", ['{"value": "x"}', '{"pair": 3}', "[]", "{", '{"text": null}'])
def test_what_is_of_another_kind_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(DataError, match=r"^Expected [^\n]* in /a/found.json") as error:
        parse_as(Found, text, Path("/a/found.json"))
    assert "\n" not in str(error.value)
