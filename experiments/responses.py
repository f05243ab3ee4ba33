"""What responses to branches say of tasks and of plants, beside gradients and other methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import FRESH_SEED, leave, markdown, rank_of, rounded, run_main, table_run, with_error

from bydore_pyro import answer, core, data, files, measure, mixture, search, setup, tables, trials
from bydore_pyro.command_line import Checked, option
from bydore_pyro.methods import Trees, fit_trees, simulated_optimum
from bydore_pyro.proxy import Cost, GradientSketch

ABOUT = """Compare, for the targets of finished searches that measured branches, what gradients,
responses and both say the targets are made of. Plants are drawn from the domains' own held-out
text. For groups of targets the mixtures of all ways are trained afresh, as bydore train does, with
a rate that decays, a fresh model for each search, and judged on other documents of the targets;
what was predicted of them is compared with what they lose. A table of trained mixtures is ranked by
all ways, and gives rivals: the best of its runs, and regressions on some of them."""

EVIDENCE = ("gradients", "responses", "both")
KINDS = {"even": 1.0, "sparse": 0.25}  # concentrations of the plants' shares
OF_PLANT = 512  # sequences
OF_MERGED = 32  # sequences of each target on which merged models are read
UNIFORM, NATURAL = "uniform", "natural"
FORECAST = ("law", "composition", "gradients")  # ways whose losses are predicted


@dataclass(frozen=True, kw_only=True)
class ResponsesConfig(Checked):
    """What is compared, and where the results go."""

    search: list[str] = option(MISSING, "Folders of the finished searches.", positional="SEARCH")
    judge: list[str] = option(
        [], "Files of other documents of the targets, of the same names. Default: the targets."
    )
    groups: str | None = option(
        None, "JSON file of groups of targets: lists of names by name. Default: all in one."
    )
    known: str | None = option(
        None,
        "JSON file with domains, tasks, weights (N, K), domain_losses (N, K) and bits_per_byte "
        "(N, Q) of N trained mixtures.",
    )
    runs: list[int] = option([16], "How many of the known runs a regression learns from.")
    rivals: bool = option(True, "Train what others propose too, with --known.")
    plants: int = option(40, "Plants of each kind.", least=0)
    trials: int = option(0, "Trial runs of the way that tries.", least=0, most=4)
    tried: list[str] = option(["all"], "Groups of targets for which it tries.")
    proxies: str | None = option(None, "Folder of finished models. Default: in --out.")
    seed: int = option(0, "Of the plants and of the known runs.", least=0, below=2**31)
    out: str | None = option(None, "Folder of the run. Default: runs/responses-<time>.")
    smoke: bool = option(False, "Run for seconds, only to check that all parts work.")


@dataclass(frozen=True, kw_only=True)
class ResponsesOptions:
    """All options."""

    run: ResponsesConfig


@dataclass(frozen=True)
class Known:
    """Trained mixtures of the search's length.

    Attributes:
        weights: ``(N, K)``.
        domains: Their losses on the domains ``(N, K)``, nats per token.
        targets: On each target ``(N,)``, by name, in its unit.
    """

    weights: np.ndarray
    domains: np.ndarray
    targets: Mapping[str, np.ndarray]

    def mean(self, names: Sequence[str]) -> np.ndarray:
        """Returns the mean loss on some targets ``(N,)``."""
        return np.mean([self.targets[name] for name in names], 0)


@dataclass(frozen=True)
class Measured:
    """A search as it was kept."""

    path: Path
    options: setup.Options
    domains: data.Domains
    kept: Sequence[measure.Measurement]
    branches: Sequence[measure.Branch]
    sketch: GradientSketch
    readings: Sequence[measure.Reading]

    def of(self, names: Sequence[str]) -> data.Domains:
        """Returns the domains with some of the targets, of equal importance, each read as far as
        all together were."""
        whole = self.domains
        each = self.options.run.validation_sequences // len(whole.validation_shares)
        return data.Domains(
            whole.corpus,
            dict.fromkeys(names, 1 / len(names)),
            names=whole.names,
            sequence_length=whole.sequence_length,
            validation_sequences=max(16, each * len(names)),
            seed=whole.seed,
        )

    def targets(self, domains: data.Domains) -> setup.Targets:
        """Reads targets, with their responses."""
        seed = self.options.run.seed
        return setup.targets_of(self.sketch, self.kept, domains, seed, self.branches)


def read_search(path: Path) -> Measured:
    """Reads a finished search."""
    options = setup.options_in(path)
    whole = setup.load_domains(options)
    domains = setup.domains_of(options, whole.corpus, options.run.seed, search=True)
    kept = measure.read_measurements(path, setup.belongs_of(options, whole))
    belongs = setup.branches_belong_of(options, whole)
    branches = measure.read_branches(path, kept[-1], belongs)
    if not branches:
        raise ValueError(f"Expected a search that measured branches, found {path}")
    proxy = setup.proxy_of(options, domains)
    sketch = GradientSketch(proxy, options.search.sketch_size, options.run.seed)
    readings = measure.read_readings(path)
    return Measured(path, options, domains, kept, branches, sketch, readings)


def read_known(path: Path, names: Sequence[str]) -> Known:
    """Reads a table of trained mixtures of the given domains."""
    table = files.plain_json(path.read_text(encoding="utf-8"))
    order = [table["domains"].index(name) for name in names]
    losses = np.array(table["bits_per_byte"])
    return Known(
        weights=np.array(table["weights"])[:, order],
        domains=np.array(table["domain_losses"])[:, order],
        targets={name: losses[:, number] for number, name in enumerate(table["tasks"])},
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
    """Returns how well each way finds the shares of plants, of the last measurement."""
    if not count:
        return []
    domains, parts, last = run.domains, {}, run.kept[-1]
    measure.set_parameters(run.sketch.model, last)
    for name in domains.names:
        own = data.Domains(
            domains.corpus,
            {name: 1.0},
            names=domains.names,
            sequence_length=domains.sequence_length,
            validation_sequences=OF_PLANT,
            seed=domains.seed,
        )
        parts[name] = measure.read_target(run.sketch, last, own, run.branches, anew=True)
    rng, found = np.random.default_rng(seed), []
    whole = next(iter(parts.values()))
    if whole.responses is None:
        raise ValueError(f"Expected responses to branches, found none in {run.path}")
    samples = [last.samples[name] for name in domains.names]
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


def compositions(targets: setup.Targets, way: str, seed: int) -> dict[str, torch.Tensor]:
    """Returns the mean of what each target is made of ``(K,)``, in its unit for a nat."""
    found = {}
    for name, draws in targets.compositions.items():
        if way == "both":
            found[name] = (targets.scales[name][:, None] * draws).mean(0)
        else:
            parts = [(of.parts or {name: of})[name] for of in targets.rounds]
            matching = core.match([one.evidence for one in parts])
            found[name] = core.draw_posterior(matching, seed=seed).weights.mean(0)
    return found


def ranks(targets: setup.Targets, known: Known, seed: int) -> dict[str, dict[str, float]]:
    """Returns how each way ranks trained mixtures: the mean of the tasks, and of their mean; and
    the tasks' slopes of measured on predicted losses: the median, and the deviation of their logs.
    """
    names = [name for name in targets.compositions if name in known.targets]
    truth, found = np.stack([known.targets[name] for name in names], 1), {}
    for way in ("gradients", "both"):
        made = compositions(targets, way, seed)
        predicted = known.domains @ torch.stack([made[name] for name in names], 1).numpy()
        each = [rank_of(a, b) for a, b in zip(predicted.T, truth.T, strict=True)]
        slopes = [np.polyfit(a, b, 1)[0] for a, b in zip(predicted.T, truth.T, strict=True)]
        found[way] = {
            "of_a_task": float(np.mean(each)),
            "of_the_mean": rank_of(predicted.mean(1), truth.mean(1)),
            "slope": float(np.median(slopes)),
            "slope_deviation": float(np.std(np.log(np.clip(slopes, 0.01, None)), ddof=1)),
        }
    return found


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


def merged_losses(run: Measured, mixtures: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the losses on each target of models that are merged of the branches ``(N,)``: where
    they began, and their changes by the weights of their domains ``(N, K)``."""
    model, domains = run.sketch.model, run.domains
    measure.set_parameters(model, run.kept[-1])
    theta, found = model.parameters, dict[str, list[float]]()
    places = [[domains.names.index(name) for name in one.domains] for one in run.branches]
    for row in mixtures:
        merged = {
            name: value
            + sum(
                row[place].sum() * one.change[name].to(value)
                for place, one in zip(places, run.branches, strict=True)
            )
            for name, value in theta.items()
        }
        for name, text in domains.targets.items():
            tokens = text.tokens[:OF_MERGED]
            weights = None if text.weights is None else text.weights[:OF_MERGED]
            some = data.Sequences(tokens, text.documents[:OF_MERGED], weights)
            found.setdefault(name, []).append(float(measure.losses_of(model, some, merged).mean()))
    return {name: np.array(losses) for name, losses in found.items()}


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
    run: Measured, names: Sequence[str], config: ResponsesConfig, proxies: Path, *, tries: bool
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
        "law": answer.best_of(forecast, question).decision.weights,
        "composition": targets.drawn.weights.mean(0),
        "gradients": gradients.weights.mean(0),
    }
    if config.trials and tries:
        tried = replace(run.options.search, trials=config.trials)
        plan = search.trial_plan(replace(run.options, search=tried), domains, proxies / "trials")
        asked = replace(targets, found=replace(targets.found, left_out=1.0))  # else none are run
        one, _ = search.answered(question, asked, run.readings, plan, Cost(), seed=seed)
        found["trials"] = setup.weights_in(one.mixture, domains)
    return Proposed({way: weights.numpy() for way, weights in found.items()}, forecast)


def rivals(
    known: Known,
    names: Sequence[str],
    merged: Mapping[str, np.ndarray],
    runs: Sequence[int],
    seed: int,
) -> dict[str, np.ndarray]:
    """Returns what others propose for some targets: the best of the known mixtures, of merged
    models, and of regressions on some known runs."""
    truth, order = known.mean(names), np.random.default_rng(seed).permutation(len(known.weights))
    count, even = known.weights.shape[1], np.full(known.weights.shape[1], 1.0)
    found = {
        f"best of {len(truth)} runs": known.weights[truth.argmin()],
        "merged branches": known.weights[np.mean([merged[name] for name in names], 0).argmin()],
    }
    for number in runs:
        some = order[:number]
        weights, losses = known.weights[some], truth[some]
        process = tables.likeliest_process(weights, losses)
        if process is not None:
            found[f"process on {number} runs"] = simulated_optimum(process.predict, even)
        if number >= count:
            trees = fit_trees(weights, losses[:, None])
            found[f"RegMix on {number} runs"] = simulated_optimum(partial(_mean_loss, trees), even)
    return found


def _mean_loss(trees: Trees, mixtures: np.ndarray) -> np.ndarray:
    return trees.predict(mixtures)[:, 0]


def judged(run: Measured, config: ResponsesConfig, proxies: Path) -> trials.Problem:
    """Returns the problem whose models are read on the judging documents."""
    options = run.options
    if config.judge:
        question = replace(options.question, validation=[str(Path(f)) for f in config.judge])
        options = replace(options, question=question)
    options = replace(options, run=replace(options.run, seed=config.seed))
    domains = setup.domains_of(
        options, setup.load_domains(options).corpus, config.seed, search=True
    )
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
        for way in (*FORECAST, NATURAL):
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


def responses(options: ResponsesOptions) -> None:
    """Compares the ways on plants, on known mixtures and on fresh models."""
    config, cost = options.run, Cost()
    folder = table_run("responses", config)
    proxies = folder.path / "proxies" if config.proxies is None else Path(config.proxies)
    content: dict[str, Any] = {"searches": []}
    problem = None
    for path in config.search:
        run = read_search(Path(path))
        seed = run.options.run.seed
        names = [*run.domains.validation_shares]
        groups = {"all": names}
        if config.groups is not None:
            groups = files.plain_json(Path(config.groups).read_text(encoding="utf-8"))
        problem = problem or judged(run, config, proxies)
        one: dict[str, Any] = {"search": path}
        with cost.part("plants"):
            one["plants"] = plants(run, 1 if config.smoke else config.plants, config.seed + seed)
        with cost.part("targets"):
            found = {
                group: proposed(run, of, config, proxies, tries=group in config.tried)
                for group, of in groups.items()
            }
            whole = run.targets(run.domains)
        one["unexplained"] = dict(zip(whole.importance, map(float, whole.unexplained), strict=True))
        one["responses"] = shown(run, whole)
        mixtures = {n: setup.weights_of(n, run.domains).numpy() for n in (UNIFORM, NATURAL)}
        others: dict[str, Mapping[str, np.ndarray]] = {}
        if config.known is not None:
            known = read_known(Path(config.known), run.domains.names)
            one["ranks"] = ranks(whole, known, seed)
        if config.known is not None and config.rivals:
            with cost.part("merged"):
                merged = merged_losses(run, known.weights)
            given = (config.runs, config.seed + seed)
            others = {group: rivals(known, of, merged, *given) for group, of in groups.items()}
        for ways in ({group: own.weights for group, own in found.items()}, others):
            for group, of in ways.items():
                mixtures |= {f"{way}, {group}": weights for way, weights in of.items()}
        with cost.part("fresh"):
            losses = trained(problem, mixtures, FRESH_SEED + seed)
        one["weights"] = {n: mixture.by_name(problem.names, w) for n, w in mixtures.items()}
        one["means"], one["rows"] = compared(found, groups, mixtures, losses)
        content["searches"].append(one)
    content["held"] = {
        way: held([r for one in content["searches"] for r in one["rows"] if r["way"] == way])
        for way in (*FORECAST, NATURAL)
    }
    content = rounded(content, 5)
    leave(folder, options, content, cost, table_of(content), "task_responses", seed=config.seed)


def table_of(content: Mapping[str, Any]) -> str:
    """Returns the results as tables."""
    searches, found, rows = content["searches"], [], []
    drawn = [one for of in searches for one in of["plants"]]
    for kind in KINDS if drawn else ():
        own = [one for one in drawn if one["kind"] == kind]
        for way in EVIDENCE:
            column = {k: [one[way][k] for one in own] for k in ("total_variation", "held", "width")}
            rows.append(
                [
                    *(kind, way, with_error(column["total_variation"], ".3f")),
                    f"{100 * np.mean(column['held']):.1f} %",
                    f"{np.mean(column['width']):.3f}",
                ]
            )
    found.append(markdown(["plants", "evidence", "total variation", "held", "width"], rows))
    if "ranks" in searches[0]:
        rows = []
        for way, columns in searches[0]["ranks"].items():
            each = [[one["ranks"][way][name] for one in searches] for name in columns]
            rows.append([way, *(with_error(values, ".3f") for values in each)])
        head = ["ranks", "of a task", "of their mean", "median slope", "deviation of its log"]
        found.append(markdown(head, rows))
    groups = searches[0]["means"]
    ways = list(dict.fromkeys(way for of in groups.values() for way in of))
    rows = []
    for way in ways:
        every = [[one["means"][g] for one in searches] for g in groups]
        cells = [[means[way] for means in of if way in means] for of in every]
        text = [with_error(values) if values else "" for values in cells]
        rows.append([way, str(max(map(len, cells))), *text])
    found.append(markdown(["less uniform", "searches", *groups], rows))
    rows = []
    for way, one in content["held"].items():
        numbers = (f"{one[n]:+.3f}" for n in ("slope", "bias", "error", "width"))
        rows.append([way, str(one["predictions"]), f"{100 * one['share']:.0f} %", *numbers])
    head = ["predictions", "number", "held", "slope", "bias", "rms error", "mean width"]
    found.append(markdown(head, rows))
    return "\n".join(found)


if __name__ == "__main__":
    run_main(responses, "responses", ABOUT, ResponsesOptions)
