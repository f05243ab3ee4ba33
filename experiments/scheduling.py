"""The four ways in which weights become batches, held against each other."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from common import leave, markdown, run_main, run_variants
from compare_tables import leading

from bydore_pyro.data import TokenStore
from bydore_pyro.proxy import STRATEGIES, Cost
from bydore_pyro.search import search_in
from bydore_pyro.setup import Found, Options, load_domains

ABOUT = """Run the same search with each of the four scheduling strategies (the paper's Fig. 4b):
the weights allocate a batch's sequences, choose its one domain, or multiply the losses of uniform
batches. Compare the proxy's validation loss over the steps."""


def scheduling(options: Options, resume: Path | None) -> None:
    """Runs the searches; each leaves a run folder, and all of them a table."""
    corpus, cost = load_domains(options).corpus, Cost()
    folder, results = run_variants(
        options, corpus, resume, "scheduling", search_with, STRATEGIES, cost
    )
    rows = [
        [
            name,
            f"{row['validation_loss_of_the_proxy']:.3f}",
            f"{row['jitter_second_half']:.4f}",
            leading(row["weights"], 3),
        ]
        for name, row in results.items()
    ]
    table = markdown(["strategy", "validation loss at the end", "jitter", "weights"], rows)
    leave(folder, options, {"strategies": results}, cost, table, "scheduling_strategies")


def search_with(options: Options, corpus: TokenStore, path: Path, strategy: Any) -> Found:
    """Runs Algorithm 1 with a strategy."""
    linear = dataclasses.replace(options.linear, strategy=strategy)
    return search_in(dataclasses.replace(options, linear=linear), corpus, path, "scheduling")


if __name__ == "__main__":
    run_main(scheduling, "scheduling", ABOUT, resumable=True, steps=250, evidence="linear")
