"""The ablation: the posterior beside points on the simplex, in the same search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray
from common import markdown, run_main, run_variants, verify

from bydore_pyro.cost import Cost
from bydore_pyro.options import Options
from bydore_pyro.run import load_domains, uniform_weights

ABOUT = """The same search with the posterior, with a point on the simplex learned by the same
network, and with DoReMi's multiplicative update of a point (the paper's Figs. "motivation" and
"weight_sensitivity"): the trajectories side by side, their jitter, and fresh models on what each
found."""

LABELS = {
    "bayesian": "ByDoRe: Gamma-Dirichlet posterior",
    "point": "point estimate, same network",
    "exponentiated": "point, DoReMi's update",
}


def probabilistic(options: Options, resume: Path | None) -> None:
    """Runs the searches; each leaves a run folder, and all of them a table and a picture."""
    folder, results = run_variants(options, resume, "probabilistic", "learner", list(LABELS))
    domains = load_domains(options)
    mixtures = {name: row["weights"] for name, row in results.items()}
    losses = verify(
        options,
        domains.corpus,
        {**mixtures, "uniform": uniform_weights(domains)},
        options.search.steps,
        Cost(),
        options.run.seed,
        folder.path / "verification.json",
    )
    for name, row in results.items():
        row["validation_loss_of_a_fresh_model"] = losses[name]
    folder.write_json("results.json", {"learners": results, "uniform": losses["uniform"]})
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
    folder.write_figure("probabilistic.png", draw(folder.path, list(results)))
    print(table)
    print(f"In {folder.path}: results.json, table.md, probabilistic.png and a run folder for each.")


def draw(folder: Path, names: list[str]) -> Any:
    """Draws the weights of every learner over the steps, one panel each."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from bydore_pyro.plots import domain_colours, plain

    figure, panels = plt.subplots(
        1, len(names), figsize=(4.2 * len(names), 4.2), sharey=True, layout="constrained"
    )
    for axes, name in zip(panels, names, strict=True):
        path = folder / name / "trajectory.nc"
        with xarray.open_dataset(path, engine="h5netcdf") as trajectory:
            means = trajectory["mean"].load()
        labels = [str(label) for label in means["domain"].values]
        colours = domain_colours(labels)
        for index in np.argsort(-means.values[len(means) // 2 :].mean(0)):
            axes.plot(means.values[:, index], color=colours[labels[index]], linewidth=1.3)
        axes.set_title(LABELS[name], fontsize=10)
        axes.set_xlabel("step")
        axes.margins(x=0.01)
    panels[0].set_ylabel("weight (share of training tokens)")
    panels[0].set_ylim(0, 1)
    handles = [
        plt.Line2D([], [], color=colour, label=plain(label)) for label, colour in colours.items()
    ]
    figure.legend(handles=handles, loc="outside right upper", frameon=False, fontsize=8)
    return figure


if __name__ == "__main__":
    run_main(probabilistic, "probabilistic", ABOUT, resumable=True, steps=250)
