"""The machine that a command runs on: devices, threads, memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def device_named(name: str) -> torch.device:
    """Returns the device `cpu`, `cuda`, `cuda:N`, or for `auto` a GPU if there is one.

    Raises:
        ValueError: When there is no such device.
    """
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        if device.type not in ("cpu", "cuda"):
            raise RuntimeError("neither 'cpu' nor 'cuda'")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ValueError(f"Expected a device of this machine, found '{name}': {reason}") from None
    return device


@contextmanager
def one_thread() -> Iterator[None]:
    """Lets torch compute with one thread in the block; also as the decorator of a function.

    Of small tensors a second thread brings nothing, and where the cores have other work too each
    operation waits for it: draws from a posterior of 10 domains took 27 s instead of more than 120.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def return_freed_memory() -> None:
    """Gives freed memory back to the system, where the C library is glibc.

    Large tensors of many sizes scatter its free memory. A search by linear evidence held 1.6 GB
    after 200 steps, of which half was free. The gradients of 768 sequences, one by one, left 4 GB.
    """
    with suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
