"""RegMix's regressions on tables of measured runs, held against its published figures."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from common import markdown, run_main
from tqdm import tqdm

from bydore_pyro.baselines.gaussian_process import GaussianProcess, fit_gaussian_process
from bydore_pyro.baselines.regmix import prior_of
from bydore_pyro.baselines.regression import PointRegression, fit_regression
from bydore_pyro.baselines.runs_table import RunsTable, read_runs
from bydore_pyro.baselines.simulated_optimum import SimulatedOptimum, simulated_optimum
from bydore_pyro.command_line import tell
from bydore_pyro.run_folder import RunFolder, provenance

ABOUT = """Fit the loss of measured runs to their mixture, by linear regression, LightGBM and a
Gaussian process, and predict runs that were not fitted: the rank correlation on every target. Then
the simulated optimum of one target by each regression. The tables are those of RegMix's repository
(https://github.com/sail-sg/regmix, folder data), or others of that form."""

REGRESSIONS = (
    "linear",
    "LightGBM, stopped on test",
    "LightGBM, 1000 trees",
    "LightGBM, stopped on train",
    "Gaussian process",
)
STOPPING_SHARE = 0.2
SMOKE_DRAWS, SMOKE_BEST = 2000, 32
PACKAGES = ("lightgbm", "scikit-learn", "scipy", "pandas")


@dataclass(frozen=True, kw_only=True)
class RegMixPileConfig:
    """What is fitted, and where the results go."""

    runs: str = field(
        metadata={
            "help": "Folder with the tables train_mixture_SCALE.csv, train_pile_loss_SCALE.csv and "
            "the same for test."
        }
    )
    scale: str | None = field(
        default=None, metadata={"help": "The SCALE, where the folder holds several, such as 1m."}
    )
    target: str = field(
        default="pile_cc", metadata={"help": "The target whose optimum is simulated."}
    )
    prior: str | None = field(
        default=None,
        metadata={
            "help": "File of weights, around which mixtures are simulated. If not given, the "
            "Pile's token shares; for other domains than the Pile's, the mean of the training "
            "mixtures."
        },
    )
    normalise: bool = field(
        default=False,
        metadata={
            "help": "Divide the weights of every run by their sum. The tables hold them rounded, "
            "and the published figures were found with them so."
        },
    )
    draws: int = field(default=100_000, metadata={"help": "Simulated mixtures."})
    best: int = field(default=128, metadata={"help": "How many of them are averaged."})
    seed: int = field(
        default=42, metadata={"help": "Seed of the simulated mixtures and of the split of train."}
    )
    out: str | None = field(
        default=None, metadata={"help": "Folder of the run; runs/regmix_pile-<time> if not given."}
    )
    smoke: bool = field(
        default=False,
        metadata={
            "help": "A run of seconds that only shows that all parts work: one target, one length "
            f"scale, {SMOKE_DRAWS} draws at most."
        },
    )

    def __post_init__(self) -> None:
        for name in ("runs", "target", "scale", "prior", "out"):
            if getattr(self, name) == "":
                raise ValueError(f"Expected a value for --{name}, found an empty one")
        if not 0 <= self.seed < 2**31:
            raise ValueError(f"Expected seed in [0, 2**31), actual {self.seed}")
        if not 1 <= self.draws <= 1_000_000:
            raise ValueError(f"Expected draws in [1, 1000000], actual {self.draws}")
        if not 1 <= self.best <= min(self.draws, 4000):
            raise ValueError(f"Expected best in [1, draws] and <= 4000, actual {self.best}")


@dataclass(frozen=True, kw_only=True)
class RegMixPileOptions:
    """All options."""

    run: RegMixPileConfig


def spearman(predicted: np.ndarray, measured: np.ndarray) -> float | None:
    """Returns the rank correlation times 100, None where one side is constant."""
    ranks = pandas.DataFrame({"predicted": predicted, "measured": measured})
    value = float(ranks.corr(method="spearman").iloc[0, 1])
    return None if np.isnan(value) else 100 * value


def fit_all(
    train: RunsTable, test: RunsTable, target: str, run: RegMixPileConfig
) -> dict[str, PointRegression | GaussianProcess]:
    """Fits every regression of a target, in the order of `REGRESSIONS`."""
    losses = train.losses_of(target)
    order = np.random.default_rng(run.seed).permutation(len(losses))
    kept = len(losses) - max(1, round(STOPPING_SHARE * len(losses)))
    fitted, stopping = order[:kept], order[kept:]
    scales: Any = "shared" if run.smoke else "per_domain"
    found = (
        fit_regression("linear", train.weights, losses),
        fit_regression("lightgbm", train.weights, losses,
                       evaluation=(test.weights, test.losses_of(target))),
        fit_regression("lightgbm", train.weights, losses),
        fit_regression("lightgbm", train.weights[fitted], losses[fitted],
                       evaluation=(train.weights[stopping], losses[stopping])),
        fit_gaussian_process(train.weights, losses, length_scales=scales),
    )  # fmt: skip
    return dict(zip(REGRESSIONS, found, strict=True))


def details(model: PointRegression | GaussianProcess, domains: Sequence[str]) -> dict[str, Any]:
    """Returns what a fit tells of itself."""
    if isinstance(model, GaussianProcess):
        return {
            "noise_nats_per_token": model.noise,
            "without_influence": [domains[place] for place in model.without_influence],
            "notes": list(model.notes),
        }
    return {} if model.trees is None else {"trees": model.trees}


def correlations_table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Returns the correlations of every target as Markdown."""
    rows = []
    for target, row in results.items():
        values = [row[kind]["spearman_x100"] for kind in REGRESSIONS]
        rows.append([target, *("constant" if v is None else f"{v:.2f}" for v in values)])
    return markdown(["target", *REGRESSIONS], rows)


def optimum_table(
    prior: np.ndarray, train: RunsTable, optima: Mapping[str, SimulatedOptimum]
) -> str:
    """Returns the optima as Markdown: the weights, and at the end the predicted loss."""
    process = optima["Gaussian process"]
    header = ["domain", "prior", *REGRESSIONS, f"its {process.probability:.0%} interval"]
    rows = []
    for place, name in enumerate(train.domains):
        weights = [f"{optima[kind].weights[place]:.4f}" for kind in REGRESSIONS]
        own = None if process.weights_interval is None else process.weights_interval[place]
        rows.append([name, f"{prior[place]:.4f}", *weights, interval(own, digits=4)])
    losses = [f"{optima[kind].loss:.3f}" for kind in REGRESSIONS]
    rows.append(["predicted loss", "", *losses, interval(process.loss_interval, digits=3)])
    return markdown(header, rows)


def interval(ends: np.ndarray | None, digits: int) -> str:
    """Returns an interval as text, nothing where there is none."""
    return "" if ends is None else " to ".join(f"{end:.{digits}f}" for end in ends)


def optimum_json(train: RunsTable, optimum: SimulatedOptimum) -> dict[str, Any]:
    """Returns an optimum as plain values."""
    content: dict[str, Any] = {
        "weights": dict(zip(train.domains, optimum.weights.tolist(), strict=True)),
        "predicted_loss_nats_per_token": optimum.loss,
    }
    if optimum.weights_interval is not None and optimum.loss_interval is not None:
        content["interval_probability"] = optimum.probability
        content["loss_interval_nats_per_token"] = optimum.loss_interval.tolist()
        intervals = optimum.weights_interval.tolist()
        content["weights_intervals"] = dict(zip(train.domains, intervals, strict=True))
    return content


def correlate(
    train: RunsTable, test: RunsTable, run: RegMixPileConfig
) -> tuple[dict[str, dict[str, Any]], dict[str, PointRegression | GaussianProcess]]:
    """Fits and tests all targets; returns the results by target, and the fits of `run.target`."""
    results: dict[str, dict[str, Any]] = {}
    chosen: dict[str, PointRegression | GaussianProcess] = {}
    targets = (run.target,) if run.smoke else train.targets
    with tqdm(targets, desc="fit", unit="target", mininterval=0.5) as bar:
        for target in bar:
            bar.set_postfix_str(target)
            models = fit_all(train, test, target, run)
            measured = test.losses_of(target)
            results[target] = {
                kind: {
                    "spearman_x100": spearman(model.predict(test.weights), measured),
                    **details(model, train.domains),
                }
                for kind, model in models.items()
            }
            if target == run.target:
                chosen = models
    return results, chosen


def regmix_pile(options: RegMixPileOptions) -> None:
    """Fits, predicts, simulates, and writes the results."""
    run, start = options.run, time.perf_counter()
    path = Path(run.out or f"runs/regmix_pile-{time.strftime('%Y%m%d-%H%M%S')}")
    folder = RunFolder(path)
    train, test = (
        read_runs(Path(run.runs), split, scale=run.scale, normalise=run.normalise)
        for split in ("train", "test")
    )
    test = test.ordered(train.domains, train.targets)
    train.losses_of(run.target)  # it must be there before the others are fitted
    prior, source = prior_of(train, run.prior)
    config = dataclasses.asdict(run)
    tell(f"run: {', '.join(f'{key}={value}' for key, value in config.items())}")

    results, models = correlate(train, test, run)
    draws = min(run.draws, SMOKE_DRAWS) if run.smoke else run.draws
    best = min(run.best, SMOKE_BEST) if run.smoke else run.best
    optima = {
        kind: simulated_optimum(model, prior, draws=draws, best=best, seed=run.seed)
        for kind, model in tqdm(models.items(), desc="optima", unit="optimum", mininterval=0.5)
    }
    facts = provenance()
    facts["versions"] |= {name: importlib.metadata.version(name) for name in PACKAGES}
    shares = dict(zip(train.domains, prior.tolist(), strict=True))
    folder.write_json("config.json", {"name": "regmix_pile", "run": config})
    folder.write_json(
        "results.json",
        {
            "runs": {"train": len(train.runs), "test": len(test.runs)},
            "targets": results,
            "target": run.target,
            "prior": {"source": source, "shares": shares},
            "optimum": {kind: optimum_json(train, found) for kind, found in optima.items()},
            "seed": run.seed,
            "seconds": time.perf_counter() - start,
            **facts,
        },
    )
    table = (
        f"Spearman correlation x 100 on {len(test.runs)} runs, fitted to {len(train.runs)}:\n\n"
        f"{correlations_table(results)}\n"
        f"Weights of least predicted loss of {run.target}, the mean of the best {best} of {draws} "
        f"mixtures; the prior is {source}:\n\n"
        f"{optimum_table(prior, train, optima)}"
    )
    folder.write_text("table.md", table)
    print(table)
    for target, row in results.items():
        process = row["Gaussian process"]
        if process["without_influence"]:
            names = ", ".join(process["without_influence"])
            print(f"No influence on {target} is seen of {names} (Gaussian process).")
        for note in process["notes"]:
            print(f"Gaussian process of {target}: {note}")
    print(f"In {path}: results.json, table.md.")


if __name__ == "__main__":
    run_main(regmix_pile, "regmix_pile", ABOUT, RegMixPileOptions)
