"""Whether what a small proxy says of tasks holds for a larger model that trains for longer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import FRESH_SEED, leave, markdown, rank_of, rounded, run_main, table_run, with_error
from response_ranks import KNOWN, Known, Measured, compositions, read_known, read_search
from task_decisions import NATURAL, UNIFORM, groups_in, judged, trained

from bydore_pyro import files, setup
from bydore_pyro.command_line import Checked, option
from bydore_pyro.proxy import Cost

ABOUT = """Train mixtures that searches on a small proxy found for tasks (the results of
task_decisions) on a larger model, for longer, with fresh models; judge them on the judging
documents. With --ranked, mixtures of a table are trained too: how well do responses that were
measured on the small proxy, and the small proxy's own runs, rank them for the large model? What is
finished is not trained again: --resume RUN goes on."""


@dataclass(frozen=True, kw_only=True)
class TaskScaleConfig(Checked):
    """What is trained, and where the results go."""

    results: str = option(MISSING, "results.json of task_decisions.", positional="RESULTS")
    model: str = option("models/proxy-small", "The larger model.")
    times: float = option(4.0, "Length of its runs, in that of the searches.", above=0)
    ways: list[str] = option(["law"], "Ways of the results whose mixtures are trained.")
    groups: list[str] = option([], "Groups of tasks. Default: all of the results.")
    known: str | None = option(None, KNOWN)
    ranked: int = option(0, "Mixtures of the table that are trained.", least=0)
    seeds: int = option(2, "Searches, from the first; each has fresh models of one seed.", least=1)
    device: str = option("auto", "Where the models train.")
    proxies: str | None = option(None, "Folder of finished models. Default: in --out.")
    seed: int = option(0, "Of the choice of ranked mixtures.", least=0, below=2**31)
    out: str | None = option(None, "Folder of the run. Default: runs/task_scale-<time>.")
    smoke: bool = option(False, "Run for seconds, only to check that all parts work.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ranked and self.known is None:
            raise ValueError("Expected --known with --ranked, found none")


@dataclass(frozen=True, kw_only=True)
class TaskScaleOptions:
    """All options."""

    run: TaskScaleConfig


def larger(run: Measured, config: TaskScaleConfig) -> Measured:
    """Returns a search whose options pose the larger model and the longer run."""
    options = run.options
    steps = max(1, round(options.search.steps * config.times))
    return replace(
        run,
        options=replace(
            options,
            run=replace(options.run, proxy=config.model, device=config.device),
            search=replace(options.search, steps=steps),
        ),
    )


def ranks(
    run: Measured, known: Known, places: np.ndarray, losses: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    """Returns rank correlations with the large model's losses, mean of the tasks and of their mean:
    of what responses say with the small proxy's losses of domains, and of the small proxy's own."""
    targets, found = run.targets(run.domains), {}
    made, names = compositions(targets, "both", run.options.run.seed), [*targets.importance]
    large = np.array([[losses[f"known {place}"][name] for name in names] for place in places])
    said = known.domains[places] @ torch.stack([made[name] for name in names], 1).numpy()
    small = np.stack([known.targets[name][places] for name in names], 1)
    for way, table in (("responses", said), ("small proxy", small)):
        each = [rank_of(a, b) for a, b in zip(table.T, large.T, strict=True)]
        found[f"{way}, of a task"] = float(np.mean(each))
        found[f"{way}, of the mean"] = rank_of(table.mean(1), large.mean(1))
    return found


def task_scale(options: TaskScaleOptions, resume: Path | None) -> None:
    """Trains the mixtures on the larger model, and compares them."""
    config, cost = options.run, Cost()
    folder = table_run("task_scale", config, resume)
    proxies = folder.path / "proxies" if config.proxies is None else Path(config.proxies)
    results = files.plain_json(Path(config.results).read_text(encoding="utf-8"))
    given = results["config"]["run"]
    searches: list[dict[str, Any]] = []
    problem = None
    for one in results["searches"][: 1 if config.smoke else config.seeds]:
        run = read_search(Path(one["search"]))
        names, groups = run.domains.names, groups_in(given["groups"], run)
        problem = problem or judged(larger(run, config), given["judge"], given["seed"], proxies)
        mixtures = {UNIFORM: setup.weights_of(UNIFORM, run.domains).numpy()}
        for group in config.groups or one["means"]:
            for way in config.ways:
                if (weights := one["weights"].get(_label(way, group))) is None:
                    raise ValueError(
                        f"Expected a way and a group of {config.results}, found '{way}, {group}'"
                    )
                mixtures[_label(way, group)] = np.array([weights[name] for name in names])
        places = np.array([], int)
        if config.known is not None and not searches:  # the first search's model alone
            known = read_known(Path(config.known), names)
            order = np.random.default_rng(config.seed).permutation(len(known.weights))
            places = order[: config.ranked]
            mixtures |= {f"known {place}": known.weights[place] for place in places}
        with cost.part("fresh"):
            losses = trained(problem, mixtures, FRESH_SEED + run.options.run.seed)
        found: dict[str, Any] = {"search": one["search"], "means": {}, "proxy": {}}
        for group in config.groups or one["means"]:
            found["means"][group] = {
                way: float(np.mean([losses[n][t] - losses[UNIFORM][t] for t in groups[group]]))
                for way, n in {w: _label(w, group) for w in config.ways}.items()
            }
            found["proxy"][group] = {way: one["means"][group][way] for way in config.ways}
        if len(places):
            found["ranks"] = ranks(run, known, places, losses)
        searches.append(found)
    content = rounded({"searches": searches}, 5)
    leave(folder, options, content, cost, table_of(content), seed=config.seed)


def _label(way: str, group: str) -> str:
    return way if way == NATURAL else f"{way}, {group}"


def table_of(content: Mapping[str, Any]) -> str:
    """Returns the results as tables."""
    searches, rows = content["searches"], []
    for group, ways in searches[0]["means"].items():
        for way in ways:
            columns = [[one[k][group][way] for one in searches] for k in ("proxy", "means")]
            rows.append([group, way, str(len(searches)), *map(with_error, columns)])
    found = [markdown(["group", "minus uniform", "searches", "proxy", "larger model"], rows)]
    if "ranks" in searches[0]:
        ranked = [[name, f"{value:.3f}"] for name, value in searches[0]["ranks"].items()]
        found.append(markdown(["ranks of the larger model's losses", "Spearman"], ranked))
    return "\n".join(found)


if __name__ == "__main__":
    run_main(task_scale, "task_scale", ABOUT, TaskScaleOptions, resumable=True)
