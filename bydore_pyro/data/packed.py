"""Compressed files as streams: of any window, and one that breaks off is an error."""

from __future__ import annotations

import io
import lzma
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from bydore_pyro.data.kinds import Compression

HEADER = 18  # bytes of a frame's header, at most
SIP = 2**10  # bytes of zstd that are unpacked at once: they may become 32 MB
ARROW = 2**27  # window that pyarrow reads
WINDOW = 2**31  # bytes that a frame of zstd may refer back to: `zstd --long=31`


def unpacked(file: io.RawIOBase, compression: Compression | None) -> AbstractContextManager[Any]:
    """Opens what a file is decompressed to, as a stream that is not seekable.

    Raises:
        OSError, EOFError, ValueError: While it is read, when it is damaged or breaks off.
    """
    if compression is None:
        return nullcontext(file)
    if compression == "xz":
        return lzma.LZMAFile(file)  # type: ignore[arg-type]
    if compression == "zstd" and _window(file) > ARROW:
        return _Frames(file)
    import pyarrow

    return pyarrow.input_stream(file, compression)


def _window(file: io.RawIOBase) -> int:
    """The window of the first frame; 0 where none begins."""
    import zstandard

    begin = file.read(HEADER) or b""
    file.seek(0)
    try:
        return int(zstandard.get_frame_parameters(begin).window_size)
    except zstandard.ZstdError:
        return 0


class _Frames(io.RawIOBase):
    """Frames of zstd of any window, one behind the other."""

    def __init__(self, file: io.RawIOBase) -> None:
        self._file, self._ahead, self._rest = file, b"", b""
        self._frame: Any = None

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Reads some bytes into the buffer; returns how many."""
        while not self._rest:
            packed = self._ahead or self._file.read(SIP)
            if not packed:
                if self._frame is not None:
                    raise EOFError("a frame of zstd that breaks off")
                return 0
            self._rest = self._unpack(packed)
        taken, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)

    def _unpack(self, packed: bytes) -> bytes:
        import zstandard

        if self._frame is None:
            self._frame = zstandard.ZstdDecompressor(max_window_size=WINDOW).decompressobj()
        try:
            found: bytes = self._frame.decompress(packed)
        except zstandard.ZstdError as error:
            raise OSError(str(error)) from None
        self._ahead = b""
        if self._frame.eof:
            self._ahead, self._frame = self._frame.unused_data, None
        return found
