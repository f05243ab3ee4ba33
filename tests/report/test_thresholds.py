"""Where a figure's meaning changes."""

from __future__ import annotations

import pytest

from bydore_pyro.report import thresholds
from bydore_pyro.report.thresholds import AGREES, HALF_DECIDED, SETTLED, Limits


@pytest.mark.parametrize(
    ("limits", "value", "level"),
    [
        (SETTLED, 0.0499, "good"),
        (SETTLED, 0.05, "careful"),
        (SETTLED, 0.1, "bad"),
        (AGREES, 0.8, "good"),
        (AGREES, 0.79, "careful"),
        (AGREES, 0.49, "bad"),
        (HALF_DECIDED, 0.5, "good"),
        (HALF_DECIDED, 0.01, "careful"),
        (HALF_DECIDED, 0.0, "bad"),
    ],
)
def test_levels(limits: Limits, value: float, level: str) -> None:
    assert limits.level(value) == level


def test_every_limit_has_a_reason() -> None:
    found = [value for value in vars(thresholds).values() if isinstance(value, Limits)]
    assert len(found) == 8
    assert all(len(limits.reason) > 40 for limits in found)
