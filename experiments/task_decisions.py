"""Mixtures for groups of tasks, by responses, by gradients and by other methods, trained afresh."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import FRESH_SEED, leave, markdown, rounded, run_main, table_run, with_error
from response_ranks import KNOWN, Measured, read_known, read_search
from task_rivals import MERGED, METHODS, fitted, merged_losses, rivals

from bydore_pyro import answer, core, files, measure, mixture, search, setup, trials
from bydore_pyro.command_line import Checked, option
from bydore_pyro.proxy import Cost

ABOUT = """For groups of targets of finished searches that measured branches, train the mixtures of
all ways afresh, as bydore train does, with a rate that decays, a fresh model for each search, and
judge them on other documents of the targets; compare what was predicted of them with what they
lose. Rivals are other methods on the same text and, with a table of trained mixtures, the best of
its runs, merged branches, and regressions on some runs."""

UNIFORM, NATURAL = "uniform", "natural"
LAW = "law"
FORECAST = (LAW, "composition", "gradients")  # ways whose losses are predicted
TRIALS = "trials"
WITHOUT_TARGET = ("doremi",)  # among the methods


@dataclass(frozen=True, kw_only=True)
class TaskDecisionsConfig(Checked):
    """What is compared, and where the results go."""

    search: list[str] = option(MISSING, "Folders of the finished searches.", positional="SEARCH")
    judge: list[str] = option(
        [], "Files of other documents of the targets, of the same names. Default: the targets."
    )
    groups: str | None = option(
        None, "JSON file of groups of targets: lists of names by name. Default: all in one."
    )
    known: str | None = option(None, KNOWN + " With it, rivals are trained too.")
    runs: list[int] = option([16], "How many of the known runs a regression learns from.")
    ways: list[str] = option(
        [],
        "Ways whose mixtures are trained, as the table names them, beside the law and --methods. "
        "Default: all.",
    )
    methods: list[str] = option(
        [],
        f"Other methods: {', '.join(METHODS)}; the last is the paper's search. NAME=N: for the "
        "first N searches that have rivals alone.",
    )
    budget: float = option(
        6.0, "What each of them may spend, in plain trainings of the proxy.", above=0
    )
    rivals: int | None = option(
        None,
        "Of how many of the searches, from the first, rivals' mixtures and those of trials are "
        "trained. Default: all.",
        least=0,
    )
    trials: int = option(0, "Trial runs of the way that tries.", least=0, most=4)
    tried: list[str] = option(["all"], "Groups of targets for which it tries.")
    proxies: str | None = option(None, "Folder of finished models. Default: in --out.")
    seed: int = option(0, "Of the choice of known runs.", least=0, below=2**31)
    out: str | None = option(None, "Folder of the run. Default: runs/task_decisions-<time>.")
    smoke: bool = option(False, "Run for seconds, only to check that all parts work.")

    def __post_init__(self) -> None:
        super().__post_init__()
        for entry in self.methods:
            name, equals, count = entry.partition("=")
            if name not in METHODS or (equals and not count.isdecimal()):
                raise ValueError(f"Expected {', '.join(METHODS)} or NAME=N, found '{entry}'")

    def takes(self, way: str) -> bool:
        """Returns whether the mixtures of a way are trained."""
        return not self.ways or way in (LAW, *self.ways)

    def has_rivals(self, number: int) -> bool:
        """Returns whether a search has rivals beside it, by its place."""
        return self.rivals is None or number < self.rivals

    def methods_of(self, number: int) -> list[str]:
        """Returns the other methods that a search has beside it, by its place."""
        if not self.has_rivals(number):
            return []
        pairs = (entry.partition("=") for entry in self.methods)
        return [name for name, _, count in pairs if not count or number < int(count)]


@dataclass(frozen=True, kw_only=True)
class TaskDecisionsOptions:
    """All options."""

    run: TaskDecisionsConfig


def shown(run: Measured, targets: setup.Targets) -> dict[str, Any]:
    """Returns the mean responses of domains and targets, each branch in units of its size."""
    of_domains = measure.samples_of(run.branches)
    rows = {name: one.gradients.double().mean(0) for name, one in of_domains.items()}
    size = torch.stack([*rows.values()]).norm(dim=0)
    last = targets.rounds[-1]
    of_targets = {}
    for name in targets.importance:
        if (responses := (last.parts or {name: last})[name].responses) is not None:
            of_targets[name] = responses.target.gradients.double().mean(0)
    return {
        "branches": [", ".join(one.domains) for one in run.branches],
        "domains": {name: (row / size).tolist() for name, row in rows.items()},
        "targets": {name: (row / size).tolist() for name, row in of_targets.items()},
    }


@dataclass(frozen=True)
class Proposed:
    """The mixtures of one search for a group, and what it predicts of them.

    Attributes:
        weights: Of each way ``(K,)``.
        forecast: Of all mixtures.
    """

    weights: Mapping[str, np.ndarray]
    forecast: answer.Forecast


def proposed(
    run: Measured, names: Sequence[str], config: TaskDecisionsConfig, proxies: Path, *, tries: bool
) -> Proposed:
    """Returns the mixtures of the ways of a search for some targets; one may try."""
    seed, domains = run.options.run.seed, run.of(names)
    targets = run.targets(domains)
    question = setup.question_of(run.options, domains)
    forecast = targets.forecast(run.readings, seed)
    if forecast is None:
        raise ValueError(f"Expected a search that read the losses of all domains, found {run.path}")
    gradients = core.draw_posterior(targets.gradients, seed=seed)
    found = {
        LAW: answer.best_of(forecast, question).decision.weights,
        "composition": targets.drawn.weights.mean(0),
        "gradients": gradients.weights.mean(0),
    }
    if config.trials and tries and config.takes(TRIALS):
        tried = replace(run.options.search, trials=config.trials)
        plan = search.trial_plan(replace(run.options, search=tried), domains, proxies / "trials")
        # Else none are run: the law decides for tasks whose responses were measured.
        uncovered = replace(targets.found, left_out=None, of_gradients=1.0)
        asked = replace(targets, found=uncovered)
        one, _ = search.answered(question, asked, run.readings, plan, Cost(), seed=seed)
        found[TRIALS] = setup.weights_in(one.mixture, domains)
    taken = {way: weights.numpy() for way, weights in found.items() if config.takes(way)}
    return Proposed(taken, forecast)


def others_of(
    run: Measured,
    number: int,
    groups: Mapping[str, Sequence[str]],
    config: TaskDecisionsConfig,
    folder: files.RunFolder,
    cost: Cost,
) -> dict[str, dict[str, np.ndarray]]:
    """Returns the mixtures of rivals beside a search, by group and way.

    Raises:
        ValueError: When a way is asked for that there is not; the first search says so.
    """
    seed, offered = run.options.run.seed, {*FORECAST, TRIALS}
    found: dict[str, dict[str, np.ndarray]] = {group: {} for group in groups}
    if config.has_rivals(number) and config.known is not None:
        known = read_known(Path(config.known), run.domains.names)
        merged: Mapping[str, np.ndarray] = {}
        if config.takes(MERGED):
            compute = partial(merged_losses, run, known.weights)
            with cost.part("merged"):
                merged = folder.kept(f"merged-{seed}").get_or(compute)
        for group, of in groups.items():
            given = rivals(known, of, merged, config.runs, config.seed + seed)
            found[group] |= {way: own for way, own in given.items() if config.takes(way)}
            offered |= {*given, MERGED}
    if number == 0 and (unknown := {*config.ways} - offered):
        raise ValueError(f"Expected --ways of {sorted(offered)}, found {sorted(unknown)}")
    with cost.part("methods"):
        for method, (group, of) in itertools.product(config.methods_of(number), groups.items()):
            place = f"methods-{seed}"
            which = "any" if method in WITHOUT_TARGET else group.replace(" ", "-")
            label = f"{method}-{which}"
            fit = partial(fitted, run, of, method, config.budget, folder.path / place, label)
            own = folder.kept(f"{place}/{label}").get_or(fit)
            found[group][method] = np.array([own[name] for name in run.domains.names])
    return found


def groups_in(path: str | None, run: Measured) -> dict[str, list[str]]:
    """Returns the groups of targets in a file; without one all of a search's in one."""
    if path is None:
        return {"all": [*run.domains.validation_shares]}
    groups: dict[str, list[str]] = files.plain_json(Path(path).read_text(encoding="utf-8"))
    return groups


def judged(run: Measured, judge: Sequence[str], seed: int, proxies: Path) -> trials.Problem:
    """Returns the problem whose models are read on the documents in files that judge, or without
    any on the targets'."""
    options = run.options
    if judge:
        question = replace(options.question, validation=[str(Path(file)) for file in judge])
        options = replace(options, question=question)
    options = replace(options, run=replace(options.run, seed=seed))
    domains = setup.domains_of(options, setup.load_domains(options).corpus, seed, search=True)
    if {*domains.validation_shares} != {*run.domains.validation_shares}:
        raise ValueError("Expected files to judge with of the targets' names, found others")
    return search.plain_problem(options, domains, proxies).read_on_all()


def trained(
    problem: trials.Problem, mixtures: Mapping[str, np.ndarray], seed: int
) -> dict[str, Mapping[str, float]]:
    """Returns the losses of a fresh model on each mixture ``(K,)``, on all that is read."""
    planned = []
    for weights in mixtures.values():
        row = (weights / weights.sum()).round(9)
        shares = mixture.by_name(problem.names, row / row.sum())
        kept = {name: share for name, share in shares.items() if share > 0}
        planned.append(trials.PlannedRun(weights=kept, steps=problem.steps, seed=seed))
    done = trials.train_runs(problem, planned, "fresh models")
    return {name: one.losses for name, one in zip(mixtures, done, strict=True)}


def compared(
    found: Mapping[str, Proposed],
    groups: Mapping[str, Sequence[str]],
    mixtures: Mapping[str, np.ndarray],
    losses: Mapping[str, Mapping[str, float]],
) -> tuple[dict[str, dict[str, float]], list[dict[str, Any]]]:
    """Returns, of one search, by how much the mixtures of each way change the mean of each group
    from uniform weights; and what was predicted of each target beside what was measured."""

    def change(name: str, target: str) -> float:
        return losses[name][target] - losses[UNIFORM][target]

    means: dict[str, dict[str, float]] = {}
    rows: list[dict[str, Any]] = []
    for group, members in groups.items():
        ways = [name.removesuffix(f", {group}") for name in mixtures if name.endswith(f", {group}")]
        labels = {way: f"{way}, {group}" for way in ways} | {NATURAL: NATURAL}
        means[group] = {
            way: float(np.mean([change(label, n) for n in members]))
            for way, label in labels.items()
        }
        for way in [way for way in (*FORECAST, NATURAL) if way in labels]:
            pair = [torch.from_numpy(mixtures[n]).double() for n in (labels[way], UNIFORM)]
            told = found[group].forecast.difference(*pair)
            measured = {name: change(labels[way], name) for name in members}
            if len(members) > 1:
                measured[found[group].forecast.texts[-1]] = means[group][way]
            for target, value in measured.items():
                one = told[target]
                rows.append(
                    {
                        **{"group": group, "way": way, "target": target, "predicted": one.loss},
                        **{"low": one.low, "high": one.high, "measured": value},
                    }
                )
    return means, rows


def held(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Returns how well predictions hold."""
    predicted, measured = (np.array([r[k] for r in rows]) for k in ("predicted", "measured"))
    return {
        "predictions": len(rows),
        "share": float(np.mean([r["low"] <= r["measured"] <= r["high"] for r in rows])),
        "slope": float(predicted @ measured / (predicted @ predicted)),
        "bias": float(np.mean(measured - predicted)),
        "error": float(np.sqrt(np.mean((measured - predicted) ** 2))),
        "width": float(np.mean([r["high"] - r["low"] for r in rows])),
    }


def task_decisions(options: TaskDecisionsOptions, resume: Path | None) -> None:
    """Trains the mixtures of all ways, and compares them and what was predicted of them."""
    config, cost = options.run, Cost()
    folder = table_run("task_decisions", config, resume)
    proxies = folder.path / "proxies" if config.proxies is None else Path(config.proxies)
    searches: list[dict[str, Any]] = []
    problem = None
    for number, path in enumerate(config.search):
        run, beside = read_search(Path(path)), config.has_rivals(number)
        seed = run.options.run.seed
        groups = groups_in(config.groups, run)
        problem = problem or judged(run, config.judge, config.seed, proxies)
        with cost.part("targets"):
            found = {
                group: proposed(run, of, config, proxies, tries=beside and group in config.tried)
                for group, of in groups.items()
            }
            of_search = shown(run, run.targets(run.domains))
        mixtures = {n: setup.weights_of(n, run.domains).numpy() for n in (UNIFORM, NATURAL)}
        others = others_of(run, number, groups, config, folder, cost)
        for group, one in found.items():
            for way, shares in (*one.weights.items(), *others[group].items()):
                mixtures[f"{way}, {group}"] = shares
        with cost.part("fresh"):
            losses = trained(problem, mixtures, FRESH_SEED + seed)
        means, rows = compared(found, groups, mixtures, losses)
        weights = {n: mixture.by_name(problem.names, w) for n, w in mixtures.items()}
        searches.append(
            {
                **{"search": path, "responses": of_search, "weights": weights},
                **{"means": means, "rows": rows},
            }
        )
    rows = [row for one in searches for row in one["rows"]]
    ways = dict.fromkeys(row["way"] for row in rows)
    content = {
        "searches": searches,
        "held": {way: held([row for row in rows if row["way"] == way]) for way in ways},
    }
    content = rounded(content, 5)
    leave(folder, options, content, cost, table_of(content), "task_responses", seed=config.seed)


def table_of(content: Mapping[str, Any]) -> str:
    """Returns the results as tables."""
    searches, found = content["searches"], []
    groups = [*searches[0]["means"]]
    ways = list(
        dict.fromkeys(way for one in searches for of in one["means"].values() for way in of)
    )
    rows, against = [], []
    for way in ways:
        both = [
            [(m[way], m[ways[0]]) for m in _of(searches, group) if way in m] for group in groups
        ]
        count = str(max(map(len, both)))
        rows.append([way, count, *(_text([own for own, _ in of]) for of in both)])
        less = [[first - own for own, first in of] for of in both]
        better, worse = (
            [_beyond(sign * np.array(of)) for of in less].count(True) for sign in (-1, 1)
        )
        against.append([way, count, *map(_text, less), str(better), str(worse)])
    found.append(markdown(["minus uniform", "searches", *groups], rows))
    head = [f"{ways[0]} minus", "searches", *groups, "better by 2 errors", "worse"]
    found.append(markdown(head, against[1:]))
    rows = []
    for way, one in content["held"].items():
        numbers = (f"{one[n]:+.3f}" for n in ("slope", "bias", "error", "width"))
        rows.append([way, str(one["predictions"]), f"{100 * one['share']:.0f} %", *numbers])
    head = ["predictions", "number", "held", "slope", "bias", "rms error", "mean width"]
    found.append(markdown(head, rows))
    return "\n".join(found)


def _of(searches: Sequence[Mapping[str, Any]], group: str) -> list[Mapping[str, float]]:
    return [one["means"][group] for one in searches]


def _text(values: Sequence[float]) -> str:
    return with_error(values) if values else ""


def _beyond(values: np.ndarray) -> bool:
    """Whether the mean of values is above 0 by two of its standard errors."""
    count = len(values)
    return count > 1 and bool(values.mean() > 2 * values.std(ddof=1) / count**0.5)


if __name__ == "__main__":
    run_main(task_decisions, "task_decisions", ABOUT, TaskDecisionsOptions, resumable=True)
