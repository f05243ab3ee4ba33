"""Levanter's caches and rows of `input_ids`, and their damage."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import datasets
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet
from shard_writers import documents, opened, rows_of, write_datasets, write_levanter

from bydore_pyro.errors import DataError
from bydore_pyro.shards.columns import read_levanter


def ends_of(made: list[np.ndarray]) -> list[int]:
    return np.cumsum([len(d) for d in made]).tolist()


def test_parquet_is_read_by_groups_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = documents()
    path = tmp_path / "a.parquet"
    rows_of(made).to_parquet(str(path), batch_size=7)
    assert parquet.ParquetFile(path).num_row_groups == 6
    shard = opened("datasets", path)
    whole = np.concatenate(made)
    np.testing.assert_array_equal(np.asarray(shard.tokens[30:700]), whole[30:700])
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
        shard = opened("datasets", path)
        assert pyarrow.total_allocated_bytes() - before < 1000
        np.testing.assert_array_equal(np.asarray(shard.tokens), np.concatenate(made))
        assert shard.ends.tolist() == ends_of(made)


def test_rows_of_one_length_were_packed(tmp_path: Path) -> None:
    tokens = np.concatenate(documents())
    rows = [tokens[start : start + 64] for start in range(0, len(tokens), 64)]
    shard = opened("datasets", write_datasets(tmp_path / "a", rows))
    assert shard.scanned
    np.testing.assert_array_equal(np.asarray(shard.tokens), tokens)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"text": ["a"]}, r"rows of input_ids, found .*a\.(parquet|arrow): "),
        ({"input_ids": ["a"]}, "lists of numbers in input_ids, found string"),
        ({"input_ids": [["a"]]}, "whole numbers in input_ids, found string"),
        ({"input_ids": [[0.5]]}, "whole numbers in input_ids, found double"),
        ({"input_ids": [[1], None]}, "whole numbers in input_ids, found null in row 2"),
        ({"input_ids": [[1, None]]}, "whole numbers in input_ids, found 1 that are null"),
        ({"input_ids": pyarrow.array([[1]], pyarrow.list_(pyarrow.int8()))}, "two bytes or more"),
    ],
)
def test_rows_without_tokens_are_told(column: dict, message: str, tmp_path: Path) -> None:
    table = pyarrow.table(column)
    parquet.write_table(table, tmp_path / "a.parquet")
    with pyarrow.ipc.new_stream(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)
    for name in ("a.parquet", "a.arrow"):
        with pytest.raises(DataError, match=message) as error:
            opened("datasets", tmp_path / name)
        assert "\n" not in str(error.value)
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:50])
        with pytest.raises(DataError, match=r"rows of input_ids, found .*a\."):
            opened("datasets", tmp_path / name)


def test_levanter_needs_tensorstore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tensorstore", None)
    with pytest.raises(DataError, match=r"package tensorstore, .*bydore-pyro\[levanter\]"):
        read_levanter(tmp_path / "input_ids" / "offsets" / "zarr.json")


def test_damage_of_a_levanter_cache_is_told(tmp_path: Path) -> None:
    pytest.importorskip("tensorstore")
    path = write_levanter(tmp_path / "a", documents())
    opened("levanter", path)
    for file in (tmp_path / "a" / "input_ids" / "data" / "c").rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(DataError, match=r"Expected tokens in .*input_ids, found") as error:
        np.asarray(opened("levanter", path).tokens[:10])
    assert "\n" not in str(error.value)
    (tmp_path / "a" / "input_ids" / "data" / "zarr.json").write_text("{")
    with pytest.raises(DataError, match=r"Expected a levanter cache, found .*input_ids: ") as error:
        opened("levanter", path)
    assert "\n" not in str(error.value)


def ledger_of(path: Path, **changes: object) -> Path:
    ledger = path.parents[2] / "shard_ledger.json"
    ledger.write_text(json.dumps({**json.loads(ledger.read_text()), **changes}))
    return ledger


def test_a_levanter_cache_is_whole_or_refused(tmp_path: Path) -> None:
    pytest.importorskip("tensorstore")
    made = documents(count=120)
    for number, (damage, message) in enumerate(
        (
            (lambda p: ledger_of(p, is_finished=False), "a finished shard, found one that is not"),
            (
                lambda p: ledger_of(p, total_num_rows=119),
                "Expected 119 rows, as .*ledger.json says",
            ),
            (
                lambda p: ledger_of(p, total_num_rows=2**50),
                "Expected .* rows, as .*ledger.json says",
            ),
            (
                lambda p: ledger_of(p, field_counts={"input_ids": 7}),
                "Expected 7 tokens, as .*ledger",
            ),
            (
                lambda p: ledger_of(p).unlink(),
                "Expected a file of a shard, found .*ledger.json: No su",
            ),
            (lambda p: ledger_of(p).write_text("[" * 100_000), "nested too deeply"),
            (
                lambda p: shutil.rmtree(p.parents[1] / "data" / "c"),
                "2 chunks of numbers .*data, found",
            ),
            (lambda p: (p.parents[1] / "data/c/1").unlink(), "2 chunks of numbers .*data, found 1"),
            (
                lambda p: rewritten(p.parents[1] / "data/c/0", None),
                "2 chunks of numbers .*, found 1",
            ),
            (lambda p: first_offset(p, 2**50), "Expected 120 rows, as .*ledger.json says"),
            (
                lambda p: (first_offset(p, 2**50), ledger_of(p, total_num_rows=2**50)),
                "chunks of numb",
            ),
        )
    ):
        path = write_levanter(tmp_path / str(number), made)
        assert (path.parents[1] / "data" / "c" / "1").is_file()
        opened("levanter", path)
        damage(path)
        with pytest.raises(DataError, match=message) as error:
            opened("levanter", path)
        assert "\n" not in str(error.value)


def rewritten(path: Path, content: bytes | None) -> None:
    path.unlink()
    path.symlink_to("nowhere") if content is None else path.write_bytes(content)


def first_offset(path: Path, value: int) -> None:
    import tensorstore

    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path.parent)}}
    tensorstore.open(spec, open=True).result()[:1].write([value]).result()


def test_padding_of_rows_is_told_by_their_columns(tmp_path: Path) -> None:
    rows = [[11, 12, 7, 0, 0, 0], [13, 7, 0, 0, 0, 0], [14, 15, 16, 17, 18, 7]]
    real = [3, 2, 6]
    for name, column in (
        ("attention_mask", [[int(i < n) for i in range(6)] for n in real]),
        ("length", real),
    ):
        table = pyarrow.table(
            {"input_ids": pyarrow.array(rows, pyarrow.list_(pyarrow.uint16())), name: column}
        )
        parquet.write_table(table, tmp_path / "a.parquet")
        with pyarrow.ipc.new_stream(tmp_path / "a.arrow", table.schema) as writer:
            writer.write_table(table)
        for ending in ("parquet", "arrow"):
            shard = opened("datasets", tmp_path / f"a.{ending}")
            expected = [11, 12, 7, 13, 7, 14, 15, 16, 17, 18, 7]
            assert np.asarray(shard.tokens).tolist() == expected
            assert shard.ends.tolist() == [3, 5, 11]


def test_rows_may_be_lists_of_a_fixed_size(tmp_path: Path) -> None:
    rows = pyarrow.array([[8, 7, 9], [10, 11, 7]], pyarrow.list_(pyarrow.int32(), 3))
    parquet.write_table(pyarrow.table({"input_ids": rows}), tmp_path / "a.parquet")
    shard = opened("datasets", tmp_path / "a.parquet")
    assert np.asarray(shard.tokens).tolist() == [8, 7, 9, 10, 11, 7]
    assert shard.ends.tolist() == [2, 6]


def test_what_was_saved_together_is_read_together(tmp_path: Path) -> None:
    path = write_datasets(tmp_path / "a", documents())
    state = path.with_name("state.json")
    stale = path.with_name("data-00000-of-00002.arrow")
    shutil.copy(path, stale)
    with pytest.raises(DataError, match=r"that .*state.json names, found also data-00000-of-0"):
        opened("datasets", stale)
    content = json.loads(state.read_text())
    content["_data_files"].append({"filename": "data-00001.arrow"})
    state.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"that .*state.json names, found no data-00001.arrow"):
        opened("datasets", path)
