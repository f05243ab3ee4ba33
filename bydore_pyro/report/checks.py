"""A check as text: what was predicted beside what was measured."""

from __future__ import annotations

from typing import Literal

from bydore_pyro import terminal
from bydore_pyro.check import Check, Compared
from bydore_pyro.report.text import filled
from bydore_pyro.report.words import count, number

COLUMNS = ("mixture", "predicted", "94 % interval", "measured", "standard error", "inside")


def check_text(found: Check) -> str:
    """Returns a check's tables of losses and differences on the targets, and how many intervals
    hold what was measured, on the domains too."""
    parts = [filled(_about(found)), check_table(found, "losses").as_text()]
    differences = check_table(found, "differences")
    if differences.rows:
        parts.append(differences.as_text())
    parts += [filled(_held(found)), filled(_added(found))]
    return "\n" + "\n\n".join(parts)


def check_table(found: Check, kind: Literal["losses", "differences"]) -> terminal.Table:
    """Returns what was predicted beside what was measured on the targets, as losses or as their
    differences from the baseline's."""
    form = ".4f" if kind == "losses" else "+.4f"
    units = {found.units[text] for text in found.targets}
    several = len(units) > 1
    what = "loss" if kind == "losses" else f"loss less that of {found.baseline}"
    header = (what if several else f"{what}, {min(units)}", *COLUMNS)
    rows = [
        (text, name, *_cells(compared[text], form), *([found.units[text]] if several else []))
        for text in found.targets
        for name, mixture in found.mixtures.items()
        if text in (compared := getattr(mixture, kind))
    ]
    return terminal.Table(header=(*header, "unit") if several else header, rows=rows)


def _cells(one: Compared, form: str) -> tuple[str, ...]:
    return (
        number(one.predicted.loss, form),
        f"{one.predicted.low:{form}} to {one.predicted.high:{form}}",
        number(one.measured, form),
        number(one.standard_error, ".4f"),
        "yes" if one.holds else "no",
    )


def _about(found: Check) -> str:
    runs = f"the mean of {len(found.seeds)} runs" if len(found.seeds) > 1 else "one run"
    rate = "with a rate that falls to zero" if found.decay else "at a constant rate"
    text = (
        f"Predicted: one run of {count(found.predicted_tokens)} tokens at a constant rate. "
        f"Measured: {runs} of {count(found.tokens)} tokens on each mixture, {rate}."
    )
    if found.as_predicted:
        return text
    return f"{text} The measured losses also differ because the runs are of another kind."


def _held(found: Check) -> str:
    def of(targets: bool) -> str:
        counts = {kind: found.held(kind, targets) for kind in ("losses", "differences")}
        return " and ".join(f"{held} of {n} {kind}" for kind, (held, n) in counts.items() if n)

    return (
        f"The intervals contain the measured mean of {of(True)} on the targets, and of {of(False)} "
        "on the domains."
    )


def _added(found: Check) -> str:
    if not found.as_predicted:
        return (
            "These runs are kept. bydore ask does not use them, because the law of losses is for "
            "runs of the search's length at a constant rate."
        )
    if not found.added:
        return "bydore ask used all of these runs before."
    runs = "1 new run" if found.added == 1 else f"{found.added} new runs"
    return f"bydore ask now also uses {runs}."
