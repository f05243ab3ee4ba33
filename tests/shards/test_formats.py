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
    read_nanogpt,
    read_nanotron,
    read_numpy,
)


def test_every_format_has_its_writer_here() -> None:
    assert [*WRITERS] == [*READERS]
    assert READERS["megatron"] == Reader(read_megatron, (".idx",), (".bin",))
    assert [reader.read for reader in READERS.values()] == [
        read_megatron,
        read_dolma,
        read_numpy,
        read_nanotron,
        read_levanter,
        read_litdata,
        read_mds,
        read_llmc,
        read_litpkds,
        read_nanogpt,
        read_datasets,
    ]


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
    assert shard.scanned == (kind in ("numpy", "mds", "llmc", "litpkds", "nanogpt"))
    np.testing.assert_array_equal(shard.ends, np.cumsum([len(d) for d in made]))
    files = READERS[kind].read(path).files
    assert path in files
    assert all(file.is_file() for file in files)


def test_names_of_files_that_hold_no_text() -> None:
    """Whatever the format: the ending is passed over, and so is what stands above the data."""
    dolma = READERS["dolma"]
    for name in ("labels_mask_part_0000.npy", "label_mask.npy", "law/loss_mask/0.csv.gz"):
        assert not dolma.has_text(Path(name))
    for name in ("token_ids_part_0000.npy", "damask.npy", "composition.npy", "law/0.csv.gz"):
        assert dolma.has_text(Path(name))
    assert dolma.has_text(Path("masks/law/0.npy"), depth=1)
    assert not READERS["megatron"].has_text(Path("law_loss_mask_document.idx"))
    assert not READERS["nanotron"].has_text(Path("0.mask.ds.index"))
    assert not READERS["mds"].has_text(Path("law/labels/index.json"))
    assert READERS["levanter"].has_text(Path("law/input_ids/offsets/zarr.json"))
    for kind, name in (("datasets", "cache-1a.arrow"), ("nanotron", "0_unshuffled.ds.index")):
        assert not READERS[kind].has_text(Path(name), depth=1)
