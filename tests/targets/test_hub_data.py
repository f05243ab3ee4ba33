"""Data with the hub's columns: which splits a folder holds, and their rows as they are."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from tiny import write_lines

from bydore_pyro.errors import DataError
from bydore_pyro.targets import read_split
from bydore_pyro.targets.hub_data import splits_in


def test_splits_are_files_by_name_and_in_parts(tmp_path: Path) -> None:
    write_lines(tmp_path / "train.jsonl", [{"a": "2020-01-01"}])
    for name in ("test", "validation-00000-of-00002", "validation-00001-of-00002"):
        parquet.write_table(pyarrow.table({"a": [name]}), tmp_path / f"{name}.parquet")
    (tmp_path / "README.md").write_text("no split")
    assert splits_in(tmp_path) == ["test", "train", "validation"]
    parts = read_split(tmp_path / "validation", "Expected data")
    assert parts["a"] == ["validation-00000-of-00002", "validation-00001-of-00002"]
    assert read_split(tmp_path / "train", "Expected data")["a"] == ["2020-01-01"], "no date"


def test_no_file_and_no_rows_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"^Expected data of x in {tmp_path}/train, found:"):
        read_split(tmp_path / "train", "Expected data of x")
    (tmp_path / "train.jsonl").write_text('{"a": 1}\n[1]\n')
    with pytest.raises(DataError, match=r"train\.jsonl, line 2, found:"):
        read_split(tmp_path / "train", "Expected data of x")
