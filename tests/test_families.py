"""The truths that families are compared with, by weighing draws of the prior; and their page."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from pyro import poutine
from pyro.infer.importance import vectorized_importance_weights
from torch import Tensor

ROOT = Path(__file__).parents[1]


@pytest.fixture
def families(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield importlib.import_module("families")
    torch.set_default_dtype(before)


@pytest.mark.parametrize("quadratic", [True, False])
def test_a_truth_is_that_of_weighed_draws(families: ModuleType, quadratic: bool) -> None:
    if quadratic:
        gram = torch.tensor([[1.0, 0.9, 0.1], [0.9, 1.0, 0.1], [0.1, 0.1, 1.0]])
        truth = families.of_evidence(torch.tensor([0.5, 0.3, 0.2]), gram, 0.2, nodes=200)
    else:
        truth = families.of_counts(torch.tensor([4.0, 1.0, 0.0]))
    prior = poutine.block(truth.model, expose=["w"])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        log_weights, _, drawn = vectorized_importance_weights(
            truth.model, prior, num_samples=200_000, max_plate_nesting=0
        )
    w: Tensor = drawn.nodes["w"]["value"]
    weight = log_weights.softmax(0)
    mean = weight @ w
    effective = 1 / float(weight.square().sum())
    assert effective > 10_000
    error = truth.sd / effective**0.5
    assert bool(((mean - truth.mean).abs() < 4 * error).all())
    sd = (weight @ (w - mean).square()).sqrt()
    torch.testing.assert_close(sd, truth.sd, rtol=0.03, atol=0)
    log_evidence = float(log_weights.exp().mean().log())
    assert log_evidence == pytest.approx(truth.log_evidence, abs=4 / effective**0.5)


def test_convergence_is_read_from_the_losses(families: ModuleType) -> None:
    """Down for 250 steps, then level."""
    losses = [5 - 0.02 * min(step, 250) for step in range(500)]
    assert families.Fit(None, losses, 1.0).converged_after == 250
    assert families.Fit(None, [0.0] * 500, 1.0).converged_after == 0


def test_the_page_has_the_tables_of_the_measurement() -> None:
    page = (ROOT / "docs" / "families.md").read_text(encoding="utf-8")
    measured = (ROOT / "figures" / "results" / "families" / "table.md").read_text(encoding="utf-8")
    rows = [line for line in measured.splitlines() if line.startswith("|")]
    assert rows
    for row in rows:
        assert row in page.splitlines(), row
