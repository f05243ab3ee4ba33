"""What the rounds of a search by gradient matching found, in plain words: for text and page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bydore_pyro.mixture import total_variation
from bydore_pyro.report.run_record import as_number, named_numbers
from bydore_pyro.report.table import Table
from bydore_pyro.report.thresholds import COVERED
from bydore_pyro.report.words import clean, count, number, percent

__all__ = [
    "Round",
    "check_told",
    "covered",
    "inference_told",
    "last_alone",
    "round_tables",
    "rounds_in",
    "scale_told",
    "width_told",
]

MOST_ROWS = 8  # domains in the table of the rounds


@dataclass(frozen=True, kw_only=True)
class Round:
    """What a round found; what its file does not tell is None or empty.

    Attributes:
        step: Steps of the proxy before it.
        alone: The most likely weights by this round's evidence alone, by domain.
        weights: By all evidence so far.
        settled: Whether inference settled.
        figures: Its other numbers by name.
    """

    step: int
    alone: Mapping[str, float]
    weights: Mapping[str, float]
    settled: bool
    figures: Mapping[str, float]


def rounds_in(metrics: Mapping[str, Any]) -> list[Round]:
    """Returns the rounds in a run's metrics; an empty list for other kinds of runs."""
    matching = metrics.get("matching")
    rounds = matching.get("rounds") if isinstance(matching, dict) else None
    found = []
    for one in rounds if isinstance(rounds, list) else ():
        step = as_number(one.get("step")) if isinstance(one, dict) else None
        if step is None:
            continue
        found.append(
            Round(
                step=int(step),
                alone=named_numbers(one.get("alone")),
                weights=named_numbers(one.get("weights")),
                settled=one.get("settled") is True,
                figures=named_numbers(one),
            )
        )
    return found


def covered(unexplained: float) -> str:
    """Returns what the unexplained share of the target means."""
    level = COVERED.level(unexplained)
    if level == "good":
        return (
            f"Their best mixture leaves {percent(unexplained)} of "
            "what the target asks for unexplained."
        )
    told = (
        f"No mixture of these domains teaches {percent(unexplained)} of what the target asks for."
    )
    if level == "bad":
        told += " More text like the target's would help more than other weights."
    return told


def scale_told(scale: float | None) -> str:
    """Returns what the scale of the optimum means, "" where it is not known."""
    if scale is None:
        return ""
    return f"The scale is {number(scale, 2)}: 1 where the target is a mixture of the domains."


def check_told(metrics: Mapping[str, Any]) -> tuple[list[str], int, str] | None:
    """Returns what the check on fresh text found, None where there was none.

    Returns:
        The domains that contradict the mixture, how many were checked, and a sentence or two.
    """
    matching = metrics.get("matching")
    check = matching.get("check") if isinstance(matching, dict) else None
    slopes = named_numbers(check.get("slopes")) if isinstance(check, dict) else {}
    failing = check.get("failing") if isinstance(check, dict) else None
    if not slopes or not isinstance(failing, list):
        return None
    failing = [name for name in map(str, failing) if name in slopes]
    if not failing:
        told = f"On fresh text none of {len(slopes)} domains contradicts the mixture."
        return [], len(slopes), told
    more = [name for name in failing if slopes[name] > 0]
    less = [name for name in failing if slopes[name] <= 0]
    parts = [
        f"{word} of {', '.join(map(clean, names))}"
        for word, names in (("more", more), ("less", less))
        if names
    ]
    verb = "contradicts" if len(failing) == 1 else "contradict"
    return (
        failing,
        len(slopes),
        f"On fresh text {len(failing)} of {len(slopes)} domains {verb} the mixture: "
        f"{' and '.join(parts)} would match the target better.",
    )


def last_alone(rounds: list[Round]) -> float | None:
    """Returns the total variation between the weights by the last round's evidence alone and those
    by all rounds, None of one round."""
    if len(rounds) < 2:
        return None
    return total_variation(rounds[-1].alone, rounds[-1].weights)


def inference_told(rounds: list[Round]) -> str:
    """Returns whether inference settled in every round."""
    late = [place for place, one in enumerate(rounds, start=1) if not one.settled]
    if not late:
        return "Inference settled in every round." if len(rounds) > 1 else "Inference settled."
    which = ", ".join(map(str, late))
    return f"Inference ran out of steps in round{'s' if len(late) > 1 else ''} {which}."


def width_told(metrics: Mapping[str, Any]) -> str:
    """Returns how much counting by document widens the errors, "" where it is not known."""
    matching = metrics.get("matching")
    factor = matching.get("by_document_over_by_sequence") if isinstance(matching, dict) else None
    if as_number(factor) is None:
        return ""
    return (
        "Documents count as witnesses, not sequences: the evidence's errors are "
        f"{number(as_number(factor), 1)} times those by sequence, in the median."
    )


def round_tables(rounds: list[Round]) -> list[Table]:
    """Returns the largest weights by each round alone and by all rounds up to it, and the rounds'
    other figures; nothing without rounds."""
    if not rounds:
        return []
    header = ["domain", "round 1"]
    for place in range(2, len(rounds) + 1):
        header += [f"round {place} alone", f"rounds 1 to {place}"]
    last, rows = rounds[-1].weights, []
    for name in sorted(last, key=lambda name: -last[name])[:MOST_ROWS]:
        cells = [number(rounds[0].weights.get(name))]
        for one in rounds[1:]:
            cells += [number(one.alone.get(name)), number(one.weights.get(name))]
        rows.append((clean(name), *cells))
    weights = Table(
        header=header,
        rows=rows,
        caption="The largest weights, by the evidence of each round alone and of all rounds so far",
    )
    figures = Table(
        header=("round", "after step", "sequences", "validation loss", "unexplained", "scale",
                "inference"),
        rows=[_figures_of(place, one) for place, one in enumerate(rounds, start=1)],
        caption="The rounds. Unexplained and scale belong to the evidence of all rounds so far",
    )  # fmt: skip
    return [weights, figures]


def _figures_of(place: int, one: Round) -> tuple[str, ...]:
    return (
        str(place),
        str(one.step),
        count(one.figures.get("sequences")),
        number(one.figures.get("validation_loss")),
        percent(one.figures.get("unexplained")),
        number(one.figures.get("scale"), 2),
        f"{'settled' if one.settled else 'not settled'} after "
        f"{number(one.figures.get('inference_steps'), 0)} steps",
    )
