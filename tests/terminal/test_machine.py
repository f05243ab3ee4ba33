"""Devices by name, and threads."""

from __future__ import annotations

from contextlib import suppress

import pytest
import torch

from bydore_pyro.terminal.machine import device_named, one_thread, return_freed_memory


def test_a_block_on_one_thread_leaves_the_others_as_they_were() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with suppress(ZeroDivisionError), one_thread():
            assert torch.get_num_threads() == 1
            raise ZeroDivisionError
        assert torch.get_num_threads() == 2
        assert one_thread()(torch.get_num_threads)() == 1
    finally:
        torch.set_num_threads(before)


def test_devices_by_name() -> None:
    return_freed_memory()
    assert device_named("cpu") == torch.device("cpu")
    assert device_named("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    for name in ("meta", "tpu", "", "cuda:99", "cpu:x"):
        with pytest.raises(ValueError, match=f"a device of this machine, found '{name}'.*$"):
            device_named(name)
