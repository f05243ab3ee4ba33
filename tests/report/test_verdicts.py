"""Is a mixture to be believed? In plain words, with figures."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from pydantic import TypeAdapter
from report_runs import (
    NAMES,
    matching_of,
    mixture_with_intervals,
    outlook_of,
    planted,
    record_of,
    write_fit,
    write_matching,
)

from bydore_pyro.answer.outlook import Outlook
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.report.run import RunRecord, read_run
from bydore_pyro.report.verdicts import (
    LIMITS,
    Limits,
    asks_for_longer,
    outlook_verdicts,
    verdicts_of,
)
from bydore_pyro.report.words import Verdict
from bydore_pyro.setup.record import TargetRecord

SETTLED, DECIDED = "Has it settled?", "How much is decided?"
FITS = "Is the posterior's width to be believed?"
REPEATS = "Is text read too often?"
COVERED, CHECKED = (
    "Do the domains cover the target?",
    "Does the match of gradients hold on fresh text?",
)
ROUNDS = matching_of()["rounds"]


def verdict(record: RunRecord, question: str) -> Verdict:
    (found,) = (v for v in verdicts_of(record) if v.question == question)
    return found


def matched(**matching: Any) -> RunRecord:
    return record_of(metrics={"matching": matching_of(**matching)})


@pytest.mark.parametrize(
    ("name", "levels"),
    [
        ("drift", {0.0499: "good", 0.05: "careful", 0.1: "bad"}),
        ("decided", {0.5: "good", 0.01: "careful", 0.0: "bad"}),
    ],
)
def test_levels(name: str, levels: dict[float, str]) -> None:
    assert isinstance(LIMITS[name], Limits)
    assert {value: LIMITS[name].level(value) for value in levels} == levels


def record_of_means(means: np.ndarray) -> RunRecord:
    coordinates = {"step": np.arange(len(means)), "domain": list(NAMES)}
    data = xarray.Dataset({"mean": (("step", "domain"), means)}, coords=coordinates)
    return record_of(trajectory=data)


@pytest.mark.parametrize(("apart", "level"), [(0.04, "good"), (0.07, "careful"), (0.2, "bad")])
def test_drift_is_the_total_variation_of_the_two_halves(apart: float, level: str) -> None:
    means = np.full((80, 4), 0.25)
    means[60:] += apart * np.array([1.0, 0.0, 0.0, -1.0])
    told = verdict(record_of_means(means), SETTLED)
    assert told.level == level
    assert "steps 40 to 79. The mean weights before and after step 60" in told.figures
    assert f"{apart:.3f} apart" in told.figures
    assert told.reason
    assert verdict(record_of_means(means[:30]), SETTLED).level == "unknown"
    assert SETTLED not in [v.question for v in verdicts_of(record_of())]


def test_what_is_decided() -> None:
    """No good verdict where the intervals that it rests on are not to be trusted."""
    told = verdict(record_of(), DECIDED)
    assert (told.level, told.answer) == ("careful", "3 of 4 domains")
    assert told.figures.endswith("It rests on intervals that are not to be trusted.")
    sure = record_of(metrics={"guide_fit": {"khat": 0.5, "effective_draws": 900, "draws": 1000}})
    told = verdict(sure, DECIDED)
    assert (told.level, told.answer) == ("good", "3 of 4 domains")
    assert told.figures.startswith(
        "The 94 % interval lies above the uniform share 0.250 for code, and below it for 2 of 4 "
        "domains; they hold 72 %"
    )
    unlearned = {"guide_fit": sure.metrics.guide_fit, "learning": {"warning": "It has not learned"}}
    told = verdict(record_of(metrics=unlearned), DECIDED)
    assert told.level == "careful", "weights that mean nothing decide nothing"
    assert told.figures.endswith("It rests on a proxy that has not learned.")
    predicted = record_of(metrics={"outlook": outlook_of()})
    assert DECIDED not in [v.question for v in verdicts_of(predicted)], "losses decide"
    open_ = dataclasses.replace(mixture_with_intervals(), hdi=((0.0, 0.9),) * 4)
    assert verdict(record_of(open_), DECIDED).level == "bad"
    bare = record_of(Mixture(names=NAMES, weights=(0.25,) * 4))
    assert verdict(bare, DECIDED).level == "unknown"


@pytest.mark.parametrize(
    ("khat", "draws", "level", "answer"),
    [
        (-0.2, None, "good", "Yes"),
        (0.8, None, "careful", "Roughly"),
        ("infinite", None, "bad", "Not as a posterior"),
        ("infinite", {"settled": True, "rhat": 1.01}, "good", "Yes"),
        (0.57, {"settled": True}, "good", "Yes"),
    ],
)
def test_the_posteriors_width(khat: object, draws: Any, level: str, answer: str) -> None:
    """By linear evidence (None), and after matching, by chains or by a corrected guide."""
    metrics = {"guide_fit": {"khat": khat, "effective_draws": 3.4, "draws": 1000}}
    if draws is not None:
        metrics["matching"] = matching_of(draws=draws)
    found = verdict(record_of(metrics=metrics), FITS)
    assert (found.level, found.answer) == (level, answer)
    by_chains = draws is not None and "rhat" in draws
    assert ("3 effective of 1000 draws" in found.figures) != by_chains


def test_a_run_is_judged_by_what_it_has(tmp_path: Path) -> None:
    fit = read_run(write_fit(tmp_path / "fit"))
    assert [v.question for v in verdicts_of(fit)] == [DECIDED]
    record = read_run(write_matching(tmp_path / "run"))
    assert record.by_matching
    good = (COVERED, SETTLED, DECIDED, CHECKED, FITS, REPEATS)
    levels = {found.question: found.level for found in verdicts_of(record)}
    assert levels == dict.fromkeys(good, "good")


def test_the_targets_that_are_not_covered_are_named() -> None:
    shares = {"law": 0.03, "german": 0.99}
    of_each = {name: TargetRecord(unexplained=share) for name, share in shares.items()}
    record = matched(unexplained=0.69)
    record = dataclasses.replace(
        record, metrics=dataclasses.replace(record.metrics, targets=of_each)
    )
    assert record.uncovered == {"german": 0.99}
    told = verdict(record, COVERED).figures
    assert "no mixture explains 99 % of german." in told
    together = dataclasses.replace(record.metrics.matching, unexplained=0.3)
    metrics = dataclasses.replace(record.metrics, matching=together)
    found = verdict(dataclasses.replace(record, metrics=metrics), COVERED)
    assert (found.level, found.answer) == ("careful", "In part"), "not of every target"


@pytest.mark.parametrize(
    ("unexplained", "level"), [(0.04, "good"), (0.44, "careful"), (0.8, "bad")]
)
def test_coverage(unexplained: float, level: str) -> None:
    found = verdict(matched(unexplained=unexplained), COVERED)
    assert found.level == level
    assert f"leaves {'4.0' if unexplained < 0.1 else round(100 * unexplained)} %" in found.figures


@pytest.mark.parametrize(
    ("matching", "level", "answer", "told"),
    [
        # The last of three lies a sixteenth of the way to the mixture turned round.
        ({"rounds": ROUNDS}, "good", "Yes", "all rounds by 0.029 in total variation."),
        (
            {"rounds": [ROUNDS[0], {**ROUNDS[2], "alone": {"web": 1.0}}]},
            *("bad", "No, the rounds differ", "does not."),
        ),
        ({"rounds": ROUNDS[:1]}, "unknown", "One round cannot tell", "nothing to compare."),
    ],
)
def test_rounds_that_agree_or_do_not(
    matching: dict[str, Any], level: str, answer: str, told: str
) -> None:
    found = verdict(matched(**matching), SETTLED)
    assert (found.level, found.answer) == (level, answer)
    assert told in found.figures


def test_the_check_on_fresh_text() -> None:
    slopes = {"code": -0.01, "law": 0.01, "prose": 0.0, "web": 0.0}
    new = {"code": 12, "law": 32, "prose": 8, "web": 12, "notes": 0}
    check = {"slopes": slopes, "failing": ["code", "law"], "sequences": new}
    found = verdict(matched(check=check), CHECKED)
    assert (found.level, found.answer) == ("bad", "Not for 2 of 4 domains")
    assert found.figures.startswith("On 8 to 32 sequences of each domain that nothing had read, 2 ")
    assert "; there were none of notes; " in found.figures
    assert "more of law would match the target better; less of code would" in found.figures


def test_without_new_sequences_there_is_no_verdict_on_fresh_text() -> None:
    none = verdict(matched(check={"slopes": {}, "sequences": {"code": 0, "law": 0}}), CHECKED)
    assert (none.level, none.answer) == ("unknown", "No new sequences: no verdict")
    record = matched(check={"slopes": {}, "sequences": {}})
    assert CHECKED not in [found.question for found in verdicts_of(record)], "turned off"


@pytest.mark.parametrize(
    ("better", "level", "answer", "shown"),
    [
        (0.95, "good", "Yes", "95 %"),
        (0.897, "careful", "Open", "89.7 %"),
        (0.02, "bad", "No", "2.0 %"),
    ],
)
def test_a_verdict_is_about_a_difference_in_loss(
    better: float, level: str, answer: str, shown: str
) -> None:
    first, second = outlook_verdicts(planted(better=(better, 0.99)), {})
    assert (first.level, first.answer) == (level, answer)
    assert first.question == "Is it better than uniform?"
    assert "difference -0.200 nats per token on all targets. The loss is lower" in first.figures
    assert f"with probability {shown} (decided from 90 % or up to 10 %)" in first.figures
    assert "-0.500 to +0.100" in first.figures
    assert second.answer == "Yes"
    longer = replace(planted(), asked=9 * planted().tokens)
    assert asks_for_longer(longer)
    assert not asks_for_longer(planted())
    assert (
        outlook_verdicts(longer, {})[0].question == "Is it better than uniform after 15,360 tokens?"
    )
    (alone, _) = outlook_verdicts(planted(targets=("law",)), {})
    assert "nats per token on law." in alone.figures


@pytest.mark.parametrize(("decided", "then"), [("trials", "Trial runs"), ("match", "--trials 4")])
def test_targets_that_spoil_a_question_are_named(decided: str, then: str) -> None:
    told, *others = outlook_verdicts(planted(decided=decided), {"web": 0.99})
    assert "covers web." in told.figures
    assert then in told.figures
    assert [(one.question, one.level, one.answer) for one in others] == [
        ("Is it better than uniform?", "careful", "Yes"),
        ("Is it better than natural?", "careful", "Open"),
    ], "a guess is in it"


def test_an_answer_that_is_the_baseline_is_called_so() -> None:
    content = outlook_of()
    for one in content["differences"]["natural"].values():
        one |= {"loss": -1e-5, "better": 0.52}
    verdicts = outlook_verdicts(TypeAdapter(Outlook).validate_python(content), {})
    answers = {one.question: one.answer for one in verdicts}
    assert answers["Is it better than natural?"] == "No, it is as natural"
    assert answers["Is it better than uniform?"] != "No, it is as uniform"


def test_no_target_worse_has_its_probability() -> None:
    *_, told = outlook_verdicts(planted(none_worse=0.93, probability=0.9), {})
    assert told.heading == "Is no target worse than under the baseline? With probability 93 %."
    assert "in 93 % of the draws; 90 % was asked for" in told.figures
    *_, short = outlook_verdicts(planted(none_worse=0.8975, probability=0.9), {})
    assert short.heading.endswith("With probability 89.8 %."), "not 90 %, which it falls short of"


@pytest.mark.parametrize(
    ("held", "asked", "level"),
    [(0.9, 0.9, "good"), (0.93, 0.95, "careful"), (0.49, 0.9, "bad"), (0.0, None, "bad")],
)
def test_the_level_follows_from_the_probability(
    held: float, asked: float | None, level: str
) -> None:
    *_, told = outlook_verdicts(planted(none_worse=held, probability=asked), {})
    assert told.level == level
    *_, guess = outlook_verdicts(planted(none_worse=held, probability=asked), {"web": 0.99})
    assert guess.level == ("careful" if level == "good" else level)


def test_a_smoke_run_says_first_that_its_figures_mean_nothing() -> None:
    smoke, real = (record_of(config={"run": {"smoke": value}}) for value in (True, False))
    assert verdicts_of(smoke)[0].question == "Is it more than a smoke run?"
    assert verdicts_of(smoke)[1:] == verdicts_of(real)
