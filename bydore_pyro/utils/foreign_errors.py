"""What libraries raise for want of disk or memory, as an `OSError`: each has its own."""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["familiar_errors", "one_line"]

# Rust's libraries (safetensors, tokenizers) and HDF5 put the system's number into their text.
SYSTEM = re.compile(r"\(os error (\d+)\)|\berrno = (\d+)")
MEMORY = re.compile(
    r"can't allocate memory|not enough memory|out of memory|bad_alloc|Cannot allocate memory|"
    r"failed to map segment",  # of a library that is loaded late
    re.I,
)
# torch's own: of `torch.save`, and of a worker of its loader.
WRITING = re.compile(r"PytorchStreamWriter|inline_container")
WORKER = re.compile(r"DataLoader worker .*(exited unexpectedly|killed by signal)")


def one_line(error: object, most: int | None = 200) -> str:
    """Returns a library's error, which may be pages, on one line of `most` characters."""
    return " ".join(str(error).split())[:most]


@contextmanager
def familiar_errors() -> Iterator[None]:
    """Turns what the block raises for want of disk or memory into an `OSError` that says so.

    A thread of the block that fails so, as one that logs, tells it in a line.

    Raises:
        OSError: Instead of a library's own error.
    """
    before = threading.excepthook

    def told(failed: threading.ExceptHookArgs) -> None:
        error = failed.exc_value
        found = error if isinstance(error, OSError) else _familiar(error)
        if found is None:
            before(failed)
        else:
            print(f"a thread ended: {found}", file=sys.stderr)

    threading.excepthook = told
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        found = _familiar(error)
        if found is None:
            raise
        raise found from error
    finally:
        threading.excepthook = before


def _familiar(error: BaseException | None) -> OSError | None:
    """What an error means, None where it is neither of disk nor of memory."""
    text, short = one_line(error, None), one_line(error)
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError | ImportError) and MEMORY.search(text)
    ):
        return OSError(f"Expected enough memory, found too little: {short or 'none is left'}")
    if isinstance(error, ValueError):  # of ours: it says what it has to say
        return None
    if isinstance(error, RuntimeError) and text.startswith("Symlink loop"):  # of `Path.resolve`
        return OSError(errno.ELOOP, text)
    system = SYSTEM.search(text)
    if system is not None:
        number = int(system[1] or system[2])
        return OSError(number, f"{os.strerror(number)} ({short})")
    if isinstance(error, RuntimeError) and WRITING.search(text):
        return OSError(f"Expected room for a file of tensors, found that it broke off: {short}")
    if isinstance(error, RuntimeError) and WORKER.search(text):
        return OSError(f"A process that reads died, most often from lack of memory: {short}")
    if type(error).__name__ == "SafetensorError":
        return OSError(f"Expected a whole file of tensors, found: {short}")
    return None
