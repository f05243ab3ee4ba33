"""The four ways in which weights become batches, held against each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from common import markdown, run_main, run_variants

from bydore_pyro.options import Options
from bydore_pyro.scheduling import STRATEGIES

ABOUT = """The same search under each of the four scheduling strategies (the paper's Fig.
"strategies_godam"): the weights share out a batch's sequences or choose its one domain, or they
weigh the losses of uniform batches. Compares the proxy's validation loss over the steps."""


def scheduling(options: Options, resume: Path | None) -> None:
    """Runs the searches; each leaves a run folder, and all of them a table and a picture."""
    folder, results = run_variants(options, resume, "scheduling", "strategy", STRATEGIES)
    folder.write_json("results.json", results)
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
    folder.write_figure("scheduling.png", draw(results))
    print(table)
    print(f"In {folder.path}: results.json, table.md, scheduling.png and a run folder for each.")


def leading(weights: dict[str, float]) -> list[tuple[str, float]]:
    """Returns the three largest weights."""
    return sorted(weights.items(), key=lambda item: -item[1])[:3]


def draw(results: dict[str, Any]) -> Any:
    """Draws the validation loss of each strategy over the steps."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for (name, row), style in zip(results.items(), ("-", "--", "-.", ":"), strict=True):
        losses = np.array(row["validation_losses"])
        window = max(1, len(losses) // 20)
        smooth = np.convolve(losses, np.ones(window) / window, "valid")
        axes.plot(np.arange(len(smooth)) + window, smooth, style, label=name.replace("_", " "))
    axes.set_xlabel("step")
    axes.set_ylabel("validation loss of the proxy (nats per token)")
    axes.set_title("Scheduling strategies, running mean of a twentieth of the run", fontsize=11)
    axes.legend(frameon=False)
    return figure


if __name__ == "__main__":
    run_main(scheduling, "scheduling", ABOUT, resumable=True, steps=250)
