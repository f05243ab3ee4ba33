"""The four ways in which weights become batches, held against each other."""

from __future__ import annotations

from pathlib import Path

from common import drawn_by, markdown, run_main, run_variants

from bydore_pyro.proxy import STRATEGIES, Cost
from bydore_pyro.runs import Options, load_domains, results_of

ABOUT = """Run the same search with each of the four scheduling strategies (the paper's Fig. 4b):
the weights allocate a batch's sequences, choose its one domain, or multiply the losses of uniform
batches. Compare the proxy's validation loss over the steps."""


def scheduling(options: Options, resume: Path | None) -> None:
    """Runs the searches; each leaves a run folder, and all of them a table."""
    corpus = load_domains(options).corpus
    folder, results = run_variants(options, corpus, resume, "scheduling", "strategy", STRATEGIES)
    cost = Cost()
    for row in results.values():
        cost.add(row["cost"]["parts"])
    content = {"strategies": results}
    folder.write_json("results.json", results_of(content, options, options.run.seed, cost))
    rows = [
        [
            name,
            f"{row['validation_loss_of_the_proxy']:.3f}",
            f"{row['jitter_second_half']:.4f}",
            ", ".join(f"{n} {w:.2f}" for n, w in leading(row["weights"])),
        ]
        for name, row in results.items()
    ]
    table = markdown(["strategy", "validation loss at the end", "jitter", "weights"], rows)
    folder.write_text("table.md", table)
    print(table)
    print(f"In {folder.path}: results.json, table.md and a run folder for each.")
    print(drawn_by("scheduling_strategies", folder))


def leading(weights: dict[str, float]) -> list[tuple[str, float]]:
    """Returns the three largest weights."""
    return sorted(weights.items(), key=lambda item: -item[1])[:3]


if __name__ == "__main__":
    run_main(scheduling, "scheduling", ABOUT, resumable=True, steps=250, evidence="linear")
