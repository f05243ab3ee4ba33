"""Devices by name, and freed memory that goes back to the system."""

from __future__ import annotations

import ctypes

import pytest
import torch

from bydore_pyro.utils.machine import device_named, return_freed_memory


def test_devices_that_are_there() -> None:
    assert device_named("cpu") == torch.device("cpu")
    found = "cuda" if torch.cuda.is_available() else "cpu"
    assert device_named("auto").type == found


@pytest.mark.parametrize("name", ["meta", "tpu", "", "cuda:99", "cpu:x"])
def test_devices_that_are_not(name: str) -> None:
    with pytest.raises(ValueError, match=f"a device of this machine, found '{name}'") as error:
        device_named(name)
    assert "\n" not in str(error.value)


def test_the_c_library_is_asked_and_another_one_does_no_harm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    class Library:
        def malloc_trim(self, pad: int) -> int:
            asked.append(pad)
            return 1

    return_freed_memory()
    for library in (Library(), object()):
        monkeypatch.setattr(ctypes, "CDLL", lambda name, library=library: library)
        return_freed_memory()
    assert asked == [0]
