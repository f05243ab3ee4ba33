"""Many planted mixtures: one plant is not enough to judge a design of the search by."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import all_once, leave, markdown, run_main

from bydore_pyro.command_line import Checked, option
from bydore_pyro.data import Domains
from bydore_pyro.errors import DataError
from bydore_pyro.mixture import Mixture, total_variation
from bydore_pyro.proxy import Cost
from bydore_pyro.search import search_in
from bydore_pyro.setup import Options, begin_run, domains_of, is_finished, load_domains
from bydore_pyro.terminal import tell

ABOUT = """Draw plants: mixtures of two to five domains with random shares; every second plant
contains two similar domains. For each plant, draw a validation set in these shares, search the
weights of all domains, and report how close they come: the total variation (also with similar
domains merged, between which weight may rightly move), and how many intervals contain the planted
shares. Plants are numbered, so that designs can be chosen on some and tested on others."""

ALIKE = (("python", "python_tests"), ("c_headers", "c_source"), ("docstrings", "text"))
LEAST_SEQUENCES = 20
LEAST_DOCUMENTS = 14  # fewer say more of themselves than of their domain, whose weight is sought
# So little text as in the smoke runs of the others holds fewer documents out.
SMOKE = {"domain_megabytes": 0.2, "validation_fraction": 0.5}


@dataclass(frozen=True, kw_only=True)
class PlantsConfig(Checked):
    """Which plants are searched."""

    plants: int = option(10, "Number of plants.", least=1, most=1000)
    first: int = option(0, "Number of the first plant.", least=0, most=1000)


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
    held_out = domains.corpus.validation
    least = LEAST_SEQUENCES * domains.sequence_length
    names = [
        name
        for name in domains.names
        if len(held_out[name]) >= least and len(held_out[name].ends) >= LEAST_DOCUMENTS
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
        folder.write_config("plants", options.as_dict())
    cost, asked = Cost(), options.plants
    numbers = range(asked.first, asked.first + asked.plants)
    compute = partial(one_plant, options, domains, folder.path.absolute())
    rows = all_once(folder, compute, {f"plant-{n}/plant": n for n in numbers}, options)
    for row in rows:
        cost.add(row["search"]["parts"])
    leave(folder, options, {"plants": rows}, cost, results_table(rows), "planted_mixtures")


def one_plant(
    options: PlantsOptions, domains: Domains, runs: Path, number: int, advance: object
) -> dict[str, Any]:
    """Searches one plant."""
    path = runs / f"plant-{number}"
    shares = draw_plant(plantable(domains), number)
    tell(f"plant {number}: {shares}")
    run = dataclasses.replace(options.run, seed=options.run.seed + number)
    validation = [f"{name}={share}" for name, share in shares.items()]
    question = dataclasses.replace(options.question, validation=validation)
    seeded = dataclasses.replace(options, run=run, question=question)
    if not is_finished(path):
        search_in(seeded, domains.corpus, path, "plants")
    mixture = Mixture.from_json(path / "mixture.json")
    metrics = json.loads((path / "metrics.json").read_text(encoding="utf-8"))
    truth = domains_of(seeded, domains.corpus, run.seed).validation_shares
    learned = mixture.as_dict()
    return {
        "plant": number,
        "shares": truth,
        "weights": learned,
        "total_variation": total_variation(learned, truth),
        "total_variation_alike_merged": total_variation(merged(learned), merged(truth)),
        "khat": metrics.get("guide_fit", {}).get("khat"),
        "intervals_that_hold": held(mixture, truth),
        "search": metrics["search"],
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
    header = [
        "plant",
        "planted",
        "learned",
        "TV",
        "TV, alike merged",
        "intervals that hold",
        "k-hat",
    ]
    body, quantities = [], ("total_variation", "total_variation_alike_merged")
    for row in rows:
        holds, khat = row["intervals_that_hold"], row["khat"]
        body.append(
            [
                str(row["plant"]),
                ", ".join(f"{name} {share:.2f}" for name, share in row["shares"].items()),
                ", ".join(f"{row['weights'][name]:.2f}" for name in row["shares"]),
                *(f"{row[name]:.3f}" for name in quantities),
                "" if holds is None else f"{holds:.0%}",
                f"{khat:.2f}" if isinstance(khat, float) else khat or "",
            ]
        )
    lines = ""
    for name in quantities:
        values = [row[name] for row in rows]
        lines += f"- {name}: {np.median(values):.3g} ({min(values):.3g} to {max(values):.3g})\n"
    return f"{markdown(header, body)}\nOver the plants, median (least to largest):\n\n{lines}"


if __name__ == "__main__":
    run_main(plants, "plants", ABOUT, PlantsOptions, smoke=SMOKE, resumable=True, trials=0)
