"""Whether intervals from few runs hold the optimum that all runs give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from common import markdown
from tqdm import tqdm

from bydore_pyro.baselines import RegMixConfig, RunsTable, fit_runs

SIZES = (24, 64, 256)


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
    config = RegMixConfig(regmix_draws=draws)
    every = fit_runs(table, target, prior, config).details["simulated_optimum"]
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
                fit = fit_runs(part, target, prior, config, fewer_than_domains=True)
                intervals.append(fit.mixture.hdi)
                bar.update()
            ends = np.array(intervals)  # (R, K, 2)
            held = (ends[..., 0] <= optimum) & (optimum <= ends[..., 1])
            widths = (ends[..., 1] - ends[..., 0]).mean(0)
            found.append(SubsetsCoverage(size=size, held=held, widths=widths))
    return optimum, found


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
