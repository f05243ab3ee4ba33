"""What the page on several runs shows."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from bydore_pyro.report.comparison import (
    agreement_rows,
    cautions,
    costs_by_part,
    differing_options,
    distances,
    overview,
    verdict_table,
    weight_table,
)
from bydore_pyro.report.comparison_figures import (
    comparison_figure,
    cost_bars,
    losses_beside,
)
from bydore_pyro.report.drawing import MOST_DRAWN, domain_looks, run_looks
from bydore_pyro.report.page_frame import frame, plot
from bydore_pyro.report.run_record import RunRecord, labelled_runs
from bydore_pyro.report.verdicts import verdicts_of
from bydore_pyro.report.words import flops_of, number

__all__ = ["comparison_page"]


def comparison_page(records: Sequence[RunRecord]) -> dict[str, Any]:
    """Returns what the template `comparison.html` shows of runs; several seeds are so many runs.

    Raises:
        ImportError: When plotly or jinja2 is not installed.
    """
    lone = records[0] if len(records) == 1 else None
    runs = labelled_runs([run for record in records for run in _runs_of(record)])
    looks = domain_looks(sorted({name for r in (*records, *runs) for name in r.domains}))
    marks = run_looks([run.label for run in runs])
    names = [mark.name for mark in marks]
    losses = [run.numbers("validation_loss_nats_per_token") for run in runs]
    labels = list(dict.fromkeys(label for found in losses for label in found))
    costs = costs_by_part(runs)
    most = {part: max(c.get(part, 0.0) for c in costs) for run in costs for part in run}
    parts = sorted(most, key=lambda part: -most[part])
    judged = [i for i, found in enumerate(losses) if found]
    drawn_losses = (
        losses_beside([losses[i] for i in judged], [marks[i] for i in judged]) if judged else None
    )
    drawn_weights = comparison_figure(runs, marks, looks) if runs else None
    title = f"{lone.label}: {len(runs)} seeds" if lone else f"{len(runs)} runs compared"
    place = f"Run folder: {lone.path}" if lone else ", ".join(str(r.path) for r in records)
    drawn = f" The {MOST_DRAWN} largest of {len(looks)}." if len(looks) > MOST_DRAWN else ""
    return {
        **frame(title, place, {look.key: look.name for look in (*looks.values(), *marks)}, ""),
        "cautions": cautions(runs),
        "damaged": list(dict.fromkeys(d for record in (*records, *runs) for d in record.damaged)),
        "agreement": agreement_rows(lone, looks) if lone else [],
        "agreement_verdicts": verdicts_of(lone) if lone else [],
        "runs": list(zip(marks, overview(runs), strict=True)),
        "weights": plot("weights", "Weights by domain and run", drawn_weights),
        "weights_caption": "Points: weights, as shares of the training tokens. Lines: "
        "intervals, where a run has them." + drawn,
        "weight_rows": weight_table(runs, looks),
        "distances": distances(runs),
        "losses": plot("losses", "Losses of fresh models", drawn_losses),
        "loss_header": ["trained on", *(names[i] for i in judged)],
        "loss_rows": [
            (label, *(number(losses[i].get(label), 4) for i in judged)) for label in labels
        ],
        "verdict_rows": verdict_table(runs),
        "costs": plot("costs", "FLOPs by run and part", cost_bars(names, costs) if parts else None),
        "cost_header": ["FLOPs of", *names],
        "cost_rows": [(part, *(flops_of(run.get(part)) for run in costs)) for part in parts],
        "differing_header": ["option", *names],
        "differing": [(name, *values) for name, values in differing_options(runs)],
        "commands": _commands(runs),
    }


def _runs_of(record: RunRecord) -> tuple[RunRecord, ...]:
    """Returns the runs that are compared: those of several seeds, or the run itself."""
    if record.seeds or record.mixture is None:
        return record.seeds
    return (record,)


def _commands(runs: Sequence[RunRecord]) -> list[tuple[str, str]]:
    if not runs:
        return []
    run = shlex.quote(str(runs[0].path))
    return [
        (
            f"The weights of one of them, say {runs[0].label}, in a trainer's own format",
            f"bydore export {run} --to megatron --prefix '/data/{{domain}}' --out FILE",
        ),
        (
            "A target model trained on them",
            f"bydore train --mixture {run} --data STORE --model models/target-60m --tokens 1B "
            "--out DIR",
        ),
        ("All figures of one of them", f"bydore report {run}"),
    ]
