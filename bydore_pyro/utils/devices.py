"""The device that an option names."""

from __future__ import annotations

import torch

__all__ = ["device_named"]


def device_named(name: str) -> torch.device:
    """Returns a device that this machine has.

    Args:
        name: `cpu`, `cuda`, `cuda:N`, or `auto`: a GPU if there is one.

    Raises:
        ValueError: When there is no such device.
    """
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
