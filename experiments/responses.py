"""What responses to branches say of tasks and of plants, beside gradients."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import leave, markdown, rank_of, run_main, table_run, with_error

from bydore_pyro import answer, core, data, files, measure, mixture, search, setup, trials
from bydore_pyro.command_line import Checked, option
from bydore_pyro.proxy import Cost, GradientSketch

ABOUT = """Compare, for the targets of a finished search that measured branches, what gradients,
responses and both say the targets are made of. Plants are drawn from the domains' own held-out
text. For groups of targets the mixtures of both ways are trained afresh, with a rate that decays
and with a constant one, beside uniform and natural weights; what was predicted of them is compared
with what they lose. With --known, a table of trained mixtures, the ways rank these too."""

EVIDENCE = ("gradients", "responses", "both")
KINDS = {"even": 1.0, "sparse": 0.25}  # concentrations of the plants' shares
OF_PLANT = 512  # sequences


@dataclass(frozen=True, kw_only=True)
class ResponsesConfig(Checked):
    """What is compared, and where the results go."""

    search: str = option(MISSING, "Folder of the finished search.", positional="SEARCH")
    groups: str | None = option(
        None, "JSON file of groups of targets: lists of names by name. Default: all in one."
    )
    known: str | None = option(
        None,
        "JSON file with domains, tasks, domain_losses (N, K) and bits_per_byte (N, Q) of N trained "
        "mixtures.",
    )
    plants: int = option(40, "Plants of each kind.", least=0)
    seeds: list[int] = option([11, 12], "Of the fresh models.")
    proxies: str | None = option(None, "Folder of finished models. Default: in --out.")
    seed: int = option(0, "Of the plants.", least=0, below=2**31)
    out: str | None = option(None, "Folder of the run. Default: runs/responses-<time>.")
    smoke: bool = option(False, "Run for seconds, only to check that all parts work.")


@dataclass(frozen=True, kw_only=True)
class ResponsesOptions:
    """All options."""

    run: ResponsesConfig


@dataclass(frozen=True)
class Measured:
    """A search as it was kept, with its targets by gradients alone and with responses."""

    options: setup.Options
    domains: data.Domains
    last: measure.Measurement
    branches: Sequence[measure.Branch]
    sketch: GradientSketch
    targets: Mapping[str, setup.Targets]
    readings: Sequence[measure.Reading]


def read_search(path: Path) -> Measured:
    """Reads a finished search and its targets."""
    options = setup.options_in(path)
    whole = setup.load_domains(options)
    domains = setup.domains_of(options, whole.corpus, options.run.seed, search=True)
    kept = measure.read_measurements(path, setup.belongs_of(options, whole))
    belongs = setup.branches_belong_of(options, whole)
    branches = measure.read_branches(path, kept[-1], belongs)
    proxy = setup.proxy_of(options, domains)
    sketch = GradientSketch(proxy, options.search.sketch_size, options.run.seed)
    given = (sketch, kept, domains, options.run.seed)
    return Measured(
        options=options,
        domains=domains,
        last=kept[-1],
        branches=branches,
        sketch=sketch,
        targets={
            "gradients": setup.targets_of(*given),
            "both": setup.targets_of(*given, branches),
        },
        readings=measure.read_readings(path),
    )


def matched(one: measure.TargetMeasurement, way: str) -> core.Matching:
    """Returns the evidence of one measurement, in one of the ways."""
    if one.responses is None or way == "gradients":
        return core.match([one.evidence])
    if way == "responses":
        found = core.match([one.responses.evidence])
        return replace(found, left_out=one.responses.unexplained)
    return core.composition_of([one.evidence], one.responses)


def plants(run: Measured, count: int, seed: int) -> list[dict[str, Any]]:
    """Returns how well each way finds the shares of plants, of one measurement."""
    domains, parts = run.domains, {}
    measure.set_parameters(run.sketch.model, run.last)
    for name in domains.names:
        own = data.Domains(
            domains.corpus,
            {name: 1.0},
            names=domains.names,
            sequence_length=domains.sequence_length,
            validation_sequences=OF_PLANT,
            seed=domains.seed,
        )
        parts[name] = measure.read_target(run.sketch, run.last, own, run.branches, anew=True)
    rng, found = np.random.default_rng(seed), []
    whole = next(iter(parts.values()))
    if whole.responses is None:
        raise ValueError("Expected a search that measured branches, found none")
    samples = [run.last.samples[name] for name in domains.names]
    seen = [whole.metric.of(one) for one in samples]
    for kind, concentration in KINDS.items():
        for number in range(count):
            shares = rng.dirichlet(np.full(len(parts), concentration))
            most = min(len(one.sample.documents) for one in parts.values())
            counts = rng.multinomial(most, shares)
            gradients, responses, documents, before = [], [], [], 0
            for one, own in zip(parts.values(), counts, strict=True):
                if not own or one.responses is None:
                    continue
                rows = torch.from_numpy(rng.permutation(len(one.sample.documents))[:own])
                gradients.append(one.sample.gradients[rows])
                responses.append(one.responses.target.gradients[rows])
                documents.append(one.sample.documents[rows] + before)
                before += int(one.sample.documents.max()) + 1
            of = torch.cat(documents)
            target = core.Sample(torch.cat(gradients), of)
            plant = replace(
                whole,
                evidence=core.round_evidence(seen, whole.metric.of(target)),
                responses=replace(whole.responses, target=core.Sample(torch.cat(responses), of)),
            )
            truth = counts / counts.sum()
            row: dict[str, Any] = {"kind": kind, "plant": number}
            for way in EVIDENCE:
                one_way = matched(plant, way)
                drawn = core.draw_posterior(one_way, seed=number)
                low, high = answer.interval_of_draws(drawn.weights.numpy()).T
                mean = drawn.weights.mean(0).numpy()
                row[way] = {
                    "total_variation": float(np.abs(mean - truth).sum()) / 2,
                    "held": float(((low <= truth) & (truth <= high)).mean()),
                    "width": float((high - low).mean()),
                    "unexplained": one_way.unexplained,
                }
            found.append(row)
    return found


def ranks(run: Measured, known: Path) -> dict[str, dict[str, float]]:
    """Returns how each way ranks trained mixtures: the mean of the tasks, and of their mean; and
    the tasks' slopes of measured on predicted losses: the median, and the deviation of their logs.
    """
    table = json.loads(known.read_text(encoding="utf-8"))
    order = [table["domains"].index(name) for name in run.domains.names]
    losses = np.array(table["domain_losses"])[:, order]
    tasks = [name for name in run.domains.validation_shares if name in table["tasks"]]
    truth = np.array(table["bits_per_byte"])[:, [table["tasks"].index(name) for name in tasks]]
    found = {}
    for way, targets in run.targets.items():
        made = [(targets.scales[n][:, None] * targets.compositions[n]).mean(0) for n in tasks]
        predicted = losses @ torch.stack(made).numpy().T
        each = [rank_of(a, b) for a, b in zip(predicted.T, truth.T, strict=True)]
        slopes = [np.polyfit(a, b, 1)[0] for a, b in zip(predicted.T, truth.T, strict=True)]
        found[way] = {
            "of_a_task": float(np.mean(each)),
            "of_the_mean": rank_of(predicted.mean(1), truth.mean(1)),
            "slope": float(np.median(slopes)),
            "slope_deviation": float(np.std(np.log(np.clip(slopes, 0.01, None)), ddof=1)),
        }
    return found


def only(targets: setup.Targets, names: Sequence[str]) -> setup.Targets:
    """Returns some of the targets, each of the same importance."""
    every = [*targets.importance]
    places = [every.index(name) for name in names]
    if targets.losses is None:
        raise ValueError("Expected targets that are not all domains")
    return replace(
        targets,
        compositions={name: targets.compositions[name] for name in names},
        scales={name: targets.scales[name] for name in names},
        importance=dict.fromkeys(names, 1 / len(names)),
        losses=targets.losses[:, places],
        unexplained=[targets.unexplained[place] for place in places],
    )


def decisions(
    run: Measured, groups: Mapping[str, Sequence[str]], proxies: Path, seeds: Sequence[int]
) -> dict[str, Any]:
    """Trains the mixtures of the groups, and compares them with uniform weights and with what was
    predicted."""
    names, options = run.domains.names, run.options
    question = setup.question_of(options, run.domains)
    mixtures = {name: setup.weights_of(name, run.domains).numpy() for name in setup.KNOWN}
    forecasts = {}
    for group, members in groups.items():
        forecast = only(run.targets["both"], members).forecast(run.readings, options.run.seed)
        if forecast is None:
            raise ValueError("Expected a search that read the losses of all domains, found none")
        forecasts[group] = forecast
        best = answer.best_of(forecast, question).decision.weights
        mixtures[f"responses, {group}"] = best.numpy()
        made = [run.targets["gradients"].compositions[name].mean(0) for name in members]
        mixtures[f"gradients, {group}"] = torch.stack(made).mean(0).numpy()
    problem = search.plain_problem(options, run.domains, proxies).read_on_all()
    losses: dict[tuple[str, int, bool], Mapping[str, float]] = {}
    for decay in (True, False):
        chosen = {n: w for n, w in mixtures.items() if decay or not n.startswith("gradients")}
        planned = [
            trials.PlannedRun(
                weights={d: w for d, w in mixture.by_name(names, row.round(9)).items() if w > 0},
                steps=options.search.steps,
                seed=seed,
                decay=decay,
            )
            for seed in seeds
            for row in (weights / weights.sum() for weights in chosen.values())
        ]
        done = trials.train_runs(problem, planned, "fresh models")
        keys = [(name, seed, decay) for seed in seeds for name in chosen]
        losses |= {key: one.losses for key, one in zip(keys, done, strict=True)}

    def change(name: str, seed: int, decay: bool, target: str) -> float:
        return losses[name, seed, decay][target] - losses["uniform", seed, decay][target]

    found: dict[str, Any] = {"groups": {}, "held": {}}
    for group, members in groups.items():
        found["groups"][group] = {
            way: {
                "decay" if decay else "constant": [
                    float(np.mean([change(f"{way}, {group}", seed, decay, n) for n in members]))
                    for seed in seeds
                ]
                for decay in (True, False)
                if (f"{way}, {group}", seeds[0], decay) in losses
            }
            for way in ("responses", "gradients")
        }
    # What was predicted of the proposals and of natural weights, each less uniform weights.
    for decay in (True, False):
        rows: list[dict[str, Any]] = []
        for group, members in groups.items():
            forecast = forecasts[group]
            for name in (f"responses, {group}", "natural"):
                pair = [torch.from_numpy(mixtures[n]).double() for n in (name, "uniform")]
                told = forecast.difference(*pair)
                for target in members:
                    one = told[target]
                    rows += [
                        {
                            "group": group,
                            "mixture": name,
                            "target": target,
                            "predicted": one.loss,
                            "low": one.low,
                            "high": one.high,
                            "measured": change(name, seed, decay, target),
                        }
                        for seed in seeds
                    ]
        predicted, measured = (np.array([r[k] for r in rows]) for k in ("predicted", "measured"))
        found["held"]["decay" if decay else "constant"] = {
            "share": float(np.mean([r["low"] <= r["measured"] <= r["high"] for r in rows])),
            "slope": float(predicted @ measured / (predicted @ predicted)),
            "error": float(np.sqrt(np.mean((measured - predicted) ** 2))),
            "width": float(np.mean([r["high"] - r["low"] for r in rows])),
            "rows": rows,
        }
    found["weights"] = {n: mixture.by_name(names, w) for n, w in mixtures.items()}
    return found


def responses(options: ResponsesOptions) -> None:
    """Compares the ways on plants, on known mixtures and on fresh models."""
    run, cost = options.run, Cost()
    folder = table_run("responses", run)
    measured = read_search(Path(run.search))
    content: dict[str, Any] = {
        "unexplained": {
            way: dict(zip(one.importance, map(float, one.unexplained), strict=True))
            for way, one in measured.targets.items()
        }
    }
    with cost.part("plants"):
        content["plants"] = plants(measured, 1 if run.smoke else run.plants, run.seed)
    if run.known is not None:
        content["ranks"] = ranks(measured, Path(run.known))
    groups = {"all": [*measured.domains.validation_shares]}
    if run.groups is not None:
        groups = files.plain_json(Path(run.groups).read_text(encoding="utf-8"))
    proxies = folder.path / "proxies" if run.proxies is None else Path(run.proxies)
    with cost.part("fresh"):
        content |= decisions(measured, groups, proxies, run.seeds)
    leave(folder, options, content, cost, table_of(content))


def table_of(content: Mapping[str, Any]) -> str:
    """Returns the results as tables."""
    found = []
    rows = []
    for kind in KINDS:
        own = [one for one in content["plants"] if one["kind"] == kind]
        for way in EVIDENCE:
            column = {k: [one[way][k] for one in own] for k in ("total_variation", "held", "width")}
            rows.append(
                [
                    kind,
                    way,
                    with_error(column["total_variation"], ".3f"),
                    f"{100 * np.mean(column['held']):.1f} %",
                    f"{np.mean(column['width']):.3f}",
                ]
            )
    found.append(markdown(["plants", "evidence", "total variation", "held", "width"], rows))
    if "ranks" in content:
        rows = [
            [way, *(f"{value:.3f}" for value in one.values())]
            for way, one in content["ranks"].items()
        ]
        head = ["ranks", "of a task", "of their mean", "median slope", "deviation of its log"]
        found.append(markdown(head, rows))
    rows = []
    for group, ways in content["groups"].items():
        for way, rates in ways.items():
            for rate, values in rates.items():
                rows.append([group, way, rate, with_error(values)])
    found.append(markdown(["group", "decided by", "rate", "less uniform"], rows))
    rows = [
        [
            rate,
            str(len(one["rows"])),
            f"{100 * one['share']:.0f} %",
            f"{one['slope']:.2f}",
            f"{one['error']:.3f}",
            f"{one['width']:.3f}",
        ]
        for rate, one in content["held"].items()
    ]
    found.append(
        markdown(["rate", "predictions", "held", "slope", "rms error", "mean width"], rows)
    )
    return "\n".join(found)


if __name__ == "__main__":
    run_main(responses, "responses", ABOUT, ResponsesOptions)
