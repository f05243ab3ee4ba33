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
        ({"objective": "best"}, "Expected the objective mean, worst or none_worse, actual 'best'"),
        ({"guarded": torch.tensor([True])}, "Expected none_worse beside guarded, actual mean"),
        ({"objective": "none_worse"}, "Expected a baseline beside none_worse, and only there"),
        ({"tolerance": 0.0}, "Expected tolerance > 0, finite, actual 0.0"),
        ({"at_most": torch.full((3,), torch.nan)}, "at_most that are finite, actual [nan, nan"),
        ({"probability": 1.0}, "Expected a probability in (0, 1), actual 1.0"),
        ({"importance": torch.ones(2)}, "Expected importance (3,), actual (2,)"),
        ({"importance": torch.zeros(3)}, "Expected importance >= 0, some > 0"),
        ({"composition": torch.zeros(2, 3)}, "rows of sum > 0, actual least 0, a sum of 0"),
        ({"composition": torch.ones(2, 2)}, "Expected a composition (Q, 3) or (4, Q, 3), actual"),
        ({"at_least": torch.full((3,), 0.4)}, "at_least to sum to 1 at most and"),
        ({"at_least": -BASELINE}, "Expected 0 <= at_least <= at_most"),
        ({"objective": "none_worse", "baseline": 2 * BASELINE}, "of sum 1, actual sum 2"),
    ],
)
def test_goals_that_cannot_be(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as found:  # noqa: PT011
        Programme.of(DRAWS, Goal(**given))
    assert message in str(found.value)
    assert "\n" not in str(found.value)
