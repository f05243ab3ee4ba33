"""Devices by name."""

from __future__ import annotations

import pytest
import torch

from bydore_pyro.utils.devices import device_named


def test_devices_that_are_there() -> None:
    assert device_named("cpu") == torch.device("cpu")
    found = "cuda" if torch.cuda.is_available() else "cpu"
    assert device_named("auto").type == found


@pytest.mark.parametrize("name", ["meta", "tpu", "", "cuda:99", "cpu:x"])
def test_devices_that_are_not(name: str) -> None:
    with pytest.raises(ValueError, match=f"a device of this machine, found '{name}'") as error:
        device_named(name)
    assert "\n" not in str(error.value)
