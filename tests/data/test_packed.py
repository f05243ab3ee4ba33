"""Compressed streams: every one is what went in, or an error where it breaks off."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random

import pytest
import zstandard

from bydore_pyro.data.packed import unpacked

CONTENT = b"".join(random.Random(0).randbytes(9).hex().encode() + b"\n" * 5 for _ in range(9000))


def wide(content: bytes) -> bytes:
    """As `zstd --long=30`, in two frames."""
    given = zstandard.ZstdCompressionParameters(window_log=30, enable_ldm=True)
    half, packer = len(content) // 2, zstandard.ZstdCompressor(compression_params=given)
    made = b""
    for part in (content[:half], content[half:]):
        one = packer.compressobj()  # no size in the header: the window counts
        made += one.compress(part) + one.flush()
    return made


PACKED = {
    "gzip": gzip.compress(CONTENT),
    "bz2": bz2.compress(CONTENT),
    "xz": lzma.compress(CONTENT),
    "zstd": wide(CONTENT),
}


@pytest.mark.parametrize("kind", PACKED)
def test_what_went_in_comes_out(kind: str) -> None:
    with unpacked(io.BytesIO(PACKED[kind]), kind) as stream:  # type: ignore[arg-type]
        assert io.BufferedReader(stream).read() == CONTENT
    cut = io.BytesIO(PACKED[kind][:-20])
    with pytest.raises((OSError, EOFError)), unpacked(cut, kind) as stream:  # type: ignore[arg-type]
        io.BufferedReader(stream).read()


def test_a_wide_window_is_one_that_pyarrow_refuses() -> None:
    assert zstandard.get_frame_parameters(PACKED["zstd"]).window_size == 2**30
    with unpacked(io.BytesIO(CONTENT), None) as stream:  # type: ignore[arg-type]
        assert stream.read() == CONTENT
