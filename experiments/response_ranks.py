"""What responses to branches say of tasks and of plants, beside gradients; nothing is trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import leave, markdown, rank_of, rounded, run_main, table_run, with_error

from bydore_pyro import answer, core, data, files, measure, setup
from bydore_pyro.command_line import Checked, option
from bydore_pyro.proxy import Cost, GradientSketch

ABOUT = """Compare, for the targets of finished searches that measured branches, what gradients,
responses and both say the targets are made of. Plants are drawn from the domains' own held-out
text. Mixtures of a table, which were trained before, are ranked by what they say."""

EVIDENCE = ("gradients", "responses", "both")
KINDS = {"even": 1.0, "sparse": 0.25}  # concentrations of the plants' shares
OF_PLANT = 512  # sequences
KNOWN = (
    "JSON file with domains, tasks, weights (N, K), domain_losses (N, K) and bits_per_byte (N, Q) "
    "of N trained mixtures."
)


@dataclass(frozen=True, kw_only=True)
class ResponseRanksConfig(Checked):
    """What is compared, and where the results go."""

    search: list[str] = option(MISSING, "Folders of the finished searches.", positional="SEARCH")
    known: str | None = option(None, KNOWN)
    plants: int = option(40, "Plants of each kind.", least=0)
    seed: int = option(0, "Of the plants.", least=0, below=2**31)
    out: str | None = option(None, "Folder of the run. Default: runs/response_ranks-<time>.")
    smoke: bool = option(False, "Run for seconds, only to check that all parts work.")


@dataclass(frozen=True, kw_only=True)
class ResponseRanksOptions:
    """All options."""

    run: ResponseRanksConfig


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


def response_ranks(options: ResponseRanksOptions) -> None:
    """Compares the ways on plants and on known mixtures."""
    config, cost = options.run, Cost()
    folder = table_run("response_ranks", config)
    found = []
    for path in config.search:
        run = read_search(Path(path))
        seed = run.options.run.seed
        one: dict[str, Any] = {"search": path}
        with cost.part("plants"):
            one["plants"] = plants(run, 1 if config.smoke else config.plants, config.seed + seed)
        with cost.part("targets"):
            whole = run.targets(run.domains)
        one["unexplained"] = dict(zip(whole.importance, map(float, whole.unexplained), strict=True))
        if config.known is not None:
            one["ranks"] = ranks(whole, read_known(Path(config.known), run.domains.names), seed)
        found.append(one)
    content = rounded({"searches": found}, 5)
    leave(folder, options, content, cost, table_of(found), seed=config.seed)


def table_of(searches: Sequence[Mapping[str, Any]]) -> str:
    """Returns the results as tables."""
    found, rows = [], []
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
    if drawn:
        found.append(markdown(["plants", "evidence", "total variation", "held", "width"], rows))
    if "ranks" in searches[0]:
        rows = []
        for way, columns in searches[0]["ranks"].items():
            each = [[one["ranks"][way][name] for one in searches] for name in columns]
            rows.append([way, *(with_error(values, ".3f") for values in each)])
        head = ["ranks", "of a task", "of their mean", "median slope", "deviation of its log"]
        found.append(markdown(head, rows))
    return "\n".join(found)


if __name__ == "__main__":
    run_main(response_ranks, "response_ranks", ABOUT, ResponseRanksOptions)
