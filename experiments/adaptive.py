"""Adaptive design against the fixed one, on tables of measured runs as the emulator."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import markdown, run_main
from regmix_subsets import joined
from tqdm import tqdm

from bydore_pyro.baselines import (
    BATCH,
    RunsTable,
    acquisition,
    fit_gaussian_process,
    read_runs,
)
from bydore_pyro.proxy import Cost
from bydore_pyro.runs import results_of
from bydore_pyro.utils import RunFolder, option, require, require_fields, tell

ABOUT = """Compare the adaptive design of bydore fit --adaptive with a fixed one. The measured runs
of a table are the pool. A design picks runs from it, and sees only the losses of the runs that it
picked. Both designs start with the same random runs. The fixed design continues in random order,
the adaptive one by expected improvement. Each recommends the run of the pool with the lowest
predicted loss. Its regret is the loss of that run minus the lowest loss of the pool."""

FIXED = (24, 32, 48, 64, 96, 128)  # runs after which the fixed design is asked
LEVELS = (0.05, 0.02, 0.01)  # regrets, nats per token
SMOKE = {"seeds": 2, "first": 8, "most": 12}


@dataclass(frozen=True, kw_only=True)
class AdaptiveConfig:
    """The pool, the designs, and where the results go."""

    tables: str = option(
        MISSING,
        "Folder with train_mixture_SCALE.csv, train_pile_loss_SCALE.csv and the same files for "
        "test. The runs of both splits are the pool.",
    )
    scale: str = option("1m", "The SCALE of the tables.")
    targets: list[str] = option(["pile_cc"], "The losses to minimise.")
    seeds: int = option(
        20,
        "Number of repetitions, each with other random first runs and another random order.",
        least=1,
    )
    first: int = option(24, "Number of random runs with which both designs start.")
    most: int = option(56, "Total number of runs of the adaptive design.")
    out: str | None = option(None, "Folder of the run. Default: runs/adaptive-<time>.")
    smoke: bool = option(False, "Run for seconds, only to check that all parts work.")

    def __post_init__(self) -> None:
        require_fields(self)
        if not 2 <= self.first <= min(self.most, FIXED[-1]):
            highest = min(self.most, FIXED[-1])
            raise ValueError(f"Expected first in [2, {highest}], actual {self.first}")


@dataclass(frozen=True, kw_only=True)
class AdaptiveOptions:
    """All options."""

    run: AdaptiveConfig


def adaptive_regrets(
    pool: RunsTable, losses: np.ndarray, order: np.ndarray, first: int, most: int
) -> list[dict[str, Any]]:
    """Returns, for each number of runs, what the adaptive design would recommend, and whether its
    rule would have ended it there."""
    found, got, best = [], order[:first].tolist(), losses.min()
    while True:
        model = fit_gaussian_process(pool.weights[got], losses[got])
        rest = np.setdiff1d(np.arange(len(losses)), got)
        choices = torch.tensor(pool.weights[rest])
        function = acquisition(model, pool.weights[got])
        picked, values = require("botorch.optim", "baselines").optimize_acqf_discrete(
            function, q=BATCH, choices=choices
        )
        gain = float(values[0].exp())
        found.append(
            {
                "runs": len(got),
                "regret": float(losses[model.predict(pool.weights).argmin()] - best),
                "regret_of_best_measured": float(losses[got].min() - best),
                "expected_gain": gain,
                "noise": model.noise,
                "ends": gain < model.noise,
            }
        )
        if len(got) + BATCH > most:
            return found
        got += [int(rest[(choices == one).all(1).nonzero()[0, 0]]) for one in picked]


def fixed_regrets(
    pool: RunsTable, losses: np.ndarray, order: np.ndarray, sizes: Sequence[int]
) -> list[dict[str, Any]]:
    """Returns, for each number of runs, what the random order's regression would recommend."""
    found = []
    for size in sizes:
        got = order[:size]
        model = fit_gaussian_process(pool.weights[got], losses[got])
        regret = losses[model.predict(pool.weights).argmin()] - losses.min()
        found.append({"runs": size, "regret": float(regret)})
    return found


def regret_of_best(losses: np.ndarray, most: int) -> np.ndarray:
    """Returns the expected regret of the best of 1 to `most` random runs of a pool, ``(most,)``.

    The best of n is the j-th of M with probability C(M - j, n - 1) / C(M, n), j from 1.
    """
    gaps, size = np.sort(losses) - losses.min(), len(losses)
    return np.array(
        [
            sum(math.comb(size - j, n - 1) * gap for j, gap in enumerate(gaps.tolist(), 1))
            / math.comb(size, n)
            for n in range(1, most + 1)
        ]
    )


def runs_needed(runs: Sequence[int], regrets: Sequence[float], level: float) -> int | None:
    """Returns after how many runs the regret is at the level and stays there, None if never."""
    above = [n for n, regret in enumerate(regrets) if regret > level]
    after = above[-1] + 1 if above else 0
    return runs[after] if after < len(runs) else None


def of_target(pool: RunsTable, target: str, run: AdaptiveConfig, bar: Any) -> dict[str, Any]:
    """Returns the regrets of both designs over the seeds, and their summary."""
    losses = pool.losses_of(target)
    sizes = [run.first] if run.smoke else [n for n in FIXED if run.first <= n <= len(losses)]
    adaptive, fixed = [], []
    for seed in range(run.seeds):
        order = np.random.default_rng(seed).permutation(len(losses))
        adaptive.append(adaptive_regrets(pool, losses, order, run.first, run.most))
        fixed.append(fixed_regrets(pool, losses, order, sizes))
        bar.update()
    best = regret_of_best(losses, len(losses)).tolist()
    curves = {
        "adaptive": curve(adaptive, "regret"),
        "adaptive, best measured": curve(adaptive, "regret_of_best_measured"),
        "fixed": curve(fixed, "regret"),
        "fixed, best measured": {"runs": list(range(1, len(best) + 1)), "mean": best},
    }
    ended = [next((row for row in rows if row["ends"]), rows[-1]) for rows in adaptive]
    return {
        "least_loss": float(losses.min()),
        "curves": curves,
        "runs_needed": {
            f"{level:g}": {k: runs_needed(c["runs"], c["mean"], level) for k, c in curves.items()}
            for level in LEVELS
        },
        "ended": [{"of_rule": row["ends"], **row} for row in ended],
        "adaptive": adaptive,
        "fixed": fixed,
    }


def curve(seeds: Sequence[Sequence[Mapping[str, Any]]], name: str) -> dict[str, Any]:
    """Returns the mean over the seeds, its standard error, and the quartiles, by number of runs."""
    values = np.array([[row[name] for row in rows] for rows in seeds])  # (seeds, sizes)
    error = values.std(0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else values[0] * 0
    return {
        "runs": [row["runs"] for row in seeds[0]],
        "mean": values.mean(0).tolist(),
        "standard_error": error.tolist(),
        "quartiles": np.quantile(values, [0.25, 0.75], axis=0).T.tolist(),
    }


def tables(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the results as Markdown."""
    text = ""
    for target, found in results.items():
        curves = found["curves"]
        rows = [
            [str(n), *(at(curves[name], n) for name in curves)]
            for n in sorted({*curves["adaptive"]["runs"], *curves["fixed"]["runs"]})
        ]
        text += f"\n{target}: mean regret in nats per token, with its standard error\n\n"
        text += markdown(["runs", *curves], rows)
        text += "\nRuns after which the mean regret is at the level and stays there:\n\n"
        rows = [
            [level, *("never" if n is None else str(n) for n in needed.values())]
            for level, needed in found["runs_needed"].items()
        ]
        text += markdown(["regret", *curves], rows)
        by_rule = [row for row in found["ended"] if row["ends"]]
        text += f"\nThe rule ended {len(by_rule)} of {len(found['ended'])} searches"
        if by_rule:
            runs, regrets = ([row[k] for row in by_rule] for k in ("runs", "regret"))
            text += (
                f", after {np.mean(runs):.1f} runs ({min(runs)} to {max(runs)}), with a mean "
                f"regret of {np.mean(regrets):.4f} (0 in {regrets.count(0.0)}, "
                f"{max(regrets):.4f} at most)"
            )
        text += ".\n"
    return text


def at(curve: Mapping[str, Any], runs: int) -> str:
    """Returns a curve's mean after so many runs, with its standard error where it has one."""
    if runs not in curve["runs"]:
        return ""
    place = curve["runs"].index(runs)
    error = f" ± {curve['standard_error'][place]:.4f}" if "standard_error" in curve else ""
    return f"{curve['mean'][place]:.4f}{error}"


def adaptive(options: AdaptiveOptions) -> None:
    """Runs both designs and writes the results."""
    run, cost = options.run, Cost()
    folder = RunFolder(Path(run.out or f"runs/adaptive-{time.strftime('%Y%m%d-%H%M%S')}"))
    train = read_runs(Path(run.tables), "train", scale=run.scale)
    test = read_runs(Path(run.tables), "test", scale=run.scale)
    pool = joined(train, test.ordered(train.domains, train.targets))
    for target in run.targets:
        pool.losses_of(target)  # it must be there before the others are run
    if run.most + BATCH > len(pool.runs):
        raise ValueError(f"Expected most <= {len(pool.runs) - BATCH}, the pool, actual {run.most}")
    tell(f"{len(pool.runs)} runs of {len(pool.domains)} domains")
    total = len(run.targets) * run.seeds
    with tqdm(total=total, desc="designs", unit="seed", mininterval=0.5) as bar:
        results = {}
        for target in run.targets:
            with cost.part(target):
                results[target] = of_target(pool, target, run, bar)
    text = tables(results)
    content: dict[str, Any] = {"pool": len(pool.runs), "batch": BATCH, "targets": results}
    # The repetitions' seeds are 0, 1, 2, ...
    content = results_of(content, options, 0, cost, ("botorch", "scipy"))
    folder.write_json("config.json", {"name": "adaptive", **content["config"]})
    folder.write_json("results.json", content)
    folder.write_text("table.md", text.lstrip())
    print(text)
    here = folder.path
    print(f"Draw it: python figures/adaptive_design.py {here / 'results.json'} --folder {here}")


if __name__ == "__main__":
    run_main(adaptive, "adaptive", ABOUT, AdaptiveOptions, smoke=SMOKE)
