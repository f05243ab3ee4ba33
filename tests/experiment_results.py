"""What experiments leave behind, and what every file of results tells."""

from __future__ import annotations

from typing import Any

FROM_THE_START = ["convergence", "calibration"]  # those that cannot be gone on with


def check_origin(results: dict[str, Any]) -> None:
    """A file of results tells how it was made and what it took."""
    assert {"seed", "config", "versions", "commit"} <= set(results)
    assert not {"out", "cache"} & set(results["config"].get("run", {}))
    assert {"tokens", "flops", "seconds", "parts"} == set(results["cost"])
    assert results["cost"]["seconds"] > 0
