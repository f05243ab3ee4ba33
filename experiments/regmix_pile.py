"""RegMix's regressions on tables of measured runs, held against its published figures."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import leave, markdown, run_main
from regressions import Rival, fit_regression, intervals_of
from tqdm import tqdm

from bydore_pyro.command_line import Checked, option
from bydore_pyro.errors import DataError, require
from bydore_pyro.files import RunFolder
from bydore_pyro.methods import LIGHTGBM, TREES, simulated_optimum
from bydore_pyro.mixture import by_name
from bydore_pyro.proxy import Cost
from bydore_pyro.tables import RunsTable, prior_of, read_runs, spearman_x100

ABOUT = """Regress the loss of measured runs on their mixture by linear regression, LightGBM and a
Gaussian process, and report for every target the rank correlation with runs that were not fitted.
Then find the simulated optimum of one target by each regression. The tables are those of RegMix's
repository (https://github.com/sail-sg/regmix, folder data), or others in the same format."""

REGRESSIONS = ("linear", "LightGBM, stopped on test", "LightGBM, 1000 trees", "Gaussian process")
PATIENCE_ROUNDS = 3  # LightGBM stops where either metric has not fallen for so many
SMOKE_DRAWS = 2000
PACKAGES = ("lightgbm", "scikit-learn", "scipy", "botorch")


@dataclass(frozen=True, kw_only=True)
class RegMixPileConfig(Checked):
    """What is fitted, and where the results go."""

    runs: str = option(
        MISSING,
        "Folder with the tables train_mixture_SCALE.csv, train_pile_loss_SCALE.csv and the same"
        " for test. Test tables of other scales in it are ranked too.",
    )
    target: str | None = option(
        None,
        "Fit only this target and simulate its optimum. Default: fit all targets and simulate "
        "the optimum of pile_cc.",
    )
    draws: int = option(100_000, "Number of simulated mixtures.", least=128, most=1_000_000)
    out: str | None = option(None, "Folder of the run. Default: runs/regmix_pile-<time>.")
    smoke: bool = option(
        False,
        f"A run of seconds that only shows that all parts work: one target, {SMOKE_DRAWS} draws.",
    )


@dataclass(frozen=True, kw_only=True)
class RegMixPileOptions:
    """All options."""

    run: RegMixPileConfig


def read_tables(folder: Path) -> tuple[RunsTable, dict[str, RunsTable]]:
    """Returns the training runs, and the test runs by scale, that of the training first.

    Weights are taken as they were rounded, as for the published figures.
    """
    paths = sorted(folder.glob("train_mixture_*.csv"))
    if len(paths) != 1:
        raise DataError(f"Expected one train_mixture_SCALE.csv in {folder}, found {len(paths)}")
    own = paths[0].stem.removeprefix("train_mixture_")
    scales = [path.stem.removeprefix("test_mixture_") for path in folder.glob("test_mixture_*.csv")]
    return read_runs(paths[0], normalise=False), {
        scale: read_runs(folder / f"test_mixture_{scale}.csv", normalise=False)
        for scale in (own, *sorted({*scales} - {own}))
    }


def stopped_trees(
    runs: tuple[np.ndarray, np.ndarray], others: tuple[np.ndarray, np.ndarray]
) -> Rival:
    """Fits LightGBM to weights ``(N, K)`` and losses ``(N,)`` until it predicts others no better.

    It stops where the mean absolute or squared error on the others has not fallen for 3 trees.
    RegMix's notebook stops on the runs that it also tests on, so its figures are not those of
    unseen runs.
    """
    lightgbm = require("lightgbm", "baselines")
    training = lightgbm.Dataset(*runs, params=LIGHTGBM)
    stopping = lightgbm.Dataset(*others, reference=training)
    stop = lightgbm.early_stopping(PATIENCE_ROUNDS, verbose=False)
    trees = lightgbm.train(LIGHTGBM, training, TREES, valid_sets=[stopping], callbacks=[stop])
    return Rival(models=(trees,), units=np.ones(1))


def mixtures_of(test: RunsTable, train: RunsTable) -> np.ndarray:
    """Returns the test runs' weights ``(N, K)`` in the order of the training's domains."""
    if {*test.domains} != {*train.domains}:
        raise DataError(f"Expected the domains {', '.join(train.domains)} in both tables")
    return test.weights[:, [test.domains.index(name) for name in train.domains]]


def fit_all(
    train: RunsTable, target: str, test: np.ndarray, measured: np.ndarray
) -> dict[str, Any]:
    """Fits every regression of a target; the test's weights and losses may stop the trees."""
    weights, losses = train.weights, train.losses_of(target)
    models = (
        fit_regression("linear", weights, losses),
        stopped_trees((weights, losses), (test, measured)),
        fit_regression("lightgbm", weights, losses),
        fit_regression("gaussian_process", weights, losses),
    )
    return dict(zip(REGRESSIONS, models, strict=True))


def losses_of(model: Any, weights: np.ndarray) -> np.ndarray:
    """Returns what a regression of one target predicts of mixtures ``(S, K)``, ``(S,)``."""
    predicted: np.ndarray = model.predict(weights)[:, 0]
    return predicted


def scores_of(
    models: Mapping[str, Any], test: np.ndarray, measured: np.ndarray, own: bool
) -> dict[str, float | None]:
    """Returns every regression's rank correlation, and of runs of its own scale the share inside
    of the process's intervals in per cent."""
    row = {kind: spearman_x100(losses_of(model, test), measured) for kind, model in models.items()}
    if own:
        low, high = intervals_of(models["Gaussian process"], test)[:, 0].T
        row["% in its 94 % intervals"] = 100 * float(((low < measured) & (measured < high)).mean())
    return row


def scores_table(scores: Mapping[str, Mapping[str, float | None]]) -> str:
    """Returns the scores of every target as Markdown."""
    rows = [
        [target, *("constant" if v is None else f"{v:.2f}" for v in row.values())]
        for target, row in scores.items()
    ]
    return markdown(["target", *next(iter(scores.values()))], rows)


def regmix_pile(options: RegMixPileOptions) -> None:
    """Fits, predicts, simulates, and writes the results."""
    run, cost = options.run, Cost()
    path = Path(run.out or f"runs/regmix_pile-{time.strftime('%Y%m%d-%H%M%S')}")
    folder = RunFolder(path)
    train, tests = read_tables(Path(run.runs))
    own, simulated = next(iter(tests)), run.target or "pile_cc"
    train.losses_of(simulated)  # it must be there before the others are fitted
    weights = {scale: mixtures_of(test, train) for scale, test in tests.items()}
    prior, source = prior_of(train)
    scores: dict[str, dict[str, dict[str, float | None]]] = {scale: {} for scale in tests}
    models = {}
    targets = (simulated,) if run.target or run.smoke else train.targets
    with cost.part("correlations"):
        for target in tqdm(targets, desc="fit", unit="target", mininterval=0.5):
            found = fit_all(train, target, weights[own], tests[own].losses_of(target))
            for scale, test in tests.items():
                given = (weights[scale], test.losses_of(target))
                scores[scale][target] = scores_of(found, *given, scale == own)
            if target == simulated:
                models = found
    draws = min(run.draws, SMOKE_DRAWS) if run.smoke else run.draws
    with cost.part("optima"):
        optima = {
            kind: simulated_optimum(partial(losses_of, model), prior, draws)
            for kind, model in models.items()
        }
    text = "".join(
        f"Spearman correlation x 100 on {len(tests[scale].runs)} runs of scale {scale}, fitted to "
        f"{len(train.runs)} of {own}, whose test runs stop the trees:\n\n{scores_table(rows)}\n"
        for scale, rows in scores.items()
    )
    columns = np.stack([prior, *optima.values()], 1)  # (K, regressions and the prior)
    rows = [[n, *(f"{x:.4f}" for x in row)] for n, row in zip(train.domains, columns, strict=True)]
    losses = {
        kind: float(model.predict(optima[kind][None])[0, 0]) for kind, model in models.items()
    }
    rows.append(["predicted loss", "", *(f"{loss:.3f}" for loss in losses.values())])
    text += f"Weights of least predicted loss of {simulated}; the prior is {source}:\n\n"
    text += markdown(["domain", "prior", *optima], rows)
    content = {
        "scale": own,
        "scores": scores,
        "target": simulated,
        "optimum": {kind: by_name(train.domains, w) for kind, w in optima.items()},
        "predicted_loss_nats_per_token": losses,
    }
    folder.write_json("config.json", {"name": "regmix_pile", "run": vars(run)})
    leave(folder, options, content, cost, text, packages=PACKAGES, seed=42)


if __name__ == "__main__":
    run_main(regmix_pile, "regmix_pile", ABOUT, RegMixPileOptions)
