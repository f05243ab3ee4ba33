"""What a regression of runs tells of itself: its tables, and its own verdicts."""

from __future__ import annotations

from bydore_pyro.report.run import RunRecord
from bydore_pyro.report.thresholds import Verdict
from bydore_pyro.report.words import Table, number, percent
from bydore_pyro.runs import Regressed

__all__ = [
    "compared_with",
    "judge_distance",
    "judge_gain",
    "judge_regression",
    "judge_runs",
    "regression_tables",
    "too_few_runs",
]

RANKS = 80.0  # rank correlation of left-out runs, x 100, from which a regression is believed
MOST_ROWS = 20  # of given mixtures; the file holds all


def compared_with(record: RunRecord) -> tuple[str, str]:
    """Returns what intervals are held against, in short and with its size."""
    if record.mixture is not None and record.mixture.prior is not None:
        short = "its share of the prior"
        return short, f"{short} (the mixture that the fit started from)"
    return "an equal share", f"the uniform share {number(1 / max(1, len(record.domains)))}"


def too_few_runs(record: RunRecord) -> bool:
    """Whether a regression was fitted to fewer runs than there are domains."""
    runs = _runs(record)
    return runs is not None and runs < len(record.domains)


def judge_runs(record: RunRecord) -> Verdict | None:
    """Judges whether there were enough runs for the domains."""
    runs = _runs(record)
    if runs is None:
        return None
    question = "Are there enough runs?"
    told = f"The regression was fitted to {runs:.0f} runs of {len(record.domains)} domains."
    if too_few_runs(record):
        told += " From so few it mostly assumes what a domain is worth."
        return Verdict("bad", question, "No", told)
    return Verdict("good", question, "Yes", told)


def judge_regression(record: RunRecord) -> Verdict | None:
    """Judges whether the regression ranks runs that it was not fitted to."""
    rows, chosen = record.metrics.told.regressions, record.metrics.told.regression
    one = rows.get(chosen)
    rank = None if one is None else one.spearman_x100
    if one is None or rank is None:
        return None
    best = " has the best rank correlation and" if len(rows) > 1 else ""
    told = (
        f"{chosen}{best} was taken. Of runs that were left out: rank correlation x 100 "
        f"{number(rank, 1)}, error {number(one.rmse, 4)}, {percent(one.coverage)} in their 94 % "
        "intervals."
    )
    question = "Does it predict runs that it has not seen?"
    if rank >= RANKS:
        return Verdict("good", question, "It ranks them", told)
    return Verdict("careful", question, "Roughly", told)


def judge_distance(record: RunRecord) -> Verdict | None:
    """Judges whether mixtures like the proposal were measured."""
    found = record.metrics.told.distance
    if not found.words:
        return None
    question = "Was anything like it run?"
    if found.far is None:
        return Verdict("unknown", question, "Not judged", found.words)
    if found.far:
        return Verdict("careful", question, "No", found.words)
    return Verdict("good", question, "Yes", found.words)


def judge_gain(record: RunRecord) -> Verdict | None:
    """Judges whether the mixture is predicted to be better than the prior."""
    mixture, gain = record.mixture, record.metrics.told.gain_over_prior
    if mixture is None or gain.mean is None or not mixture.predicted_loss:
        return None
    told = "; ".join(
        f"{'these weights' if name == 'weights' else name} {number(mean, 4)}"
        + ("" if sd is None else f" ± {number(sd, 4)}")
        for name, (mean, sd) in mixture.predicted_loss.items()
    )
    question, figures = "Is it better than the prior?", f"Predicted loss of a run on each: {told}."
    if gain.probability is None:
        uncertain = f"{figures} This regression cannot say how certain that is."
    else:
        figures += " These weights are better than the prior with probability "
        figures += f"{percent(gain.probability)}."
        uncertain = figures
    if gain.mean <= 0:
        return Verdict("bad", question, "No", figures)
    if gain.sure is None:
        return Verdict("unknown", question, "Predicted so", uncertain)
    if gain.sure:
        return Verdict("good", question, "Yes, as predicted", figures)
    return Verdict("careful", question, "Perhaps", figures)


def _runs(record: RunRecord) -> float | None:
    details = record.metrics.told
    if record.method != "regmix" or record.mixture is None:
        return None
    return details.proxies if details.runs is None else details.runs


def regression_tables(record: RunRecord) -> list[Table]:
    """Returns the tables that a fit on tables of runs left, as far as it did."""
    details = record.metrics.told
    left_out = Table(
        header=("regression", "Spearman x 100", "RMSE", "in 94 % intervals", "seconds a fit"),
        rows=[
            (kind, *_left_out(one), number(one.seconds, 1))
            for kind, one in details.regressions.items()
        ],
        caption="Runs that were left out, a fifth at a time",
    )
    each = Table(
        header=("metric", "regression", "Spearman x 100", "RMSE", "in 94 %", "these weights",
                "prior", "better than prior"),
        rows=[
            (name, one.regression, *_left_out(one), number(one.weights, 4), number(one.prior, 4),
             percent(one.better_than_prior))
            for name, one in details.each_metric.items()
        ],
        caption="Every metric on its own",
    )  # fmt: skip
    more = len(details.predictions) - MOST_ROWS
    given = Table(
        header=("mixture", "rank", "predicted", "94 % from", "to", "better than prior",
                "tokens off the nearest run"),
        rows=[
            (one.mixture, number(one.rank, 0),
             *(number(value, 4) for value in (one.predicted, one.low, one.high)),
             percent(one.better_than_prior), percent(one.nearest_run))
            for one in details.predictions[:MOST_ROWS]
        ],
        caption="Given mixtures",
        note=f"and {more} more in predictions.csv" if more > 0 else "",
    )  # fmt: skip
    return [table for table in (left_out, each, _scaled(record), given) if table.rows]


def _left_out(one: Regressed) -> tuple[str, str, str]:
    return number(one.spearman_x100, 1), number(one.rmse, 4), percent(one.coverage)


def _scaled(record: RunRecord) -> Table:
    """Returns what large runs are predicted to reach; no rows where there was no calibration."""
    found = record.metrics.told.scale_up
    if found.slope is None:
        return Table()
    note = "A large run on these weights is below one on the prior with probability "
    note += f"{percent(found.probability)}."
    if found.slope <= 0:
        note += " The scales do not agree: the proposal is not to be trusted there."
    return Table(
        header=("a large run on", "predicted", "94 % from", "to"),
        rows=[
            (
                name,
                number(one.mean, 4),
                *(number(end, 4) for end in (*one.interval, None, None)[:2]),
            )
            for name, one in (("these weights", found.weights), ("prior", found.prior))
        ],
        caption=f"The large scale, by a line fitted to {number(found.runs, 0)} of its runs: "
        f"rank correlation {number(found.spearman_x100, 1)}, slope {number(found.slope, 3)}",
        note=note,
    )
