"""The experiment on few finished runs."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import few_runs
import numpy as np
import pytest
from planted_laws import planted_losses
from torch import as_tensor, full

CROSS = full((4, 4), 0.3).double()


def test_a_line_is_the_same_by_domain_and_a_process_is_better_than_its_runs() -> None:
    """Least squares are linear in the losses; the process finds what no run was."""
    weights = np.random.default_rng(0).dirichlet(np.ones(4), 10)
    losses = planted_losses(as_tensor(weights), CROSS).numpy()
    problem: Any = SimpleNamespace(token_shares=np.full(4, 0.25))
    runs, target = few_runs.Runs(weights=weights, losses=losses), np.array([0.5, 0.3, 0.2, 0.0])
    lines = [few_runs.by_regression("linear", each, problem, runs, target) for each in (0, 1)]
    np.testing.assert_allclose(*lines, atol=1e-9)
    found = few_runs.by_regression("gaussian_process", True, problem, runs, target)
    found = planted_losses(as_tensor(found[None]), CROSS)[0].numpy() @ target
    assert found < (losses @ target).min()


@pytest.mark.slow
def test_in_smoke_size(smoke: Callable[..., dict]) -> None:
    found = smoke("few_runs", "--domains", "python", "licences", "docstrings")
    ((counts,), mixtures) = (found["losses"].values(), found["mixtures"])
    assert {*counts["4"]} == {name.split("/")[2] for name in mixtures}
    assert all(sum(weights.values()) == pytest.approx(1, abs=1e-5) for weights in mixtures.values())
