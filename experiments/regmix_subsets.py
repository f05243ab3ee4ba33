"""Whether intervals from few runs hold the optimum that all runs give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import markdown
from tqdm import tqdm

from bydore_pyro.baselines import (
    RegMixConfig,
    Regressed,
    RunsTable,
    fit_regression,
    fit_runs,
    scale_up,
)

SIZES = (24, 64, 256)
LARGE_SIZES, LARGE_SUBSETS = (8, 16, 32), 20  # of the runs of another scale


@dataclass(frozen=True, kw_only=True)
class SubsetsCoverage:
    """What subsets of one size gave.

    Args:
        size: Runs in each subset.
        held: Whether a subset's interval of a domain holds the optimum of all runs ``(R, K)``.
        widths: Mean width of each domain's interval ``(K,)``.
    """

    size: int
    held: np.ndarray
    widths: np.ndarray


def joined(train: RunsTable, test: RunsTable) -> RunsTable:
    """Returns the runs of both tables as one."""
    weights = np.concatenate([train.weights, test.weights])
    return RunsTable(
        runs=(*(f"train {run}" for run in train.runs), *(f"test {run}" for run in test.runs)),
        domains=train.domains,
        weights=weights / weights.sum(1, keepdims=True),
        targets=train.targets,
        losses=np.concatenate([train.losses, test.losses]),
    )


def coverage(
    table: RunsTable, target: str, prior: np.ndarray, draws: int, subsets: int, sizes: Sequence[int]
) -> tuple[np.ndarray, list[SubsetsCoverage]]:
    """Returns the optimum of all runs ``(K,)``, and how often subsets' intervals hold it.

    The optimum is the simulated one, the mean of the best mixtures under all runs' Gaussian
    process; the intervals are those that `bydore fit --runs` writes.
    """
    config = RegMixConfig(regmix_regression="gaussian_process", regmix_draws=draws)
    of_all = _process(table, target)
    every = fit_runs(table, target, prior, config, of_all).details["simulated_optimum"]
    optimum = np.array([every[name] for name in table.domains])
    found = []
    with tqdm(total=subsets * len(sizes), desc="subsets", unit="fit", mininterval=0.5) as bar:
        for size in sizes:
            intervals = []
            for seed in range(subsets):
                rows = np.random.default_rng([size, seed]).permutation(len(table.runs))[:size]
                part = RunsTable(
                    runs=tuple(table.runs[row] for row in rows),
                    domains=table.domains,
                    weights=table.weights[rows],
                    targets=table.targets,
                    losses=table.losses[rows],
                )
                fit = fit_runs(part, target, prior, config, _process(part, target))
                intervals.append(fit.mixture.hdi)
                bar.update()
            ends = np.array(intervals)  # (R, K, 2)
            held = (ends[..., 0] <= optimum) & (optimum <= ends[..., 1])
            widths = (ends[..., 1] - ends[..., 0]).mean(0)
            found.append(SubsetsCoverage(size=size, held=held, widths=widths))
    return optimum, found


def _process(table: RunsTable, target: str) -> Regressed:
    """Fits the Gaussian process; intervals of weights need no cross-validation."""
    model = fit_regression("gaussian_process", table.weights, table.losses_of(target))
    return Regressed(kind="gaussian_process", model=model)


def coverage_table(
    domains: Sequence[str], optimum: np.ndarray, found: Sequence[SubsetsCoverage]
) -> str:
    """Returns the coverage as Markdown: the share of subsets by domain, and over all."""
    header = ["domain", "optimum of all", *(f"held from {part.size} runs" for part in found)]
    rows = [
        [name, f"{optimum[k]:.4f}", *(f"{part.held[:, k].mean():.2f}" for part in found)]
        for k, name in enumerate(domains)
    ]
    rows.append(["all domains", "", *(f"{part.held.mean():.3f}" for part in found)])
    return markdown(header, rows)


def coverage_json(
    domains: Sequence[str], optimum: np.ndarray, found: Sequence[SubsetsCoverage]
) -> dict[str, Any]:
    """Returns the coverage as plain values."""
    return {
        "optimum_of_all": dict(zip(domains, optimum.tolist(), strict=True)),
        "sizes": {
            str(part.size): {
                "held": float(part.held.mean()),
                "held_by_domain": dict(zip(domains, part.held.mean(0).tolist(), strict=True)),
                "mean_width": dict(zip(domains, part.widths.tolist(), strict=True)),
            }
            for part in found
        },
    }


class _Remembered:
    """Predictions ``(N,)`` that are there already; its mixtures ``(S, 1)`` are their places."""

    def __init__(self, predicted: np.ndarray) -> None:
        self.predicted = predicted

    def predict(self, weights: np.ndarray) -> np.ndarray:
        return self.predicted[weights[:, 0].astype(int)]


def scale_up_coverage(predicted: np.ndarray, measured: np.ndarray) -> dict[int, float]:
    """Returns how many of the other large runs lie in 94 % intervals, by calibrating runs.

    Args:
        predicted: Of the large runs by the small scale's regression ``(N,)``.
        measured: Their losses ``(N,)``.
    """
    model, places = _Remembered(predicted), np.arange(len(measured))[:, None]
    held: dict[int, float] = {}
    for size in (one for one in LARGE_SIZES if 2 * one <= len(measured)):
        inside = []
        for seed in range(LARGE_SUBSETS):
            rows = np.random.default_rng([size, seed]).permutation(len(measured))
            few, rest = rows[:size], rows[size:]
            found = scale_up(model, places[few], measured[few])
            low, high = found.predict_interval(places[rest]).T
            inside.append(((low <= measured[rest]) & (measured[rest] <= high)).mean())
        held[size] = float(np.mean(inside))
    return held


def scale_up_table(targets: Mapping[str, Mapping[int, float]]) -> str:
    """Returns the coverage of every target, and over all, as Markdown."""
    sizes = list(next(iter(targets.values())))
    rows = [[name, *(f"{held[size]:.3f}" for size in sizes)] for name, held in targets.items()]
    means = [np.mean([held[size] for held in targets.values()]) for size in sizes]
    rows.append(["all targets", *(f"{mean:.3f}" for mean in means)])
    return markdown(["target", *(f"from {size} large runs" for size in sizes)], rows)
