"""Verdicts and tables on a fit to tables of finished runs."""

from __future__ import annotations

from bydore_pyro.mixture import HDI_PROBABILITY
from bydore_pyro.report.run import RunRecord
from bydore_pyro.report.words import Level, Verdict, number, percent
from bydore_pyro.tables import SURE, Regressed
from bydore_pyro.terminal import Table

# Rank correlation of left-out runs, x 100, from which a regression is believed; below, roughly.
RANKS, ROUGHLY = 80.0, 50.0
HELD = percent(HDI_PROBABILITY)  # by an interval
EQUAL = 1e-5  # differences of predictions, as a share of them, that are none
USUAL = (1e-3, 1e6)  # losses that are written with four decimals
MOST_GIVEN = 20  # given mixtures in a table; the file holds all


def regression_verdicts(record: RunRecord) -> list[Verdict]:
    """Returns the verdicts on a regression and on what it proposes."""
    found = (judge(record) for judge in (_read, _runs, _regression, _gain, _distance))
    return [verdict for verdict in found if verdict is not None]


def _read(record: RunRecord) -> Verdict | None:
    columns, notes = record.metrics.columns, record.metrics.reading
    if not columns.weights:
        return None
    answer = f"{len(columns.weights)} columns as weights, {len(columns.metrics)} as metrics"
    level: Level = "careful" if columns.phase else "good"
    lines = (f"{line[0].upper()}{line[1:]}." for line in (*columns.lines(), *notes))
    return Verdict(level, "How was the table read?", answer, " ".join(lines))


def _runs(record: RunRecord) -> Verdict | None:
    runs, mixture = record.metrics.runs, record.mixture
    if runs is None or mixture is None:
        return None
    figures = f"The regression was fitted to {runs:.0f} runs of {len(mixture.names)} domains."
    if runs < len(mixture.names):
        figures += " From so few it mostly assumes what a domain is worth."
        return Verdict("bad", "Are there enough runs?", "No", figures)
    return Verdict("good", "Are there enough runs?", "Yes", figures)


def _regression(record: RunRecord) -> Verdict | None:
    details = record.metrics
    one = details.regressions.get(details.regression)
    if one is None or one.spearman_x100 is None:
        return None
    figures = (
        f"{details.regression} was taken. Of runs that were left out: rank correlation x 100 "
        f"{number(one.spearman_x100, '.1f')}, error {_loss(one.rmse)}"
    )
    held = f"{percent(one.coverage)} in their {HELD} intervals"
    figures += "." if one.coverage is None else f", {held}."
    verdict: tuple[Level, str] = ("good", "It ranks them")
    if one.spearman_x100 < RANKS:
        verdict = ("careful", "Roughly") if one.spearman_x100 >= ROUGHLY else ("bad", "No")
    return Verdict(verdict[0], "Does it predict runs that it has not seen?", verdict[1], figures)


def _distance(record: RunRecord) -> Verdict | None:
    found = record.metrics.distance
    near = None if found.far is None else not found.far
    level, answer = _word(near, "Yes", "No", "Not judged")
    return Verdict(level, "Was anything like it run?", answer, found.words) if found.words else None


def _gain(record: RunRecord) -> Verdict | None:
    mixture, gain = record.mixture, record.metrics.gain_over_prior
    if mixture is None or gain.mean is None or not gain.predicted_loss:
        return None
    question, means = "Is it better than the prior?", []
    predictions = []
    for name, one in gain.predicted_loss.items():
        means.append(one.mean)
        sd = one.standard_deviation
        predictions.append(f"{name} {_loss(one.mean)}{'' if sd is None else f' ± {_loss(sd)}'}")
    figures = f"{_subject(record)} of a run on each: {'; '.join(predictions)}."
    if mixture.as_dict() == gain.prior:
        return Verdict("bad", question, "No, it is the prior", figures)
    if max(means) - min(means) < EQUAL * max(map(abs, means)):
        figures += " All predictions are equal: the runs show no difference."
        return Verdict("unknown", question, "No difference was found", figures)
    if gain.probability is None:
        figures += " This regression cannot say how certain that is."
    else:
        alone = " These weights" if gain.sure else " By the regression alone, these weights"
        figures += f"{alone} are better than the prior with probability "
        figures += f"{percent(gain.probability)}."
        if gain.sure is False and gain.probability >= SURE:
            figures += " But the regression's predictions are not sure, and so this is not."
    if gain.mean <= 0:
        return Verdict("bad", question, "No", figures)
    level, answer = _word(gain.sure, "Yes, as predicted", "Perhaps", "Predicted so")
    return Verdict(level, question, answer, figures)


def _subject(record: RunRecord) -> str:
    """Returns what the fit predicts, in words."""
    details = record.metrics
    what = next(iter(details.asked)) if len(details.asked) == 1 else "mean of the metrics"
    if details.direction == "maximised":
        return f"Predicted {what} (higher is better)"
    if details.direction == "both":
        return f"Predicted {what} (lower is better; those that are maximised count negatively)"
    return "Predicted loss"


def _loss(value: float | None) -> str:
    """Writes a loss or a deviation with four decimals, an unusually small or large one with four
    digits."""
    if value is None or value == 0 or USUAL[0] <= abs(value) < USUAL[1]:
        return number(value, ".4f")
    return number(value, ".4g")


def _word(sure: bool | None, yes: str, no: str, unknown: str) -> tuple[Level, str]:
    if sure is None:
        return "unknown", unknown
    return ("good", yes) if sure else ("careful", no)


def regression_tables(record: RunRecord) -> list[Table]:
    """Returns those tables that a fit on tables of runs left."""
    details = record.metrics
    asked = Table(
        header=("metric", "is", "best", "run"),
        rows=[
            (name, one.direction, _loss(one.best), one.run) for name, one in details.asked.items()
        ],
        caption="What was asked for",
    )
    left_out = Table(
        header=("regression", "Spearman x 100", "RMSE", f"in {HELD} intervals", "seconds a fit"),
        rows=[
            (kind, *_left_out(one), number(one.seconds, ".1f"))
            for kind, one in details.regressions.items()
        ],
        caption="Runs that were left out, a fifth at a time",
    )
    each = Table(
        header=("metric", "is", "regression", "Spearman x 100", "RMSE", f"in {HELD}",
                "these weights", "prior", "better than prior"),
        rows=[
            (name, details.asked[name].direction if name in details.asked else "",
             one.regression, *_left_out(one), _loss(one.weights),
             _loss(one.prior), percent(one.better_than_prior))
            for name, one in details.each_metric.items()
        ],
        caption="Every metric on its own",
    )  # fmt: skip
    given = Table(
        header=("mixture", "rank", "predicted", f"{HELD} from", "to", "better than prior",
                "tokens off the nearest run"),
        rows=[
            (one.mixture, number(one.rank, ".0f"),
             *map(_loss, (one.predicted, one.low, one.high)),
             percent(one.better_than_prior), percent(one.nearest_run))
            for one in details.predictions[:MOST_GIVEN]
        ],
        caption=f"{_subject(record)} of given mixtures: {len(details.predictions)}, all in "
        "predictions.csv",
    )  # fmt: skip
    return [table for table in (asked, left_out, each, given) if table.rows]


def _left_out(one: Regressed) -> tuple[str, str, str]:
    return number(one.spearman_x100, ".1f"), _loss(one.rmse), percent(one.coverage)
