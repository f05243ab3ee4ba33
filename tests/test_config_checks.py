"""The check that every configuration shares."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from bydore_pyro.config_checks import require_finite


@dataclass
class Config:
    name: str = "x"
    count: int = 1
    rate: float = 0.5


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), -float("inf")])
def test_numbers_must_be_finite(rate: float) -> None:
    require_finite(Config())
    with pytest.raises(ValueError, match="Expected a finite rate"):
        require_finite(Config(rate=rate))
