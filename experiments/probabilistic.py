"""The ablation: the posterior beside points on the simplex, in the same search."""

from __future__ import annotations

from pathlib import Path

from common import leave, markdown, run_main, run_variants, verify
from point_learners import ExponentiatedLearner, PointLearner

from bydore_pyro.algorithm1 import WeightsLearner
from bydore_pyro.data import TokenStore
from bydore_pyro.files import RunFolder
from bydore_pyro.proxy import Cost
from bydore_pyro.search import search_by_linear_evidence
from bydore_pyro.setup import Found, Options, domains_of, load_domains

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
    domains, cost = load_domains(options), Cost()
    folder, results = run_variants(
        options, domains.corpus, resume, "probabilistic", search_with, list(LABELS), cost
    )
    mixtures = {name: row["weights"] for name, row in results.items()}
    mixtures["uniform"] = dict.fromkeys(domains.names, 1 / domains.num_domains)
    losses = verify(options, domains, mixtures, cost, folder.path / "proxies")
    rows = []
    for name, row in results.items():
        row["validation_loss_of_a_fresh_model"] = losses[name]
        largest = f"{max(row['weights'].values()):.2f}"
        rows.append(
            [LABELS[name], f"{row['jitter_second_half']:.4f}", largest, f"{losses[name]:.3f}"]
        )
    header = ["learner", "jitter, second half", "largest weight", "fresh model's validation loss"]
    table = f"{markdown(header, rows)}\nUniform weights: {losses['uniform']:.3f}.\n"
    content = {"learners": results, "uniform": losses["uniform"]}
    leave(folder, options, content, cost, table, "point_estimate")


def search_with(options: Options, corpus: TokenStore, path: Path, label: str) -> Found:
    """Runs Algorithm 1 with a learner, or goes on with it."""
    config, steps, seed = options.linear, options.search.steps, options.run.seed

    def learner(num_domains: int) -> WeightsLearner:
        if label == "exponentiated":
            return ExponentiatedLearner(num_domains)
        return PointLearner(num_domains, config, steps, seed)

    folder = RunFolder(path, resume=(path / "config.json").exists())
    domains = domains_of(options, corpus, seed)
    made = None if label == "bayesian" else learner
    return search_by_linear_evidence(options, domains, folder, "probabilistic", made)


if __name__ == "__main__":
    run_main(probabilistic, "probabilistic", ABOUT, resumable=True, steps=250, evidence="linear")
