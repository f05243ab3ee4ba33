"""Regressions on tables of others' finished runs: how well each predicts the other runs."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import leave, markdown, rank_of, run_main, table_run
from regressions import KINDS, Kind, Rival, fit_regression, intervals_of
from tqdm import tqdm

from bydore_pyro.command_line import Checked, option
from bydore_pyro.errors import DataError
from bydore_pyro.proxy import Cost
from bydore_pyro.tables import REACH, Either, RunsRegression, RunsTable, read_runs, worth_of

ABOUT = """Fit our regression and its rivals to few of the runs of published tables, and predict
the others. Reported are rank correlations a target and of the targets' mean, errors, the regret of
the first choice, and how many losses lie in their 94 % intervals. Each folder of --runs holds one
table; RegMix's test runs, where a folder has them, are predicted instead of the rest. Where it has
runs to fit of another model alone, 32 of these also tell the law what domains are worth. At last
all runs are fitted once; nine tenths, where none are apart."""

LAW: Kind = "law"
SCALED_UP = "law, from a smaller model's runs"  # `--scale_up`
SMALLER, MOST_SCALED_UP = 32, 16  # runs of the smaller model; of the larger, at most
COUNTS = (6, 10, 16, 32, 64)
FEWEST_TREES = 40
MOST_TESTED = 256
PACKAGES = ("lightgbm", "scikit-learn", "scipy", "botorch")


@dataclass(frozen=True, kw_only=True)
class TablesConfig(Checked):
    """Which runs are fitted, and where the results go."""

    runs: list[str] = option(MISSING, "Folders of tables, in RegMix's or olmix's format.")
    groups: str | None = option(
        None, "JSON file of olmix's groups: metrics to drop, and the weights of MMLU's four means."
    )
    draws: int = option(5, "Random choices of the fitted runs.", least=1, most=1000)
    seed: int = option(0, "Seed of the choices.", least=0, below=2**31)
    out: str | None = option(None, "Folder of the run. Default: runs/tables-<time>.")
    smoke: bool = option(False, "Run for seconds, only to check that all parts work.")


@dataclass(frozen=True, kw_only=True)
class TablesOptions:
    """All options."""

    run: TablesConfig


class Runs(NamedTuple):
    """Runs to fit on, the targets' own domains (-1 for none), runs to predict, if apart, and runs
    of a smaller model."""

    weights: np.ndarray
    losses: np.ndarray
    own: list[int]
    test: tuple[np.ndarray, np.ndarray] | None = None
    smaller: tuple[np.ndarray, np.ndarray] | None = None


def read_tables(folders: Sequence[str], groups: Path | None) -> dict[str, Runs]:
    """Returns the tables by name; RegMix's scales are tables of their own."""
    found: dict[str, Runs] = {}
    for folder in map(Path, folders):
        if (folder / "ratios.csv").exists():
            table = read_runs(folder)
            losses = grouped(table, folder.name, groups)
            found[folder.name] = Runs(table.weights, losses, [-1] * losses.shape[1])
            continue
        for path in sorted(folder.glob("*_mixture_*.csv")):
            split, scale = path.stem.split("_mixture_")
            table, other = read_runs(path), path.with_name(f"test_mixture_{scale}.csv")
            apart = split == "train" and other.exists()
            if split == "train" or not path.with_name(f"train_mixture_{scale}.csv").exists():
                own = [table.domains.index(n) if n in table.domains else -1 for n in table.targets]
                known = other if apart else next(folder.glob("train_mixture_*.csv"), None)
                rest = None if known is None else read_runs(known)
                also = None if rest is None else (rest.weights, rest.losses)
                beside = (also, None) if apart else (None, also)
                found[f"{folder.name} {scale}"] = Runs(table.weights, table.losses, own, *beside)
    if not found:
        raise DataError(f"Expected tables of runs in {', '.join(folders)}, found none")
    return found


def grouped(table: RunsTable, name: str, groups: Path | None) -> np.ndarray:
    """Returns the losses of olmix's tasks ``(N, T)``: all metrics without groups."""
    if groups is None:
        return table.losses
    known = json.loads(groups.read_text(encoding="utf-8"))
    dropped = known["drop"].get(name, [])
    alone = [n for n in table.targets if n not in dropped and not n.startswith("mmlu")]
    means = [{n: 1.0} for n in alone] + list(known["mmlu"].values())
    rows = [sum(w * table.losses_of(n) for n, w in shares.items()) for shares in means]
    return np.stack(rows, 1)


def chosen(runs: Runs, count: int, draw: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the places of fitted runs and, where none are apart, of those that are predicted."""
    order = np.random.default_rng([seed, draw, count]).permutation(len(runs.weights))
    return order[:count], order[count:][:MOST_TESTED]


def scores_of(
    model: RunsRegression | Rival, weights: np.ndarray, measured: np.ndarray
) -> dict[str, float]:
    """Returns how well a regression predicts losses ``(S, T)``; errors in units of a target's
    standard deviation."""
    predicted = model.predict(weights)
    of_mean, true = predicted.mean(1), measured.mean(1)
    columns = zip(predicted.T, measured.T, strict=True)
    errors = np.sqrt(np.square(predicted - measured).mean(0)) / measured.std(0)
    found = {
        "spearman_of_a_target": np.mean([rank_of(p, m) for p, m in columns]),
        "spearman_of_the_mean": rank_of(of_mean, true),
        "rmse": errors.mean(),
        "regret": (true[of_mean.argmin()] - true.min()) / true.std(),
    }
    if isinstance(model, RunsRegression) or model.knows_deviation:
        low, high = np.moveaxis(intervals_of(model, weights), -1, 0)
        found["held"] = 100 * np.mean((low < measured) & (measured < high))
        half = REACH * model.deviation(weights).mean(1)
        found["held_of_the_mean"] = 100 * np.mean(np.abs(of_mean - true) < half)
    return {name: float(value) for name, value in found.items()}


def all_scores(runs: Runs, count: int, draw: int, seed: int) -> dict[str, dict[str, float]]:
    """Returns the scores of every regression that so many runs are enough for."""
    fitted, rest = chosen(runs, count, draw, seed)
    tested = runs.test or (runs.weights[rest], runs.losses[rest])
    targets, found = runs.losses.shape[1], dict[str, dict[str, float]]()
    processes, units = list[Any](), np.ones(targets)
    given: dict[str, Any] = {"weights": runs.weights[fitted], "losses": runs.losses[fitted]}
    given |= {"own": runs.own}
    for kind in KINDS:
        start = time.perf_counter()
        if kind == "lightgbm" and count < FEWEST_TREES:
            continue
        seconds = {}
        if kind == "gaussian_process" and len(processes) == targets:
            # The same processes: they are not fitted twice.
            model: RunsRegression | Rival = Rival(models=processes, units=units)
        else:
            model = fit_regression(kind, **given)
            seconds = {"seconds": time.perf_counter() - start}
        if isinstance(model, RunsRegression):
            processes = [one.process for one in model.models if isinstance(one, Either)]
            units = model.units
        found[kind] = scores_of(model, *tested) | seconds
    if runs.smaller is not None and count <= MOST_SCALED_UP:
        small = np.random.default_rng([seed, draw]).permutation(len(runs.smaller[0]))[:SMALLER]
        worth = worth_of(runs.smaller[0][small], runs.smaller[1][small], runs.own)
        start = time.perf_counter()
        model = fit_regression(LAW, **given, worth=worth)
        seconds = {"seconds": time.perf_counter() - start}
        found[SCALED_UP] = scores_of(model, *tested) | seconds
    return found


def results_table(results: Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]) -> str:
    """Returns the scores of every table as Markdown."""
    header = [
        "runs",
        "",
        "Spearman a target",
        "of the mean",
        "rmse / sd",
        "regret / sd",
        "held, %",
        "of the mean, %",
        "seconds a fit",
    ]
    text = ""
    for name, counts in results.items():
        rows = []
        for count, kinds in counts.items():
            for kind, s in kinds.items():
                held = [f"{s[k]:.0f}" if k in s else "" for k in ("held", "held_of_the_mean")]
                ranks = [f"{s[f'spearman_of_{k}']:.3f}" for k in ("a_target", "the_mean")]
                off = [f"{s[k]:.2f}" for k in ("rmse", "regret")]
                seconds = f"{s['seconds']:.1f}" if "seconds" in s else ""
                rows.append([count, kind, *ranks, *off, *held, seconds])
        text += f"{name}:\n\n{markdown(header, rows)}\n"
    return text


def pieces_of(runs: Runs, run: TablesConfig) -> list[tuple[int, int]]:
    """Returns the numbers of fitted runs and the draws, draw by draw."""
    total = len(runs.weights)
    most = total if runs.test is not None else total - 3
    counts = [n for n in COUNTS if n <= most - 3][: 1 if run.smoke else None]
    found = [(count, draw) for draw in range(run.draws) for count in counts]
    if run.smoke:
        return found
    return [*found, (total if runs.test is not None else round(0.9 * total), 0)]


def tables(options: TablesOptions, resume: Path | None) -> None:
    """Fits, predicts, and writes the results."""
    run, cost = options.run, Cost()
    known = read_tables(run.runs, None if run.groups is None else Path(run.groups))
    folder = table_run("tables", run, resume)
    pieces = [(name, *piece) for name, runs in known.items() for piece in pieces_of(runs, run)]
    pieces.sort(key=lambda piece: (piece[1] > max(COUNTS), piece[2], piece[1]))
    found: dict[str, dict[str, dict[str, list[dict[str, float]]]]] = {name: {} for name in known}
    with cost.part("fit"):
        for name, count, draw in tqdm(pieces, desc="fit", unit="choice of runs", mininterval=0.5):
            scores = partial(all_scores, known[name], count, draw, run.seed)
            for kind, one in folder.kept(f"{name} {count} {draw}").get_or(scores).items():
                found[name].setdefault(str(count), {}).setdefault(kind, []).append(one)
    means = {
        name: {
            count: {
                kind: {k: float(np.mean([row[k] for row in rows])) for k in rows[0]}
                for kind, rows in kinds.items()
            }
            for count, kinds in sorted(counts.items(), key=lambda item: int(item[0]))
        }
        for name, counts in found.items()
    }
    content = {"tables": means}
    leave(folder, options, content, cost, results_table(means), packages=PACKAGES)


if __name__ == "__main__":
    run_main(tables, "tables", ABOUT, TablesOptions, resumable=True)
