"""A mixture that is measured on the model that trains, beside fixed ones: is the model better?"""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import FRESH_SEED, judged_loss, leave, markdown, run_main, with_error
from compare_tables import verdicts
from compare_targets import (
    TARGETS,
    posed,
    require_different,
    require_targets,
    target_named,
    text_of_targets,
)
from live_law import LawMixture
from live_rivals import Ado, Odm
from tqdm import tqdm

from bydore_pyro.answer import COVERED
from bydore_pyro.data import TokenStore
from bydore_pyro.live import LiveMixture
from bydore_pyro.mixture import Mixture
from bydore_pyro.proxy import Cost, Proxy
from bydore_pyro.runs import (
    Metrics,
    Options,
    begin_run,
    domains_of,
    is_finished,
    language_model,
    search_in,
)
from bydore_pyro.training import begin, next_batch
from bydore_pyro.utils import Checked, DataError, RunFolder, option, read_as

ABOUT = """Train models on a mixture that is measured on themselves while they train, on fixed
mixtures, and by ODM and ADO, which follow the training losses and know no target. All models of a
seed begin alike and take as many steps, but for one that takes more, for what measuring costs."""

LIVE, LAW, SEARCHED, MATCHED, OWN = "live", "law", "search", "matching", "own"
AVERAGE, LONGER, BROAD, UNIFORM = "average", "longer", "broad", "uniform"
RULES: dict[str, type[Odm | Ado]] = {"odm": Odm, "ado": Ado}
#: In the order in which they train: what others need comes first.
MODELS = {
    LIVE: "on a mixture that is measured on the model itself",
    LAW: "likewise, by the losses that the law foretells for the end of the run",
    SEARCHED: "on the mixture of bydore search",
    MATCHED: "on that of its matching, without trial runs",
    OWN: "on the target's own shares, where they are known",
    AVERAGE: "on the live run's own average",
    LONGER: "on the mixture of bydore search, with the FLOPs of live",
    BROAD: "on equal weights first, then on the mixture of bydore search",
    UNIFORM: "on equal weights",
    **{name: f"by {name.upper()}" for name in RULES},
}


@dataclass(frozen=True, kw_only=True)
class LiveConfig(Checked):
    """What is compared."""

    targets: list[str] = option(
        ["planted", "withheld:docstrings"],
        f"The targets: {', '.join(TARGETS)}, or withheld:DOMAIN.",
    )
    models: list[str] = option(
        list(MODELS),
        "Models to train: " + "; ".join(f"{name} {told}" for name, told in MODELS.items()) + ".",
    )
    compared: str | None = option(
        None, "results.json of compare.py, whose mixtures of bydore search are taken; none is run."
    )
    target_seeds: int = option(5, "Number of models per mixture.", least=2, most=100)
    model_steps: int = option(160, "Steps of each model.", least=16)
    live_sequences: int = option(24, "Sequences of a domain that a round measures.", least=2)
    live_target: int = option(256, "Sequences of the target that a round measures.", least=2)
    level: float = option(0.5, "Probability above which live weights move.", least=0, below=1)
    beginning: float = option(1 / 8, "Share of the steps before the first round.", above=0, most=1)
    law_unexplained: float = option(
        COVERED, "Unexplained share of a target up to which the law decides.", least=0, most=1
    )
    constant_rate: bool = option(False, "Keep the step size; else it falls linearly to zero.")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_targets(self.targets)
        require_different(self.models)
        for name in self.models:
            if name not in MODELS:
                raise ValueError(f"Expected models {', '.join(MODELS)}, found '{name}'")


@dataclass(frozen=True, kw_only=True)
class LiveOptions(Options):
    """The options of the search and of the comparison."""

    live: LiveConfig


def live(options: LiveOptions, resume: Path | None) -> None:
    """Trains every model; leaves a run folder, a table."""
    config = options.live
    folder = begin_run(options, "live", resume)
    corpus = text_of_targets(options, config.targets)
    if resume is None:
        folder.write_config("live", options.as_dict())
    cost, posing = Cost(), [posed(options, corpus, target_named(name)) for name in config.targets]
    mixtures = {
        name: mixtures_of(*given, folder.path / f"search-{filed(name)}", name)
        for name, given in zip(config.targets, posing, strict=True)
    }
    models: dict[str, list[dict[str, Any]]] = {name: [] for name in config.targets}
    # Seed by seed: what a stopped run leaves has all targets.
    for number in range(config.target_seeds):
        for name, given in zip(config.targets, posing, strict=True):
            models[name].append(models_of(*given, mixtures[name], number, name, folder))
            for model in models[name][-1].values():
                cost.add(model["cost"])
    results = {n: {"mixtures": mixtures[n], "models": models[n]} for n in config.targets}
    leave(folder, options, {"targets": results}, cost, table_of(models), "live_mixtures")


def filed(name: str) -> str:
    """Returns a target's name as that of a file."""
    return name.replace(":", "-")


def mixtures_of(
    options: LiveOptions, corpus: TokenStore, place: Path, name: str
) -> dict[str, Mapping[str, float]]:
    """Returns the fixed mixtures of a target by label, of a search that may have to be run."""
    mixtures: dict[str, Mapping[str, float]] = {}
    if target_named(name).has_own:
        mixtures[OWN] = options.run.validation_shares()
    if not {SEARCHED, MATCHED, LONGER, BROAD} & {*options.live.models}:
        return mixtures
    if options.live.compared is None:
        if not is_finished(place):
            search_in(options, corpus, place, "live")
        metrics = read_as(Metrics, place / "metrics.json")
        rounds = [one.weights for one in metrics.matching.rounds]
        found = Mixture.from_json(place / "mixture.json").as_dict()
    else:
        results = json.loads(Path(options.live.compared).read_text(encoding="utf-8"))
        known = results["targets"].get(name, {"methods": {}})["methods"].get("bydore")
        if known is None:
            message = f"Expected a search for '{name}' in {options.live.compared}, found none"
            raise DataError(message)
        rounds = [one["weights"] for one in known["details"]["matching"]["rounds"]]
        found = known["weights"]
    mixtures[SEARCHED] = found
    if rounds:
        mixtures[MATCHED] = rounds[-1]
    return mixtures


def models_of(
    options: LiveOptions,
    corpus: TokenStore,
    mixtures: Mapping[str, Mapping[str, float]],
    number: int,
    name: str,
    folder: RunFolder,
) -> dict[str, dict[str, Any]]:
    """Trains one model on each mixture, all from the same weights."""
    config, found = options.live, dict[str, dict[str, Any]]()
    wanted = {*config.models}
    if wanted & {AVERAGE, LONGER}:  # they need what the live model did
        wanted.add(LIVE)
    for label in MODELS:
        if label not in wanted:
            continue
        kind: dict[str, Any] = {"rule": RULES.get(label)}
        if label in (LIVE, LAW):
            kind["law"] = label == LAW
            kind["first"] = max(1, round(config.beginning * config.model_steps))
        elif label == LONGER:
            kind["steps"] = round((1 + measuring(found[LIVE])) * config.model_steps)
            kind["start"] = mixtures[SEARCHED]
        elif label == BROAD:
            kind["later"] = mixtures[SEARCHED]
        elif label == AVERAGE:
            kind["start"] = found[LIVE]["average"]
        elif label in (SEARCHED, MATCHED, OWN):
            if label not in mixtures:
                continue
            kind["start"] = mixtures[label]
        compute = partial(one_model, options, corpus, number, f"{name} {number}: {label}", **kind)
        place = f"models/{filed(name)}-{number}-{label}.json"
        found[label] = folder.once(place, compute)
    return found


def measuring(model: Mapping[str, Any]) -> float:
    """Returns the FLOPs of a model's measuring, as a share of its training's."""
    parts = model["cost"]
    return parts.get("gradients", {"flops": 0})["flops"] / parts["train"]["flops"]


def one_model(
    options: LiveOptions,
    corpus: TokenStore,
    number: int,
    label: str,
    *,
    start: Mapping[str, float] | None = None,
    later: Mapping[str, float] | None = None,
    first: int | None = None,
    rule: type[Odm | Ado] | None = None,
    law: bool = False,
    steps: int | None = None,
) -> dict[str, Any]:
    """Trains a model; returns its judged loss, its mixture in the mean, and the rounds.

    Args:
        options: Model, batches, target.
        corpus: The text.
        number: Of the model: its weights, and the order of its text.
        label: Of the bar.
        start: The weights at first; equal ones when None.
        later: The weights after the beginning, where they change once.
        first: The step of the first round; None for a mixture that is not measured.
        rule: What moves the weights by the training losses.
        law: Whether the law decides.
        steps: Of the model; those of the options when None.
    """
    config, seed = options.live, options.run.seed + FRESH_SEED + number
    steps = steps or config.model_steps
    measured = config.live_sequences * 8  # kept aside from all models alike
    run = dataclasses.replace(options.run, validation_sequences=config.live_target)
    domains = domains_of(dataclasses.replace(options, run=run), corpus, seed, measured=measured)
    model, falls = language_model(options, corpus.vocabulary, seed), not config.constant_rate
    proxy = Proxy(model, options.proxy, Cost(), steps if falls else None)
    given: dict[str, Any] = {"sequences": config.live_sequences, "level": config.level}
    given |= {"first": first or 1, "seed": seed}
    mixture = LiveMixture(domains, start, **given)
    if law:
        of_run = {"steps": steps, "batch": options.search.batch_sequences}
        most = config.law_unexplained
        mixture = LawMixture(domains, start, **of_run, most_unexplained=most, **given)
    follower = None if rule is None else rule(mixture.present, steps)
    total, order = np.zeros(domains.num_domains), begin(domains.num_domains)
    change = round(config.beginning * config.model_steps)
    for step in tqdm(range(1, steps + 1), desc=label, unit="step", mininterval=0.5):
        if later is not None and step == change + 1:
            mixture = LiveMixture(domains, later, **given)
        weights = mixture.present if follower is None else follower.weights
        total += weights
        counts, order = next_batch(order, weights, options.search.batch_sequences)
        batch = domains.train_batch(dict(zip(domains.names, counts.tolist(), strict=True)))
        losses = proxy.step(batch).cpu().numpy()
        if follower is not None:
            owners = np.repeat(np.arange(len(counts)), counts)
            summed = np.bincount(owners, losses, minlength=len(counts))
            follower.observe(counts, np.where(counts > 0, summed / np.maximum(counts, 1), np.nan))
        if first is not None and mixture.due(step) and step < steps:
            mixture.measure(proxy.model, step)
    return {
        "loss": judged_loss(proxy, domains),
        "average": dict(zip(domains.names, (total / steps).tolist(), strict=True)),
        "rounds": [
            {
                "step": one.step,
                "found": dict(zip(domains.names, one.found.tolist(), strict=True)),
                "better": one.better,
                "moved": one.moved,
                "unexplained": one.unexplained,
            }
            for one in mixture.rounds
        ],
        "cost": {**proxy.cost.report()["parts"], **mixture.cost.report()["parts"]},
    }


def table_of(targets: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Returns Markdown: by target the mean loss of the first model, which is live where it was
    trained, and how much higher it is than every other model's, seed by seed; then every loss.

    Args:
        targets: The models by label of each seed, by target.
    """
    found = [model for models in targets.values() for model in models]
    first, *others = [label for label in MODELS if any(label in model for model in found)]
    rows, above = [], dict[str, list[float]]()
    for name, models in targets.items():
        losses = [model[first]["loss"] for model in models]
        row = [f"{name} ({len(models)})", f"{statistics.mean(losses):.3f}"]
        for label in others:
            other = [model[label]["loss"] for model in models if label in model]
            beside = verdicts({label: other, first: losses}, label).get(first)
            row.append(f"{beside.difference:+.3f} ± {beside.standard_error:.3f}" if beside else "")
            above.setdefault(label, []).extend([beside.difference] if beside else [])
        rows.append([*row, f"{measuring(models[0][first]):.0%}"])
    means = [with_error(above[label]) if len(above[label]) > 1 else "" for label in others]
    rows.append(["mean of the targets", "", *means, ""])
    header = ["target (seeds)", first, *(f"less {label}" for label in others), "measuring"]
    every = []
    for name, models in targets.items():
        for seed, model in enumerate(models):
            told = [f"{model[of]['loss']:.3f}" if of in model else "" for of in (first, *others)]
            every.append([name, str(seed), *told])
    return (
        f"{markdown(header, rows)}\nNats per token, ± the standard error; below 0, {first} is "
        "better. Measuring: its FLOPs, as a share of training's.\n\n"
        f"{markdown(['target', 'seed', first, *others], every)}"
    )


if __name__ == "__main__":
    run_main(*(live, "live", ABOUT, LiveOptions), resumable=True, steps=160, batch_sequences=16)
