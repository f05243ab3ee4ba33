"""The ablation: the posterior beside points on the simplex, in the same search."""

from __future__ import annotations

from pathlib import Path

from common import drawn_by, markdown, run_main, run_variants, verify

from bydore_pyro.proxy import Cost
from bydore_pyro.runs import Options, load_domains, results_of, uniform_weights

ABOUT = """Run the same search with the posterior, with a point on the simplex learned by the same
network, and with DoReMi's multiplicative update of a point (the paper's Figs. 2 and 4a). Compare
the trajectories, their jitter, and fresh models trained on the results."""

LABELS = {
    "bayesian": "ByDoRe: Gamma-Dirichlet posterior",
    "point": "point estimate, same network",
    "exponentiated": "point, DoReMi's update",
}


def probabilistic(options: Options, resume: Path | None) -> None:
    """Runs the searches; each leaves a run folder, and all of them a table."""
    domains = load_domains(options)
    folder, results = run_variants(
        options, domains.corpus, resume, "probabilistic", "learner", list(LABELS)
    )
    mixtures = {name: row["weights"] for name, row in results.items()}
    cost = Cost()
    losses = verify(
        options,
        domains.corpus,
        {**mixtures, "uniform": uniform_weights(domains)},
        options.search.steps,
        cost,
        options.run.seed,
        folder.path / "verification.json",
    )
    for name, row in results.items():
        row["validation_loss_of_a_fresh_model"] = losses[name]
        cost.add(row["cost"]["parts"])
    content = {"learners": results, "uniform": losses["uniform"]}
    folder.write_json("results.json", results_of(content, options, options.run.seed, cost))
    rows = [
        [
            LABELS[name],
            f"{row['jitter']:.4f}",
            f"{row['jitter_second_half']:.4f}",
            f"{max(row['weights'].values()):.2f}",
            f"{losses[name]:.3f}",
        ]
        for name, row in results.items()
    ]
    header = ["learner", "jitter", "second half", "largest weight", "fresh model's validation loss"]
    table = f"{markdown(header, rows)}\nUniform weights: {losses['uniform']:.3f}.\n"
    folder.write_text("table.md", table)
    print(table)
    print(f"In {folder.path}: results.json, table.md and a run folder for each.")
    print(drawn_by("point_estimate", folder))


if __name__ == "__main__":
    run_main(probabilistic, "probabilistic", ABOUT, resumable=True, steps=250, evidence="linear")
