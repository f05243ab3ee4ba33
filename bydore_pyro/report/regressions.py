"""Verdicts and tables on a fit to a table of finished runs."""

from __future__ import annotations

from bydore_pyro import mixture, terminal
from bydore_pyro.answer import ANSWER, Difference, Expected
from bydore_pyro.errors import listed
from bydore_pyro.report.run import RunRecord
from bydore_pyro.report.words import Level, Verdict, judged_better, number, percent
from bydore_pyro.tables import BEYOND

# Rank correlation of left-out runs, x 100, from which predictions are believed; below, roughly.
RANKS, ROUGHLY = 80.0, 50.0
HELD = percent(mixture.HDI_PROBABILITY)  # by an interval
EQUAL = 1e-5  # differences of predictions, as a share of them, that are none
USUAL = (1e-3, 1e6)  # losses that are written with four decimals
MOST_GIVEN = 20  # given mixtures in a table; the file holds all


def regression_verdicts(record: RunRecord) -> list[Verdict]:
    """Returns the verdicts on a table of runs and on what it leads to."""
    if record.metrics.table.runs is None:
        return []
    return [_read(record), _runs(record), _left_out(record), *_better(record), _nearness(record)]


def _read(record: RunRecord) -> Verdict:
    columns, notes = record.metrics.table.columns, record.metrics.table.reading
    answer = f"{len(columns.weights)} columns as weights, {len(columns.metrics)} as metrics"
    level: Level = "careful" if columns.phase else "good"
    lines = (f"{line[0].upper()}{line[1:]}." for line in (*columns.lines(), *notes))
    return Verdict(level, "How was the table read?", answer, " ".join(lines))


def _runs(record: RunRecord) -> Verdict:
    runs, domains = record.metrics.table.runs or 0, len(record.metrics.table.prior)
    figures = f"{runs:.0f} runs of {domains} domains."
    if runs < domains:
        figures += " With so few, what a domain is worth is mostly assumed."
        return Verdict("bad", "Are there enough runs?", "No", figures)
    return Verdict("good", "Are there enough runs?", "Yes", figures)


def _left_out(record: RunRecord) -> Verdict:
    question = "Does it predict runs that it has not seen?"
    found = record.metrics.table.mean.left_out
    if found.spearman_x100 is None:
        words = "There are too few runs to leave some out."
        return Verdict("unknown", question, "Not known", words)
    figures = (
        f"Of runs that were left out: rank correlation x 100 {number(found.spearman_x100, '.1f')}, "
        f"error {_loss(found.rmse)}, {percent(found.coverage)} in their {HELD} intervals."
    )
    if found.spearman_x100 >= RANKS:
        return Verdict("good", question, "It ranks them", figures)
    if found.spearman_x100 >= ROUGHLY:
        return Verdict("careful", question, "Roughly", figures)
    return Verdict("bad", question, "No", figures)


def _better(record: RunRecord) -> list[Verdict]:
    """Judges the answer beside each reference, as a search does; it is no clear "Yes" where no run
    is like it, or left-out runs are not ranked."""
    table = record.metrics.table
    rank = table.mean.left_out.spearman_x100
    doubts = []
    if table.nearness.far:
        doubts.append("no run is like this mixture")
    if rank is None or rank < ROUGHLY:
        doubts.append("runs that were left out are not ranked")
    found = []
    for other, apart in table.mean.differences.items():
        answer, level, sure = judged_better(apart.better)
        figures = (
            f"{_subject(record)} of a run: {_interval(table.mean.expected[ANSWER])}; {other} "
            f"{_interval(table.mean.expected[other])}. Two single runs may differ by "
            f"{_signed(apart.low)} to {_signed(apart.high)}. It is better {sure}."
        )
        size = max(abs(one.loss) for one in table.mean.expected.values())
        if abs(apart.loss) < EQUAL * size:
            level, answer = "careful", f"No, it is as {other}"
        elif doubts and answer == "Yes":
            level, figures = "careful", f"{figures} But {' and '.join(doubts)}."
        named = "the prior" if other == "prior" else other
        found.append(Verdict(level, f"Is it better than {named}?", answer, figures))
    return found


def _nearness(record: RunRecord) -> Verdict:
    near = record.metrics.table.nearness
    words = (
        f"The nearest run ({near.run}) has {percent(near.distance)} of its tokens in other "
        f"domains; the runs among themselves have {percent(near.usual)} (median), and {HELD} of "
        f"them at most {percent(near.reach)}."
    )
    if near.held:
        words += (
            f" No weight is more than {BEYOND:g} times the largest of a run, or below the smallest "
            f"divided by {BEYOND:g}; this holds {listed(near.held, 5)}."
        )
    level: Level = "careful" if near.far else "good"
    return Verdict(level, "Was anything like it run?", "No" if near.far else "Yes", words)


def _subject(record: RunRecord) -> str:
    table = record.metrics.table
    what = next(iter(table.asked)) if len(table.asked) == 1 else "mean of the metrics"
    if table.direction == "maximised":
        return f"Expected {what} (higher is better)"
    if table.direction == "both":
        return f"Expected {what} (lower is better; those that are maximised count negatively)"
    return "Expected loss"


def _loss(value: float | None) -> str:
    """Writes a loss or a deviation with four decimals, an unusually small or large one with four
    digits."""
    if value is None or value == 0 or USUAL[0] <= abs(value) < USUAL[1]:
        return number(value, ".4f")
    return number(value, ".4g")


def _signed(value: float) -> str:
    return f"{'+' if value >= 0 else ''}{_loss(value)}"


def _interval(one: Expected) -> str:
    return f"{_loss(one.loss)} ({_loss(one.low)} to {_loss(one.high)})"


def _apart(one: Difference) -> str:
    return f"{_signed(one.loss)} ({_signed(one.low)} to {_signed(one.high)})"


def regression_tables(record: RunRecord) -> list[terminal.Table]:
    """Returns those tables that a fit to a table of runs left."""
    found = record.metrics.table
    asked = terminal.Table(
        header=("metric", "is", "best", "run"),
        rows=[(name, one.direction, _loss(one.best), one.run) for name, one in found.asked.items()],
        caption="What was asked for",
    )
    each = {**found.metrics, **({"mean": found.mean} if found.mean.expected else {})}
    metrics = terminal.Table(
        header=(
            "metric",
            "this mixture",
            "than the prior",
            "better than the prior",
            "Spearman x 100",
            "RMSE",
            f"in {HELD}",
        ),
        rows=[
            (
                name,
                _interval(one.expected[ANSWER]),
                _apart(one.differences["prior"]),
                percent(one.differences["prior"].better),
                number(one.left_out.spearman_x100, ".1f"),
                _loss(one.left_out.rmse),
                percent(one.left_out.coverage),
            )
            for name, one in each.items()
        ],
        caption=f"What a run is expected to reach, with {HELD} intervals for one run, and how well "
        "left-out runs are predicted, a fifth at a time",
    )
    given = terminal.Table(
        header=(
            "mixture",
            "rank",
            "expected",
            f"{HELD} from",
            "to",
            "better than the prior",
            "tokens off the nearest run",
        ),
        rows=[
            (
                one.mixture,
                number(one.rank, ".0f"),
                *map(_loss, (one.expected, one.low, one.high)),
                percent(one.better_than_prior),
                percent(one.nearest_run),
            )
            for one in found.predictions[:MOST_GIVEN]
        ],
        caption=f"{_subject(record)} of given mixtures: {len(found.predictions)}, all in "
        "predictions.csv",
    )
    return [table for table in (asked, metrics, given) if table.rows]
