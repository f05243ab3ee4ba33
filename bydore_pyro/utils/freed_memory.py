"""What is freed goes back to the system."""

from __future__ import annotations

import ctypes
from contextlib import suppress

__all__ = ["return_freed_memory"]


def return_freed_memory() -> None:
    """Gives the system what has been freed, where the C library is glibc.

    Large tensors of many sizes scatter its free memory. A search by linear evidence held 1.6 GB
    after 200 steps, of which half was free. The gradients of 768 sequences, one by one, left 4 GB.
    """
    with suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
