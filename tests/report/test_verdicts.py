"""Is a mixture to be believed? In plain words, with figures."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from report_runs import (
    NAMES,
    matching_of,
    metrics_of,
    mixture_with_intervals,
    record_of,
    write_fit,
    write_matching,
    write_seeds,
)

from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.report.run import RunRecord, read_run
from bydore_pyro.report.thresholds import Verdict
from bydore_pyro.report.verdicts import (
    average_start,
    compared_with,
    verdicts_of,
)
from bydore_pyro.report.words import percent

SETTLED, DECIDED = "Has it settled?", "How much is decided?"
FITS, AGREES = "Is the posterior's width to be believed?", "Would another seed find the same?"
REPEATS = "Is text read too often?"


def record_of_means(means: np.ndarray, **fields: Any) -> RunRecord:
    data = xarray.Dataset(
        {"mean": (("step", "domain"), means)},
        coords={"step": np.arange(len(means)), "domain": list(NAMES)},
    )
    return record_of(trajectory=data, **fields)


def verdict(record: RunRecord, question: str) -> Verdict:
    (found,) = (v for v in verdicts_of(record) if v.question == question)
    return found


def moving(apart: float) -> np.ndarray:
    """80 steps, of which the last two quarters lie `apart` in total variation."""
    means = np.full((80, 4), 0.25)
    means[60:] += apart * np.array([1.0, 0.0, 0.0, -1.0])
    return means


@pytest.mark.parametrize(
    ("apart", "level"), [(0.0, "good"), (0.04, "good"), (0.07, "careful"), (0.2, "bad")]
)
def test_drift_is_the_total_variation_of_the_two_halves(apart: float, level: str) -> None:
    told = verdict(record_of_means(moving(apart)), SETTLED)
    assert told.level == level
    assert "steps 40 to 79. The mean weights before and after step 60" in told.figures
    assert f"{apart:.3f} apart" in told.figures
    assert told.reason


def test_a_short_run_is_not_judged() -> None:
    assert verdict(record_of_means(moving(0.3)[:30]), SETTLED).level == "unknown"
    assert SETTLED not in [v.question for v in verdicts_of(record_of())]


def test_where_the_average_begins() -> None:
    config = {"search": {"average_from": 0.75}}
    assert average_start(record_of_means(moving(0), config=config)) == 60
    assert average_start(record_of_means(moving(0), config={"search": {"average_from": "x"}})) == 40
    assert average_start(record_of_means(moving(0), metrics={"method": "doremi"})) == 0


def test_what_is_decided() -> None:
    record = record_of()
    told = verdict(record, DECIDED)
    assert (told.level, told.answer) == ("good", "3 of 4 domains")
    assert told.figures.startswith(
        "The 94 % interval lies above the uniform share 0.250 for code, and below it for 2 of 4 "
        "domains; they hold 72 %"
    )
    assert "whether the others deserve" in told.figures
    open_ = dataclasses.replace(mixture_with_intervals(), hdi=((0.0, 0.9),) * 4)
    told = verdict(record_of(open_), DECIDED)
    assert told.level == "bad"
    assert "every domain holds the uniform share" in told.figures
    bare = record_of(Mixture(names=NAMES, weights=(0.25,) * 4))
    assert verdict(bare, DECIDED).level == "unknown"


@pytest.mark.parametrize(
    ("khat", "level", "told"),
    [
        (-0.2, "good", "k-hat -0.20"),
        (0.8, "careful", "k-hat 0.80"),
        (4.5, "bad", "4.50"),
        ("infinite", "bad", "k-hat infinite"),
    ],
)
def test_the_posteriors_width(khat: object, level: str, told: str) -> None:
    fit = {"khat": khat, "effective_draws": 3.4, "draws": 1000}
    found = verdict(record_of(metrics=metrics_of(guide_fit=fit)), FITS)
    assert found.level == level
    assert told in found.figures
    assert "3 effective of 1000 draws" in found.figures
    assert ("stand in for the posterior" in found.figures) == (level == "good")


def test_damaged_figures_are_not_judged() -> None:
    for fit in ({"khat": "x"}, {"khat": None}, 3, None):
        metrics = metrics_of(guide_fit=fit, run_epochs=[])
        questions = [v.question for v in verdicts_of(record_of(metrics=metrics))]
        assert not {FITS, REPEATS} & {*questions}


def test_agreement_of_seeds(tmp_path: Path) -> None:
    found = verdict(read_run(write_seeds(tmp_path / "seeds")), AGREES)
    assert found.level == "careful"  # 88 % of the intervals hold, and one is overconfident
    assert "88 %" in found.figures
    assert "overconfident: law" in found.figures
    assert verdict(record_of_means(moving(0)), AGREES).level == "unknown"


def test_text_that_is_read_too_often_and_what_helps() -> None:
    epochs = {"code": 4.2, "law": 9.25, "prose": 4.0000001, "web": 1.0}
    noted = {"run_epochs": epochs, "run_tokens": 1e9}
    linear = verdict(record_of(metrics=metrics_of(**noted)), REPEATS)
    assert (linear.level, linear.answer) == ("careful", "2 of 4 domains")
    assert linear.figures == (
        "A run of 1 B tokens on these weights reads law 9.2 times, code 4.2 times; --max_epochs "
        "caps it."
    )
    noted["matching"] = matching_of()
    matching = verdict(record_of(metrics=noted), REPEATS)
    helps = "the weights count how little that teaches, --max_epochs caps it."
    assert f"; with --target_tokens 1000000000 {helps}" in matching.figures
    noted["lengths"] = [{"tokens": 1e9}]
    assert f"; {helps}" in verdict(record_of(metrics=noted), REPEATS).figures
    assert verdict(record_of(), REPEATS).level == "good"


def test_a_stopped_run_says_so_first(tmp_path: Path) -> None:
    record = record_of(metrics={"stopped": "disk full", "steps": 7})
    first = verdicts_of(record)[0]
    assert first.level == "bad"
    assert "after 7 steps: disk full" in first.figures
    assert [v.question for v in verdicts_of(read_run(write_fit(tmp_path / "fit")))] == [DECIDED]


def test_a_proxy_that_has_not_learned_says_so() -> None:
    question = "Has the proxy learned?"
    learning = {"learned": False, "warning": "The weights mean nothing: it has not learned"}
    for metrics in ({"learning": learning}, {"details": {"learning": learning}}):
        told = verdict(record_of(metrics=metrics_of(**metrics)), question)
        assert (told.level, told.answer) == ("bad", "No")
        assert told.figures == "The weights mean nothing: it has not learned."
    record = record_of(metrics=metrics_of(learning={"learned": True}))
    assert question not in [v.question for v in verdicts_of(record)]


ROUNDS = matching_of()["rounds"]
COVERED, CHECKED = "Do the domains cover the target?", "Does the mixture hold on fresh text?"


def matched(**matching: Any) -> RunRecord:
    return record_of(metrics={"matching": matching_of(**matching)})


def test_the_verdicts_of_a_search_by_matching(tmp_path: Path) -> None:
    record = read_run(write_matching(tmp_path / "run"))
    assert record.by_matching
    assert average_start(record) == 29
    assert {found.question: found.level for found in verdicts_of(record)} == {
        COVERED: "good",
        SETTLED: "good",
        DECIDED: "good",
        CHECKED: "good",
        FITS: "good",
        AGREES: "unknown",
        REPEATS: "good",
    }


@pytest.mark.parametrize(
    ("unexplained", "level"), [(0.04, "good"), (0.44, "careful"), (0.8, "bad")]
)
def test_coverage(unexplained: float, level: str) -> None:
    found = verdict(matched(unexplained=unexplained), COVERED)
    assert found.level == level
    assert f"leaves {percent(unexplained)}" in found.figures
    assert "The scale is 1.06" in found.figures


@pytest.mark.parametrize(
    ("matching", "level", "answer", "told"),
    [
        # The last of three lies a sixteenth of the way to the mixture turned round.
        ({"rounds": ROUNDS}, "good", "Yes", "all rounds by 0.029 in total variation."),
        (
            {"rounds": [ROUNDS[0], {**ROUNDS[2], "alone": {"web": 1.0}}]},
            *("bad", "No, the rounds differ", "Inference settled after 350 steps."),
        ),
        ({"rounds": ROUNDS[:1]}, "unknown", "One round cannot tell", "nothing to compare."),
        (
            {"inference": {"steps": 1500, "settled": False}},
            *("bad", "No, inference ran out of steps", "Inference ran out of 1500 steps."),
        ),
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
    check = {"slopes": slopes, "failing": ["code", "law", "nowhere"]}
    found = verdict(matched(check=check), CHECKED)
    assert (found.level, found.answer) == ("bad", "Not for 2 of 4 domains")
    assert "more of law and less of code would match the target better" in found.figures


@pytest.mark.parametrize(
    ("khat", "corrected", "level", "answer"),
    [
        (0.57, True, "good", "Yes"),
        ("infinite", True, "good", "Yes, after its correction"),
        (1.4, False, "bad", "Not as a posterior"),
    ],
)
def test_the_width_after_matching(khat: object, corrected: bool, level: str, answer: str) -> None:
    fit = {"khat": khat, "effective_draws": 908.4, "draws": 8000, "corrected": corrected}
    found = verdict(record_of(metrics={"guide_fit": fit, "matching": matching_of()}), FITS)
    assert (found.level, found.answer) == (level, answer)
    assert "908 effective of 8000 draws" in found.figures
    assert "1.6 times those by sequence" in found.figures


def fitted(prior: tuple[float, ...] | None = (0.8, 0.2), **details: Any) -> RunRecord:
    mixture = Mixture(
        names=("a", "b"),
        weights=(0.6, 0.4),
        hdi=((0.55, 0.7), (0.3, 0.45)),
        prior=prior,
        predicted_loss={"weights": (3.0, 0.1), "prior": (3.2, None)},
    )
    return record_of(mixture, metrics={"method": "regmix", "details": {"runs": 3, **details}})


def test_few_runs_decide_nothing() -> None:
    assert verdict(fitted(runs=2), "Are there enough runs?").level == "good"
    found = verdict(fitted(runs=1), "Are there enough runs?")
    assert (found.level, found.answer) == ("bad", "No")
    assert "1 runs of 2 domains" in found.figures
    assert verdict(fitted(runs=1), DECIDED).level == "bad"
    assert "Are there enough runs?" not in [
        one.question for one in verdicts_of(record_of(metrics={"method": "doremi"}))
    ]


@pytest.mark.parametrize(
    ("gain", "expected"),
    [
        ({"mean": 0.2, "probability": 0.99, "sure": True}, "good"),
        ({"mean": 0.2, "probability": 0.8, "sure": False}, "careful"),
        ({"mean": 0.0, "probability": 0.0, "sure": False}, "bad"),
        ({"mean": 0.2}, "unknown"),
        ({"mean": 0.2, "probability": 0.99}, "unknown"),  # before runs noted `sure`
    ],
)
def test_an_improvement_is_called_one_where_it_is(gain: dict[str, Any], expected: str) -> None:
    found = verdict(fitted(gain_over_prior=gain), "Is it better than the prior?")
    assert found.level == expected
    assert "these weights 3.0000 ± 0.1000; prior 3.2000" in found.figures
    assert ("cannot say how certain" in found.figures) == (gain.get("probability") is None)


def test_intervals_are_held_against_the_prior() -> None:
    """Against equal shares both would be decided the other way round."""
    assert "its share of the prior" in verdict(fitted(), DECIDED).figures
    assert compared_with(fitted(prior=None))[1] == "the uniform share 0.500"


@pytest.mark.parametrize(("rank", "level"), [(95.0, "good"), (40.0, "careful")])
def test_a_regression_is_judged_by_left_out_runs(rank: float, level: str) -> None:
    row = {"spearman_x100": rank, "rmse": 0.1, "coverage": 0.94}
    record = fitted(regression="linear", regressions={"linear": row})
    found = verdict(record, "Does it predict runs that it has not seen?")
    assert found.level == level
    assert "94 % in their 94 % intervals" in found.figures


@pytest.mark.parametrize(
    ("noted", "level"),
    [({"far": True}, "careful"), ({"far": False}, "good"), ({}, "unknown")],  # {}: an old run
)
def test_a_mixture_is_judged_by_the_nearest_run(noted: dict[str, bool], level: str) -> None:
    record = fitted(distance={"words": "The nearest run.", **noted})
    assert verdict(record, "Was anything like it run?").level == level
