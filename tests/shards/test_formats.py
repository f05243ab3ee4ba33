"""Every format is read as it was written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from shard_writers import EVERY, WRITERS, documents, opened

from bydore_pyro.shards.chunks import read_litdata, read_mds
from bydore_pyro.shards.columns import read_datasets, read_levanter
from bydore_pyro.shards.formats import READERS, Reader
from bydore_pyro.shards.readers import (
    read_dolma,
    read_litpkds,
    read_llmc,
    read_megatron,
    read_nanotron,
)


def test_every_format_has_its_writer_here() -> None:
    assert [*WRITERS] == [*READERS]
    assert READERS["megatron"] == Reader(read_megatron, (".idx",), (".bin",))
    assert [reader.read for reader in READERS.values()] == [
        read_megatron, read_dolma, read_nanotron, read_levanter, read_litdata, read_mds, read_llmc,
        read_litpkds, read_datasets,
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", ["<u2", "<u4"])
@pytest.mark.parametrize("kind", EVERY)
def test_what_was_written_is_read(kind: str, dtype: str, tmp_path: Path) -> None:
    made = documents(dtype)
    path = WRITERS[kind](tmp_path / "web.v1", made)
    assert path.as_posix().endswith(READERS[kind].endings)
    shard = opened(kind, path)
    whole = np.concatenate(made)
    np.testing.assert_array_equal(np.asarray(shard.tokens), whole)
    assert shard.tokens.dtype == np.dtype(dtype)
    places = np.random.default_rng(0).integers(0, len(whole), (5, 16))
    np.testing.assert_array_equal(shard.tokens[places], whole[places])
    np.testing.assert_array_equal(shard.tokens[40:900][places % 800], whole[40:900][places % 800])
    assert shard.scanned == (kind in ("mds", "llmc", "litpkds"))
    np.testing.assert_array_equal(shard.ends, np.cumsum([len(d) for d in made]))
    files = READERS[kind].read(path).files
    assert path in files
    assert all(file.is_file() for file in files)


def test_names_of_files_that_hold_no_text() -> None:
    dolma = READERS["dolma"]
    for name in ("labels_mask_part_0000.npy", "label_mask.npy", "token_ids_mask.npy"):
        assert dolma.is_left_out(Path(name))
        assert not dolma.stands_for(Path(name))
    for name in ("token_ids_part_0000.npy", "damask.npy", "composition.npy"):
        assert dolma.stands_for(Path(name))
    assert READERS["datasets"].is_left_out(Path("cache-1a.arrow"))
    assert READERS["nanotron"].is_left_out(Path("0_unshuffled.ds.index"))
    assert not READERS["mds"].stands_for(Path("law/0.index.json"))
