"""A dataclass of plain values comes back from its file (`tests/runs/test_record.py` has more)."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from bydore_pyro.errors import DataError
from bydore_pyro.files.records import Number, parse_as, plain, read_as, read_with_tensors
from bydore_pyro.files.run_folder import RunFolder


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


def test_tensors_come_back_with_their_record(tmp_path: Path) -> None:
    tensors = {"one": torch.arange(6.0).reshape(2, 3), "none": torch.zeros(0)}
    with RunFolder(tmp_path / "run") as folder:
        folder.write_tensors("found.safetensors", tensors, Found(value=0.1, text="é </script>"))
        folder.write_tensors("bare.safetensors", tensors)
        folder.write_tensors("empty.safetensors", {}, Found())
    found, numbers = read_with_tensors(Found, tmp_path / "run/found.safetensors")
    assert found == Found(value=0.1, text="é </script>")
    assert {name: values.tolist() for name, values in numbers.items()} == {
        "one": [[0, 1, 2], [3, 4, 5]],
        "none": [],
    }
    assert read_with_tensors(Found, tmp_path / "run/empty.safetensors") == (Found(), {})
    with pytest.raises(DataError, match="Expected a valid record, found: "):
        read_with_tensors(Found, tmp_path / "run/bare.safetensors")
    whole = (tmp_path / "run/found.safetensors").read_bytes()
    (tmp_path / "cut").write_bytes(whole[:-1])
    with pytest.raises(DataError, match=r"Expected tensors and their record in .*cut, found: "):
        read_with_tensors(Found, tmp_path / "cut")
