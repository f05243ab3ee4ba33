"""The weights that stand for draws."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Dirichlet

from bydore_pyro.core.point import central_weights


@pytest.mark.parametrize("concentration", [0.05, 0.5, 1.0, 20.0])
def test_all_weights_lie_at_one_quantile_and_sum_to_1(concentration: float) -> None:
    torch.manual_seed(0)
    alpha = concentration * torch.tensor([8.0, 3.0, 1.0, 1.0, 0.2], dtype=torch.float64)
    draws = Dirichlet(alpha).sample((4000,))
    weights = central_weights(draws)
    assert float(weights.sum()) == pytest.approx(1, abs=1e-12)
    below = (draws < weights - 1e-12).double().mean(0)
    not_above = (draws <= weights + 1e-12).double().mean(0)
    assert float(below.max()) <= float(not_above.min()) + 2 / 4000, "one quantile is in all"
    assert float(not_above.min()) > 0.06
    assert float(below.max()) < 0.94, "so a 94 % interval holds it"


def test_of_two_domains_they_are_the_medians_and_a_rare_domain_has_nothing() -> None:
    torch.manual_seed(0)
    first = torch.rand(4001, dtype=torch.float64)
    weights = central_weights(torch.stack([first, 1 - first], 1))
    torch.testing.assert_close(weights[0], first.median(), atol=1e-3, rtol=0)
    rare = torch.tensor([[1.0, 0.0, 0.0]] * 60 + [[0.5, 0.5, 0.0]] * 40, dtype=torch.float64)
    torch.testing.assert_close(central_weights(rare), torch.eye(3).double()[0])
    same = torch.tensor([[0.25, 0.75]] * 2, dtype=torch.float64)
    torch.testing.assert_close(central_weights(same), same[0])
