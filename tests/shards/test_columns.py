"""Levanter's caches and rows of `input_ids`, and their damage."""

from __future__ import annotations

import json
from pathlib import Path

import datasets
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from shard_writers import documents, rows_of, write_datasets, write_levanter

from bydore_pyro.shards.columns import read_datasets, read_levanter
from bydore_pyro.utils.errors import DataError


def ends_of(made: list[np.ndarray]) -> list[int]:
    return np.cumsum([len(d) for d in made]).tolist()


def test_parquet_is_read_by_groups_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = documents()
    path = tmp_path / "a.parquet"
    rows_of(made).to_parquet(str(path), batch_size=7)
    assert parquet.ParquetFile(path).num_row_groups == 6
    shard = read_datasets(path, 280)
    whole = np.concatenate(made)
    np.testing.assert_array_equal(np.asarray(shard.tokens[30:700]), whole[30:700])
    assert shard.ends is not None
    assert shard.ends.tolist() == ends_of(made)


def test_an_arrow_file_of_several_batches_is_not_copied(tmp_path: Path) -> None:
    made = documents("<u4")
    rows = rows_of(made)
    rows.save_to_disk(str(tmp_path / "a"))
    with datasets.arrow_writer.ArrowWriter(
        path=str(tmp_path / "b.arrow"), features=rows.features, writer_batch_size=9
    ) as writer:
        for row in rows:
            writer.write(row)
        writer.finalize()
    for path in (tmp_path / "a" / "data-00000-of-00001.arrow", tmp_path / "b.arrow"):
        before = pyarrow.total_allocated_bytes()
        shard = read_datasets(path, 280)
        assert pyarrow.total_allocated_bytes() - before < 1000
        np.testing.assert_array_equal(np.asarray(shard.tokens), np.concatenate(made))
        assert shard.ends is not None
        assert shard.ends.tolist() == ends_of(made)


def test_rows_of_one_length_were_packed(tmp_path: Path) -> None:
    tokens = np.concatenate(documents())
    rows = [tokens[start : start + 64] for start in range(0, len(tokens), 64)]
    shard = read_datasets(write_datasets(tmp_path / "a", rows), 280)
    assert shard.ends is None
    np.testing.assert_array_equal(np.asarray(shard.tokens), tokens)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"text": ["a"]}, r"rows of input_ids, found .*a\.(parquet|arrow): "),
        ({"input_ids": ["a"]}, "lists of numbers in input_ids, found string"),
        ({"input_ids": [["a"]]}, "whole numbers in input_ids, found string"),
        ({"input_ids": [[0.5]]}, "whole numbers in input_ids, found double"),
        ({"input_ids": [[1], None]}, "whole numbers in input_ids"),
        ({"input_ids": [[1, None]]}, "whole numbers in input_ids"),
        ({"input_ids": pyarrow.array([[1]], pyarrow.list_(pyarrow.int8()))}, "two bytes or more"),
        ({"input_ids": pyarrow.array([], pyarrow.list_(pyarrow.int32()))}, "an empty shard"),
    ],
)
def test_rows_without_tokens_are_told(column: dict, message: str, tmp_path: Path) -> None:
    table = pyarrow.table(column)
    parquet.write_table(table, tmp_path / "a.parquet")
    with pyarrow.ipc.new_stream(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    for name in ("a.parquet", "a.arrow"):
        with pytest.raises(DataError, match=message) as error:
            read_datasets(tmp_path / name, 280)
        assert "\n" not in str(error.value)
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:50])
        with pytest.raises(DataError, match=r"rows of input_ids, found .*a\."):
            read_datasets(tmp_path / name, 280)


def test_levanter_needs_tensorstore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tensorstore", None)
    with pytest.raises(DataError, match=r"package tensorstore, .*bydore-pyro\[levanter\]"):
        read_levanter(tmp_path / "input_ids" / "offsets" / "zarr.json", 280)


def test_damage_of_a_levanter_cache_is_told(tmp_path: Path) -> None:
    pytest.importorskip("tensorstore")
    path = write_levanter(tmp_path / "a", documents())
    shard = read_levanter(path, 280)
    assert shard.ends is not None
    for file in (tmp_path / "a" / "input_ids" / "data" / "c").rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(DataError, match=r"Expected tokens in .*input_ids, found") as error:
        np.asarray(read_levanter(path, 280).tokens[:10])
    assert "\n" not in str(error.value)
    (tmp_path / "a" / "input_ids" / "data" / "zarr.json").write_text("{")
    with pytest.raises(DataError, match=r"Expected a levanter cache, found .*input_ids: ") as error:
        read_levanter(path, 280)
    assert "\n" not in str(error.value)
    ledger = tmp_path / "a" / "shard_ledger.json"
    ledger.write_text(json.dumps({"is_finished": False}))
    with pytest.raises(DataError, match=r"a finished cache, found one that is not: .*ledger"):
        read_levanter(path, 280)
