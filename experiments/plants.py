"""Many planted mixtures: one plant is not enough to judge a design of the search by."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import drawn_by, fresh_models, markdown, run_main
from compare_tables import verdict
from planted import gap_closed

from bydore_pyro.baselines import Problem
from bydore_pyro.data import Domains
from bydore_pyro.mixture import Mixture, total_variation
from bydore_pyro.proxy import Cost
from bydore_pyro.runs import (
    Options,
    begin_run,
    domains_of,
    is_finished,
    language_model,
    load_domains,
    results_of,
    search_in,
    uniform_weights,
)
from bydore_pyro.utils import DataError, option, require_fields, tell

ABOUT = """Draw plants: mixtures of two to five domains with random shares; every second plant
contains two similar domains. For each plant, draw a validation set in these shares, search the
weights of all domains, and report how close they come: the total variation (also with similar
domains merged, between which weight may rightly move), the jitter, and the share of the gap in loss
between uniform and planted weights that fresh models of --steps close on the learned weights.
Plants are numbered, so that designs can be chosen on some and tested on others."""

ALIKE = (("python", "python_tests"), ("c_headers", "c_source"), ("docstrings", "text"))
LEAST_SEQUENCES = 20
LEAST_DOCUMENTS = 20  # fewer say more of themselves than of their domain, whose weight is sought
# So little text as in the smoke runs of the others holds fewer documents out.
HELD_OUT_SEQUENCES = 64  # of a domain, at most, times `JUDGED`
SMOKE = {"domain_megabytes": 0.2, "validation_fraction": 0.5}


@dataclass(frozen=True, kw_only=True)
class PlantsConfig:
    """Which plants are searched."""

    plants: int = option(10, "Number of plants.", least=1, most=1000)
    first: int = option(0, "Number of the first plant.", least=0, most=1000)
    fresh: int = option(
        1,
        "Number of fresh models per mixture, for the gap in loss; 0 trains none.",
        least=0,
        most=1000,
    )

    def __post_init__(self) -> None:
        require_fields(self)

    @property
    def numbers(self) -> range:
        """The plants' numbers."""
        return range(self.first, self.first + self.plants)


@dataclass(frozen=True, kw_only=True)
class PlantsOptions(Options):
    """The options of a search and of its plants."""

    plants: PlantsConfig


def draw_plant(names: Sequence[str], number: int) -> dict[str, float]:
    """Returns plant `number`: shares of two to five of the domains, none below 0.1."""
    rng = np.random.default_rng([20261121, number])
    count = min(int(rng.integers(2, 6)), len(names))
    chosen = list(rng.permutation(np.array(names))[:count])
    pairs = [pair for pair in ALIKE if set(pair) <= set(names)]
    if number % 2 and pairs:
        pair = list(pairs[rng.integers(len(pairs))])
        chosen = pair + [name for name in chosen if name not in pair][: count - 2]
    shares = 0.1 + (1 - 0.1 * len(chosen)) * rng.dirichlet(np.ones(len(chosen)))
    return {str(name): round(float(share), 3) for name, share in zip(chosen, shares, strict=True)}


def plantable(domains: Domains) -> list[str]:
    """Returns the domains that hold enough held-out text, of many documents, to be planted.

    Raises:
        DataError: When they are fewer than two.
    """
    held_out, documents = domains.corpus.validation, domains.corpus.validation_documents
    least = LEAST_SEQUENCES * domains.sequence_length
    names = [
        name
        for name in domains.names
        if len(held_out[name]) >= least and len(documents[name]) >= LEAST_DOCUMENTS
    ]
    if len(names) < 2:
        raise DataError(
            f"Expected two domains with {LEAST_SEQUENCES} sequences of held-out text of "
            f"{LEAST_DOCUMENTS} documents, found {', '.join(names) or 'none'}"
        )
    return names


def plants(options: PlantsOptions, resume: Path | None) -> None:
    """Searches every plant; each leaves a run folder, and all of them a table."""
    folder = begin_run(options, "plants", resume)
    domains = load_domains(options)
    plantable(domains)
    if resume is None:
        folder.write_config("plants", options.as_dict(), tell)
    rows, cost = [], Cost()
    for number in options.plants.numbers:
        compute = partial(judged_plant, options, domains, folder.path, number)
        rows.append(folder.once(f"plant-{number}/plant.json", compute))
        cost.add(rows[-1]["search"]["parts"])
        cost.add(rows[-1]["cost_of_fresh_models"], prefix="fresh_")
        content = {"plants": rows}
        folder.write_json("results.json", results_of(content, options, options.run.seed, cost))
    folder.write_text("table.md", results_table(rows))
    print(results_table(rows))
    print(f"In {folder.path}: results.json, table.md and a run folder for each.")
    print(drawn_by("planted_mixtures", folder))


def judged_plant(
    options: PlantsOptions, domains: Domains, folder: Path, number: int
) -> dict[str, Any]:
    """Searches one plant and trains fresh models on it."""
    row = one_plant(options, domains, folder / f"plant-{number}", number)
    return row | judged(options, domains, folder / "proxies", row)


def one_plant(options: PlantsOptions, domains: Domains, path: Path, number: int) -> dict[str, Any]:
    """Searches one plant."""
    shares = draw_plant(plantable(domains), number)
    tell(f"plant {number}: {shares}")
    run = dataclasses.replace(
        options.run,
        validation=[f"{name}={share}" for name, share in shares.items()],
        seed=options.run.seed + number,
    )
    seeded = dataclasses.replace(options, run=run)
    if not is_finished(path):
        search_in(seeded, domains.corpus, path, "plants")
    mixture = Mixture.from_json(path / "mixture.json")
    learned = mixture.as_dict()
    metrics = json.loads((path / "metrics.json").read_text(encoding="utf-8"))
    truth = domains_of(seeded, domains.corpus, run.seed).validation_shares
    return {
        "plant": number,
        "shares": truth,
        "weights": learned,
        "jitter_second_half": metrics["jitter_second_half"],
        **distances(learned, truth),
        "khat": metrics.get("guide_fit", {}).get("khat"),
        "intervals_that_hold": held(mixture, truth),
        "unexplained": metrics.get("matching", {}).get("unexplained"),
        "search": metrics["search"],
    }


def judged(
    options: PlantsOptions, domains: Domains, proxies: Path, row: dict[str, Any]
) -> dict[str, Any]:
    """Returns the losses of fresh models on learned, planted and uniform weights, seed by seed.

    Their cost, by part, is that of all: models on uniform weights count for each plant.
    """
    if not options.plants.fresh:
        return {"losses": {}, "gap_closed": None, "cost_of_fresh_models": {}}
    problem = Problem(
        corpus=domains.corpus,
        names=domains.names,
        target=row["shares"],
        build=lambda seed: language_model(options, domains.corpus.vocabulary, seed),
        proxy=options.proxy,
        steps=options.search.steps,
        batch_sequences=options.search.batch_sequences,
        sequence_length=options.run.sequence_length,
        validation_sequences=HELD_OUT_SEQUENCES,
        seed=options.run.seed,
        budget=math.inf,
        runs=proxies,
        held_out=tuple(plantable(domains)),  # so that models on uniform weights serve every plant
    )
    mixtures = {
        "learned": row["weights"],
        "planted": row["shares"],
        "uniform": uniform_weights(domains),
    }
    runs = fresh_models(problem, mixtures, options.plants.fresh, f"plant {row['plant']}")
    losses = {name: [run.target_loss(row["shares"]) for run in of] for name, of in runs.items()}
    means = {name: statistics.mean(values) for name, values in losses.items()}
    spent = problem.cost.report()["parts"]
    return {"losses": losses, "gap_closed": gap_closed(means), "cost_of_fresh_models": spent}


def distances(weights: dict[str, float], truth: dict[str, float]) -> dict[str, float]:
    """Returns the total variation to the planted shares, without and with alike ones merged."""
    return {
        "total_variation": total_variation(weights, truth),
        "total_variation_alike_merged": total_variation(merged(weights), merged(truth)),
    }


def held(mixture: Mixture, truth: dict[str, float]) -> float | None:
    """Returns the share of the intervals that hold the planted weight; None without intervals."""
    if mixture.hdi is None:
        return None
    pairs = zip(mixture.names, mixture.hdi, strict=True)
    return statistics.mean(low <= truth.get(name, 0.0) <= high for name, (low, high) in pairs)


def merged(weights: dict[str, float]) -> dict[str, float]:
    """Returns the weights with those of alike domains added up."""
    first = {second: first for first, second in ALIKE}
    total: dict[str, float] = {}
    for name, weight in weights.items():
        key = first.get(name, name)
        total[key] = total.get(key, 0.0) + weight
    return total


def results_table(rows: Sequence[dict[str, Any]]) -> str:
    """Returns the plants' results as a Markdown table, and their distribution."""

    def percent(share: float | None) -> str:
        return "" if share is None else f"{share:.0%}"

    def left_over(losses: dict[str, list[float]]) -> str:
        """What the learned weights lose to the planted ones, by seed: mean and standard error."""
        if not losses:
            return ""
        found = verdict(losses["planted"], losses["learned"])
        if found is None:  # one model tells no spread
            return f"{losses['learned'][0] - losses['planted'][0]:+.3f}"
        return f"{found.difference:+.3f} ± {found.standard_error:.3f}"

    def quality(khat: float | str | None) -> str:
        return f"{khat:.2f}" if isinstance(khat, float) else khat or ""

    header = ["plant", "planted", "learned", "TV", "TV, alike merged", "jitter",
              "intervals that hold", "k-hat", "gap closed", "left, nats"]  # fmt: skip
    body = [
        [
            str(row["plant"]),
            ", ".join(f"{name} {share:.2f}" for name, share in row["shares"].items()),
            ", ".join(f"{row['weights'][name]:.2f}" for name in row["shares"]),
            f"{row['total_variation']:.3f}",
            f"{row['total_variation_alike_merged']:.3f}",
            f"{row['jitter_second_half']:.4f}",
            percent(row["intervals_that_hold"]),
            quality(row["khat"]),
            percent(row["gap_closed"]),
            left_over(row["losses"]),
        ]
        for row in rows
    ]
    quantities = ("total_variation", "total_variation_alike_merged", "jitter_second_half")
    spread = [f"{name}: {median_and_range([row[name] for row in rows])}" for name in quantities]
    gaps = [row["gap_closed"] for row in rows if row["gap_closed"] is not None]
    if gaps:
        spread.append(f"gap_closed: {median_and_range(gaps)}")
    lines = "".join(f"- {line}\n" for line in spread)
    return f"{markdown(header, body)}\nOver the plants, median (least to largest):\n\n{lines}"


def median_and_range(values: Sequence[float]) -> str:
    """Returns the median and the range as text."""
    return f"{np.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


if __name__ == "__main__":
    run_main(plants, "plants", ABOUT, PlantsOptions, smoke=SMOKE, resumable=True, trials=0)
