"""Every format is read as it was written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from shard_writers import EVERY, WRITERS, documents

from bydore_pyro.shards.arrays import Shard
from bydore_pyro.shards.formats import READERS, Reader
from bydore_pyro.shards.readers import read_megatron
from bydore_pyro.utils.errors import DataError


def test_every_format_has_its_writer_here() -> None:
    assert [*WRITERS] == [*READERS]
    assert READERS["megatron"] == Reader(read_megatron, (".idx",))


@pytest.mark.parametrize("dtype", ["<u2", "<u4"])
@pytest.mark.parametrize("kind", EVERY)
def test_what_was_written_is_read(kind: str, dtype: str, tmp_path: Path) -> None:
    made = documents(dtype)
    path = WRITERS[kind](tmp_path / "web.v1", made)
    assert path.as_posix().endswith(READERS[kind].endings)
    shard = READERS[kind].read(path, 280)
    assert isinstance(shard, Shard)
    whole = np.concatenate(made)
    np.testing.assert_array_equal(np.asarray(shard.tokens), whole)
    assert shard.tokens.dtype == np.dtype(dtype)
    places = np.random.default_rng(0).integers(0, len(whole), (5, 16))
    np.testing.assert_array_equal(shard.tokens[places], whole[places])
    np.testing.assert_array_equal(shard.tokens[40:900][places % 800], whole[40:900][places % 800])
    assert (shard.ends is None) == (kind in ("mds", "llmc", "litpkds"))
    if shard.ends is not None:
        np.testing.assert_array_equal(shard.ends, np.cumsum([len(d) for d in made]))
    assert path in shard.files
    assert all(file.is_file() for file in shard.files)


@pytest.mark.parametrize("kind", EVERY)
def test_an_empty_shard_is_told(kind: str, tmp_path: Path) -> None:
    path = WRITERS[kind](tmp_path / "a", documents(count=2))
    for file in tmp_path.rglob("*"):
        if file.is_file():
            file.write_bytes(b"")
    with pytest.raises(DataError, match="Expected") as error:
        READERS[kind].read(path, 280)
    assert "\n" not in str(error.value)
