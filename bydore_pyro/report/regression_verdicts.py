"""Is the mixture of a regression to be believed? The verdicts that are its own."""

from __future__ import annotations

from bydore_pyro.report.run_record import RunRecord
from bydore_pyro.report.thresholds import Verdict
from bydore_pyro.report.words import number, percent

__all__ = [
    "compared_with",
    "judge_distance",
    "judge_gain",
    "judge_regression",
    "judge_runs",
    "too_few_runs",
]

RANKS = 80.0  # rank correlation of left-out runs, x 100, from which a regression is believed
FAR = 0.94  # share of the runs that lie nearer to another: beyond, nothing like it was run
SURE = 0.97  # the probability of an improvement that is called one


def compared_with(record: RunRecord) -> tuple[str, str]:
    """Returns what intervals are held against, in short and with its size."""
    mixture = record.mixture
    if mixture is not None and mixture.prior is not None:
        return (
            "its share of the prior",
            "its share of the prior (the mixture that the fit started from)",
        )
    count = len(mixture.names) if mixture is not None else 1
    return "an equal share", f"the uniform share {number(1 / count)}"


def too_few_runs(record: RunRecord) -> bool:
    """Whether a regression was fitted to fewer runs than there are domains."""
    runs, mixture = _runs(record), record.mixture
    return runs is not None and mixture is not None and runs < len(mixture.names)


def judge_runs(record: RunRecord) -> Verdict | None:
    """Judges whether there were enough runs for the domains."""
    runs, mixture = _runs(record), record.mixture
    if runs is None or mixture is None:
        return None
    few, count = too_few_runs(record), len(mixture.names)
    return Verdict(
        level="bad" if few else "good",
        question="Are there enough runs?",
        answer="No" if few else "Yes",
        figures=f"The regression was fitted to {runs:.0f} runs of {count} domains."
        + (" From so few it mostly assumes what a domain is worth." if few else ""),
    )


def judge_regression(record: RunRecord) -> Verdict | None:
    """Judges whether the regression ranks runs that it was not fitted to."""
    details = record.metrics.get("details")
    rows = details.get("regressions") if isinstance(details, dict) else None
    if not isinstance(rows, dict) or not rows:
        return None
    chosen = str(record.metrics["details"].get("regression"))
    rank = record.number("details", "regressions", chosen, "spearman_x100")
    if rank is None:
        return None
    place = ("details", "regressions", chosen)
    best = " has the best rank correlation and" if len(rows) > 1 else ""
    return Verdict(
        level="good" if rank >= RANKS else "careful",
        question="Does it predict runs that it has not seen?",
        answer="It ranks them" if rank >= RANKS else "Roughly",
        figures=f"{chosen}{best} was taken. Of runs that were left out: rank correlation x 100 "
        f"{number(rank, 1)}, error {number(record.number(*place, 'rmse'), 4)}, "
        f"{percent(record.number(*place, 'coverage'))} in their 94 % intervals.",
    )


def judge_distance(record: RunRecord) -> Verdict | None:
    """Judges whether mixtures like the proposal were measured."""
    farther = record.number("details", "distance", "farther_than")
    if farther is None:
        return None
    return Verdict(
        level="careful" if farther > FAR else "good",
        question="Was anything like it run?",
        answer="No" if farther > FAR else "Yes",
        figures=str(record.metrics["details"]["distance"].get("words", "")),
    )


def judge_gain(record: RunRecord) -> Verdict | None:
    """Judges whether the mixture is predicted to be better than the prior."""
    mixture = record.mixture
    gain = record.number("details", "gain_over_prior", "mean")
    if mixture is None or gain is None or not mixture.predicted_loss:
        return None
    told = "; ".join(
        f"{'these weights' if name == 'weights' else name} {number(mean, 4)}"
        + ("" if sd is None else f" ± {number(sd, 4)}")
        for name, (mean, sd) in mixture.predicted_loss.items()
    )
    probability = record.number("details", "gain_over_prior", "probability")
    figures = f"Predicted loss of a run on each: {told}."
    if probability is not None:
        figures += " These weights are better than the prior with probability "
        figures += f"{percent(probability)}."
    question = "Is it better than the prior?"
    if gain <= 0:
        return Verdict(level="bad", question=question, answer="No", figures=figures)
    if probability is None:
        return Verdict(
            level="unknown",
            question=question,
            answer="Predicted so",
            figures=f"{figures} This regression cannot say how certain that is.",
        )
    sure = probability >= SURE
    return Verdict(
        level="good" if sure else "careful",
        question=question,
        answer="Yes, as predicted" if sure else "Perhaps",
        figures=figures,
    )


def _runs(record: RunRecord) -> float | None:
    if record.method != "regmix":
        return None
    runs = record.number("details", "runs")
    return record.number("details", "proxies") if runs is None else runs
