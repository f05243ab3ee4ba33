"""Goals that cannot be."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from planted_laws import planted

from bydore_pyro.law.goal import Goal
from bydore_pyro.law.laplace import fit_law
from bydore_pyro.law.programme import Programme

BASELINE = torch.tensor([0.5, 0.3, 0.2])
DRAWS = fit_law(*planted(3, 4), free=False).draws(4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"objective": "none_worse"}, "Expected a baseline beside none_worse, and only there"),
        ({"tolerance": float("nan")}, "Expected tolerance > 0, finite, actual nan"),
        ({"composition": torch.ones(2, 3)}, "rows of sum 1, actual least 1, a sum off by 2"),
        ({"composition": torch.ones(5, 1, 3) / 3}, "or (4, Q, 3), actual (5, 1, 3)"),
        ({"objective": "none_worse", "baseline": 2 * BASELINE}, "of sum 1, actual sum 2"),
    ],
)  # fmt: skip
def test_goals_that_cannot_be(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as found:  # noqa: PT011
        Programme.of(DRAWS, Goal(**given))
    assert message in str(found.value)
