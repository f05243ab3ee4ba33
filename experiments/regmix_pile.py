"""RegMix's regressions on tables of measured runs, held against its published figures."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import markdown, run_main
from regmix_optimum import intervals_of, optimum_json, optimum_table
from regmix_subsets import (
    LARGE_SUBSETS,
    SIZES,
    coverage,
    coverage_json,
    coverage_table,
    joined,
    scale_up_coverage,
    scale_up_table,
)
from tqdm import tqdm

from bydore_pyro.baselines import (
    BEST,
    LIGHTGBM,
    TREES,
    AnyRegression,
    GaussianProcess,
    PointRegression,
    RunsTable,
    fit_gaussian_process,
    fit_regression,
    prior_of,
    read_runs,
    simulated_optimum,
    spearman_x100,
)
from bydore_pyro.proxy import Cost
from bydore_pyro.runs import results_of
from bydore_pyro.utils import (
    DataError,
    RunFolder,
    option,
    require,
    require_fields,
    tell,
)

ABOUT = """Regress the loss of measured runs on their mixture by linear regression, LightGBM and a
Gaussian process, and report for every target the rank correlation with runs that were not fitted.
Then find the simulated optimum of one target by each regression. The tables are those of RegMix's
repository (https://github.com/sail-sg/regmix, folder data), or others in the same format."""

REGRESSIONS = (
    "linear",
    "LightGBM, stopped on test",
    "LightGBM, 1000 trees",
    "LightGBM, stopped on train",
    "Gaussian process",
)
STOPPING_SHARE = 0.2
FEWEST_RUNS = 40  # LightGBM puts 20 in every leaf
PATIENCE_ROUNDS = 3  # LightGBM stops where either metric has not fallen for so many
SMOKE_DRAWS, SMOKE_BEST = 2000, 32
PACKAGES = ("lightgbm", "scikit-learn", "scipy", "botorch")


@dataclass(frozen=True, kw_only=True)
class RegMixPileConfig:
    """What is fitted, and where the results go."""

    runs: str = option(
        MISSING,
        "Folder with the tables train_mixture_SCALE.csv, train_pile_loss_SCALE.csv and the same"
        " for test. Test tables of other scales in it are ranked too.",
    )
    scale: str | None = option(
        None, "The SCALE to fit on, such as 1m, if there are training tables of several."
    )
    target: str | None = option(
        None,
        "Fit only this target and simulate its optimum. Default: fit all targets and simulate "
        "the optimum of pile_cc.",
    )
    prior: str | None = option(
        None,
        "File of the weights around which mixtures are simulated. Default: the Pile's token "
        "shares, or for other domains the mean of the training mixtures.",
    )
    normalise: bool = option(
        False,
        "Divide the weights of every run by their sum. The tables contain rounded weights, and "
        "the published numbers were computed with these.",
    )
    draws: int = option(100_000, "Number of simulated mixtures.", least=1, most=1_000_000)
    best: int = option(128, "Number of best mixtures that are averaged.")
    seed: int = option(
        42,
        "Seed of the simulated mixtures and of the split of the training runs.",
        least=0,
        below=2**31,
    )
    subsets: int = option(
        0,
        "Number of subsets of 24, 64 and 256 runs of that scale, whose intervals are compared "
        "with the optimum of all runs; takes long.",
        least=0,
    )
    out: str | None = option(None, "Folder of the run. Default: runs/regmix_pile-<time>.")
    smoke: bool = option(
        False,
        f"A run of seconds that only shows that all parts work: one target, {SMOKE_DRAWS} draws.",
    )

    def __post_init__(self) -> None:
        require_fields(self)
        if self.subsets and self.draws < BEST:
            raise ValueError(f"Expected draws >= {BEST} for --subsets, actual {self.draws}")
        if not 1 <= self.best <= min(self.draws, 4000):
            raise ValueError(f"Expected best in [1, draws] and <= 4000, actual {self.best}")

    @property
    def simulated(self) -> str:
        """The target whose optimum is simulated."""
        return self.target or "pile_cc"


@dataclass(frozen=True, kw_only=True)
class RegMixPileOptions:
    """All options."""

    run: RegMixPileConfig


def stopped_trees(
    runs: tuple[np.ndarray, np.ndarray], others: tuple[np.ndarray, np.ndarray]
) -> PointRegression:
    """Fits LightGBM until it predicts other runs no better.

    RegMix's notebook stops on the runs that it also tests on, so its figures are not those of
    unseen runs.

    Args:
        runs: Weights ``(N, K)`` and losses ``(N,)`` to fit to.
        others: The same of the runs on which the mean absolute or the mean squared error has not
            fallen for 3 trees where it stops.

    Raises:
        DataError: When the runs are too few.
    """
    if len(runs[0]) < FEWEST_RUNS:
        raise DataError(f"Expected at least {FEWEST_RUNS} runs for LightGBM, found {len(runs[0])}")
    lightgbm = require("lightgbm", "baselines")
    training = lightgbm.Dataset(*runs, params=LIGHTGBM)
    stopping = lightgbm.Dataset(*others, reference=training)
    stop = lightgbm.early_stopping(PATIENCE_ROUNDS, verbose=False)
    trees = lightgbm.train(LIGHTGBM, training, TREES, valid_sets=[stopping], callbacks=[stop])
    return PointRegression(kind="lightgbm", estimator=trees)


def fit_all(
    train: RunsTable, test: RunsTable, target: str, run: RegMixPileConfig
) -> dict[str, AnyRegression]:
    """Fits every regression of a target, in the order of `REGRESSIONS`."""
    losses = train.losses_of(target)
    order = np.random.default_rng(run.seed).permutation(len(losses))
    kept = len(losses) - max(1, round(STOPPING_SHARE * len(losses)))
    fitted, stopping = order[:kept], order[kept:]
    found = (
        fit_regression("linear", train.weights, losses),
        stopped_trees((train.weights, losses), (test.weights, test.losses_of(target))),
        fit_regression("lightgbm", train.weights, losses),
        stopped_trees((train.weights[fitted], losses[fitted]),
                      (train.weights[stopping], losses[stopping])),
        fit_gaussian_process(train.weights, losses),
    )  # fmt: skip
    return dict(zip(REGRESSIONS, found, strict=True))


def details(model: AnyRegression) -> dict[str, Any]:
    """Returns what a fit tells of itself."""
    if isinstance(model, GaussianProcess):
        return {"noise_nats_per_token": model.noise}
    if not isinstance(model, PointRegression) or model.kind == "linear":
        return {}
    best = model.estimator.best_iteration  # not positive where nothing could stop it
    return {"trees": best if best > 0 else model.estimator.num_trees()}


def correlations_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the correlations of every target as Markdown."""
    rows = []
    for target, row in results.items():
        values = [row[kind]["spearman_x100"] for kind in REGRESSIONS]
        rows.append([target, *("constant" if v is None else f"{v:.2f}" for v in values)])
    return markdown(["target", *REGRESSIONS], rows)


def correlate(
    train: RunsTable, tests: Mapping[str, RunsTable], stopping: str, run: RegMixPileConfig
) -> tuple[dict[str, dict[str, dict[str, Any]]], dict[str, AnyRegression]]:
    """Fits all targets and tests them on each scale.

    Args:
        train: The runs to fit on.
        tests: The runs to rank, by scale.
        stopping: The scale whose test runs may stop LightGBM: the training's own.
        run: The options.

    Returns:
        The results by scale and target, and the fits of `run.simulated`.
    """
    results: dict[str, dict[str, dict[str, Any]]] = {scale: {} for scale in tests}
    chosen: dict[str, AnyRegression] = {}
    one = run.target is not None or run.smoke
    with tqdm(
        (run.simulated,) if one else train.targets, desc="fit", unit="target", mininterval=0.5
    ) as bar:
        for target in bar:
            bar.set_postfix_str(target)
            models = fit_all(train, tests[stopping], target, run)
            for scale, test in tests.items():
                if target not in test.targets:
                    continue
                measured = test.losses_of(target)
                results[scale][target] = {
                    kind: {
                        "spearman_x100": spearman_x100(model.predict(test.weights), measured),
                        **(details(model) if scale == stopping else {}),
                    }
                    for kind, model in models.items()
                }
                if scale != stopping:
                    process = models["Gaussian process"].predict(test.weights)
                    held = scale_up_coverage(process, measured)
                    results[scale][target]["Gaussian process"]["scale_up_coverage"] = held
            if target == run.simulated:
                chosen = models
    return results, chosen


def scales_of(folder: Path, split: str) -> list[str]:
    """Returns the scales of which a folder holds both tables of a split."""
    weights, losses = (
        {path.stem.removeprefix(start) for path in folder.glob(f"{start}*.csv")}
        for start in (f"{split}_mixture_", f"{split}_pile_loss_")
    )
    return sorted(weights & losses)


def read_tables(run: RegMixPileConfig) -> tuple[str, RunsTable, dict[str, RunsTable]]:
    """Returns the scale that is fitted, its training runs, and the test runs of every scale."""
    folder = Path(run.runs)
    train = read_runs(folder, "train", scale=run.scale, normalise=run.normalise)
    own = run.scale or next(iter(scales_of(folder, "train")))
    others = [scale for scale in scales_of(folder, "test") if scale != own]
    tests = {
        scale: read_runs(folder, "test", scale=scale, normalise=run.normalise)
        for scale in (own, *others)
    }
    train.losses_of(run.simulated)  # it must be there before the others are fitted
    ordered = {
        scale: test.ordered(train.domains, [t for t in train.targets if t in test.targets])
        for scale, test in tests.items()
    }
    ordered[own] = tests[own].ordered(train.domains, train.targets)
    return own, train, ordered


def regmix_pile(options: RegMixPileOptions) -> None:
    """Fits, predicts, simulates, and writes the results."""
    run, cost = options.run, Cost()
    path = Path(run.out or f"runs/regmix_pile-{time.strftime('%Y%m%d-%H%M%S')}")
    folder = RunFolder(path)
    own, train, tests = read_tables(run)
    prior, source = prior_of(train, run.prior)
    config = dataclasses.asdict(run)
    tell(f"run: {', '.join(f'{key}={value}' for key, value in config.items())}")

    with cost.part("correlations"):
        by_scale, models = correlate(train, tests, own, run)
    results = by_scale[own]
    draws = min(run.draws, SMOKE_DRAWS) if run.smoke else run.draws
    best = min(run.best, SMOKE_BEST) if run.smoke else run.best
    with cost.part("optima"):
        optima = {
            kind: simulated_optimum(model, prior, draws=draws, best=best, seed=run.seed)
            for kind, model in tqdm(models.items(), desc="optima", unit="optimum", mininterval=0.5)
        }
    ends = {kind: intervals_of(models[kind], found) for kind, found in optima.items()}
    shares = dict(zip(train.domains, prior.tolist(), strict=True))
    content = {
        "runs": {"train": len(train.runs), "test": len(tests[own].runs)},
        "scale": own,
        "targets": results,
        "other_scales": {scale: row for scale, row in by_scale.items() if scale != own},
        "target": run.simulated,
        "prior": {"source": source, "shares": shares},
        "optimum": {kind: optimum_json(train, found, ends[kind]) for kind, found in optima.items()},
    }
    text = "".join(
        f"Spearman correlation x 100 on {len(tests[scale].runs)} runs of scale {scale}, fitted to "
        f"{len(train.runs)} of {own}, whose test runs stop the trees:\n\n"
        f"{correlations_table(row)}\n"
        for scale, row in by_scale.items()
    )
    for scale in (scale for scale in by_scale if scale != own):
        held = {
            target: row["Gaussian process"]["scale_up_coverage"]
            for target, row in by_scale[scale].items()
        }
        text += (
            f"Share of the other runs of scale {scale} in the 94 % intervals of a line that a few "
            f"calibrate, over {LARGE_SUBSETS} random choices:\n\n{scale_up_table(held)}\n"
        )
    text += (
        f"Weights of least predicted loss of {run.simulated}, the mean of the best {best} of "
        f"{draws} mixtures; the prior is {source}:\n\n"
        + optimum_table(prior, train, optima, ends["Gaussian process"])
    )
    if run.subsets:
        sizes = SIZES[:1] if run.smoke else SIZES
        measured = joined(train, tests[own])
        with cost.part("subsets"):
            optimum, found = coverage(measured, run.simulated, prior, draws, run.subsets, sizes)
        content["subsets"] = coverage_json(train.domains, optimum, found)
        text += (
            f"\nHow often the 94 % intervals of {run.subsets} subsets hold the optimum of all "
            f"{len(measured.runs)} runs:\n\n"
            f"{coverage_table(train.domains, optimum, found)}"
        )
    folder.write_json("config.json", {"name": "regmix_pile", "run": config})
    folder.write_json("results.json", results_of(content, options, run.seed, cost, PACKAGES))
    folder.write_text("table.md", text)
    print(text)
    print(f"In {path}: results.json, table.md.")


if __name__ == "__main__":
    run_main(regmix_pile, "regmix_pile", ABOUT, RegMixPileOptions)
