"""A block whose random numbers and Pyro parameters are its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyro
import torch

__all__ = ["isolated"]


@contextmanager
def isolated(seed: int, *, keep: bool = False) -> Iterator[None]:
    """Gives the block random numbers and a Pyro parameter store of its own.

    Args:
        seed: Of the random numbers.
        keep: Whether the store begins as a copy of the caller's, or empty.
    """
    store, devices = pyro.get_param_store(), range(torch.cuda.device_count())
    with torch.random.fork_rng(devices), store.scope(store.get_state() if keep else None):
        torch.manual_seed(seed)
        yield
