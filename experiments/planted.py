"""The planted mixture: validation text drawn in known shares, so that the right answer is known."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common import markdown, run_main, verify

from bydore_pyro.data import TokenStore
from bydore_pyro.mixture import Mixture, total_variation
from bydore_pyro.proxy import Cost
from bydore_pyro.report import add_html_report
from bydore_pyro.runs import (
    Options,
    begin_run,
    domains_of,
    is_finished,
    load_domains,
    results_of,
    search_in,
    uniform_weights,
)
from bydore_pyro.utils import RunFolder, tell

ABOUT = """Draw the validation set from three domains in known shares, search the weights of all
domains, and measure how close they come: the total variation from the planted weights, the jitter,
and the share of the gap in validation loss between uniform and planted weights that fresh models
close on the learned weights. Runs three searches, with seeds from --seed on, and trains three fresh
models per mixture."""

SHARES = {"docstrings": 0.5, "c_headers": 0.3, "stubs": 0.2}
SEARCHES = 3
FRESH = 3  # models a mixture: one is too noisy to tell mixtures apart


def planted(options: Options, resume: Path | None) -> None:
    """Runs the searches; each leaves a run folder, and all of them a table."""
    folder = begin_run(options, "planted", resume)
    domains = load_domains(options)
    if resume is None:
        folder.write_config("planted", options.as_dict(), tell)
    references = {"planted": domains.validation_shares, "uniform": uniform_weights(domains)}
    cost = Cost()
    known = fresh_losses(options, domains.corpus, references, cost, folder.path)
    rows = []
    for seed in range(options.run.seed, options.run.seed + SEARCHES):
        seeded = dataclasses.replace(options, run=dataclasses.replace(options.run, seed=seed))
        rows.append(one_search(seeded, domains.corpus, folder.path / f"seed-{seed}", known, cost))
        cost.add(rows[-1]["search"]["parts"])
    shares = options.run.validation_shares()
    content = {"planted": shares, "known": known, "seeds": rows}
    folder.write_json("results.json", results_of(content, options, options.run.seed, cost))
    table = results_table(shares, rows)
    folder.write_text("table.md", table)
    print(table)
    print(f"In {folder.path}: results.json, table.md, and a run folder for every seed.")
    print(f"Next: bydore report {folder.path / f'seed-{options.run.seed}'}")


def one_search(
    options: Options, corpus: TokenStore, path: Path, known: dict[str, list[float]], cost: Cost
) -> dict[str, Any]:
    """Searches with one seed and trains fresh models on what it finds."""
    if not is_finished(path):
        search_in(options, corpus, path, "planted")
        tell(add_html_report(RunFolder(path, resume=True)))
    metrics = json.loads((path / "metrics.json").read_text(encoding="utf-8"))
    learned = Mixture.from_json(path / "mixture.json").as_dict()
    found = fresh_losses(options, corpus, {"learned": learned}, cost, path)
    losses = {**known, **found}
    means = {label: statistics.mean(values) for label, values in losses.items()}
    truth = domains_of(options, corpus, options.run.seed).validation_shares
    return {
        "seed": options.run.seed,
        "losses": losses,
        "gap_closed": gap_closed(means),
        "gap_closed_by_one_model": [
            gap_closed({label: values[i] for label, values in losses.items()}) for i in range(FRESH)
        ],
        "total_variation": total_variation(learned, truth),
        "total_variation_of_last_weights": total_variation(metrics["last_weights"], truth),
        "jitter_second_half": metrics["jitter_second_half"],
        "khat": metrics["guide_fit"]["khat"],
        "weights": learned,
        "search": metrics["search"],
    }


def fresh_losses(
    options: Options,
    corpus: TokenStore,
    mixtures: dict[str, dict[str, float]],
    cost: Cost,
    folder: Path,
) -> dict[str, list[float]]:
    """Returns the validation losses of `FRESH` fresh models on each mixture, nats per token."""
    steps = options.search.steps
    runs = [
        verify(options, corpus, mixtures, steps, cost, seed, folder / f"fresh-{seed}.json")
        for seed in range(FRESH)
    ]
    return {label: [run[label] for run in runs] for label in mixtures}


def gap_closed(losses: Mapping[str, float], label: str = "learned") -> float | None:
    """Returns the share of the gap from uniform to planted weights that those of `label` close."""
    gap = losses["uniform"] - losses["planted"]
    return (losses["uniform"] - losses[label]) / gap if gap > 0 else None


def results_table(shares: dict[str, float], rows: list[dict[str, Any]]) -> str:
    """Returns the seeds' results as a Markdown table."""
    planted = ", ".join(f"{name} {share}" for name, share in shares.items())
    labels = ("learned", "planted", "uniform")
    body = [
        [
            str(row["seed"]),
            "no gap" if row["gap_closed"] is None else f"{row['gap_closed']:.0%}",
            f"{row['total_variation']:.3f}",
            f"{row['jitter_second_half']:.3f}",
            *(f"{row['weights'].get(name, 0.0):.2f}" for name in shares),
            *(f"{statistics.mean(row['losses'][label]):.3f}" for label in labels),
        ]
        for row in rows
    ]
    header = ["seed", "gap closed", "total variation", "jitter, second half", *shares,
              *(f"loss: {label}" for label in labels)]  # fmt: skip
    return (
        f"Planted: {planted}. Losses in nats per token, means of {FRESH} fresh models.\n\n"
        f"{markdown(header, body)}"
    )


if __name__ == "__main__":
    validation = [f"{name}={share}" for name, share in SHARES.items()]
    run_main(planted, "planted", ABOUT, resumable=True, validation=validation, trials=0)
