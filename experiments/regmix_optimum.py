"""The optimum of a regression of measured runs: its intervals, as a table and as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import markdown

from bydore_pyro.baselines import AnyRegression, RunsTable, SimulatedOptimum, interval_of_run
from bydore_pyro.mixture import HDI_PROBABILITY


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """How sure a regression is of its optimum.

    Args:
        loss: Low and high of what a run on the optimum would measure ``(2,)``, nats per token.
        weights: Low and high of every weight ``(K, 2)``.
    """

    loss: np.ndarray
    weights: np.ndarray


def intervals_of(model: AnyRegression, optimum: SimulatedOptimum) -> Intervals | None:
    """Returns the central intervals of an optimum, None where the regression knows none."""
    if optimum.weights_draws is None:
        return None
    tails = [(1 - HDI_PROBABILITY) / 2, (1 + HDI_PROBABILITY) / 2]
    return Intervals(
        loss=interval_of_run(model, optimum.weights[None])[0],
        weights=np.quantile(optimum.weights_draws, tails, axis=0).T,
    )


def optimum_table(
    prior: np.ndarray,
    train: RunsTable,
    optima: Mapping[str, SimulatedOptimum],
    process: Intervals | None,
) -> str:
    """Returns the optima as Markdown: the weights, and at the end the predicted loss."""
    header = ["domain", "prior", *optima, f"its {HDI_PROBABILITY:.0%} interval"]
    rows = []
    for place, name in enumerate(train.domains):
        weights = [f"{optimum.weights[place]:.4f}" for optimum in optima.values()]
        own = None if process is None else process.weights[place]
        rows.append([name, f"{prior[place]:.4f}", *weights, interval(own, digits=4)])
    losses = [f"{optimum.loss:.3f}" for optimum in optima.values()]
    last = interval(None if process is None else process.loss, digits=3)
    rows.append(["predicted loss", "", *losses, last])
    return markdown(header, rows)


def interval(ends: np.ndarray | None, digits: int) -> str:
    """Returns an interval as text, nothing where there is none."""
    return "" if ends is None else " to ".join(f"{end:.{digits}f}" for end in ends)


def optimum_json(
    train: RunsTable, optimum: SimulatedOptimum, ends: Intervals | None
) -> dict[str, Any]:
    """Returns an optimum as plain values."""
    content: dict[str, Any] = {
        "weights": dict(zip(train.domains, optimum.weights.tolist(), strict=True)),
        "predicted_loss_nats_per_token": optimum.loss,
    }
    if ends is not None:
        content["interval_probability"] = HDI_PROBABILITY
        content["loss_interval_nats_per_token"] = ends.loss.tolist()
        intervals = ends.weights.tolist()
        content["weights_intervals"] = dict(zip(train.domains, intervals, strict=True))
    return content
