"""The losses to expect: tables, verdicts and pictures of planted outlooks."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter
from report_runs import NAMES, outlook_of

from bydore_pyro.answer.outlook import Outlook
from bydore_pyro.report.outlook import (
    COLUMNS,
    JUDGED,
    bounds_table,
    curves_figure,
    frontier_figure,
    losses_words,
    outlook_table,
    outlook_verdicts,
    price_columns,
)


def planted(**given: Any) -> Outlook:
    return TypeAdapter(Outlook).validate_python(outlook_of(**given))


def test_targets_come_first_then_the_domains_that_change_most() -> None:
    content = outlook_of()
    content["differences"]["uniform"] = {
        **content["differences"]["uniform"],
        "domain prose": {"loss": 0.7, "low": 0.4, "high": 1.0, "better": 0.01},
    }
    table = outlook_table(TypeAdapter(Outlook).validate_python(content))
    names = [row[0] for row in table.rows]
    assert names[:4] == ["law", "web", "all targets", "domain prose"]
    assert set(names[4:]) == {"domain code", "domain law", "domain web"}
    header = ["nats per token on", "this mixture", "than uniform", "than natural"]
    assert table.header == header
    assert tuple(table.rows[0][1:]) == (
        "2.000 (1.750 to 2.250)", "-0.200 (-0.500 to +0.100)", "-0.100 (-0.400 to +0.200)",
    )  # fmt: skip
    assert table.rows[3][2] == "+0.700 (+0.400 to +1.000)"
    assert outlook_table(planted(), JUDGED).header[1] == JUDGED


def test_without_a_forecast_nothing_is_told() -> None:
    nothing = Outlook()
    assert not outlook_table(nothing).rows
    assert losses_words(nothing) is None
    assert outlook_verdicts(nothing) == []
    assert price_columns(nothing, NAMES) == {}
    assert curves_figure(nothing) is None
    assert frontier_figure(nothing) is None


@pytest.mark.parametrize(
    ("better", "level", "answer", "shown"),
    [(0.95, "good", "Yes", "95 %"), (0.6, "careful", "Open", "60 %"),
     (0.3, "careful", "Open", "30 %"), (0.02, "bad", "No", "2.0 %"),
     (0.897, "careful", "Open", "89.7 %"), (0.1004, "careful", "Open", "10.04 %")],
)  # fmt: skip
def test_a_verdict_is_about_a_difference_in_loss(
    better: float, level: str, answer: str, shown: str
) -> None:
    first, second = outlook_verdicts(planted(better=(better, 0.99)))
    assert (first.level, first.answer) == (level, answer)
    assert first.question == "Is it better than uniform?"
    assert "difference -0.200 nats per token on all targets. The loss is lower" in first.figures
    assert f"with probability {shown} (decided from 90 % or up to 10 %)" in first.figures
    assert "-0.500 to +0.100" in first.figures
    assert second.answer == "Yes"
    longer = replace(planted(), asked=9 * planted().tokens)
    assert outlook_verdicts(longer)[0].question == "Is it better than uniform after 15,360 tokens?"
    (alone, _) = outlook_verdicts(planted(targets=("law",)))
    assert "nats per token on law." in alone.figures


@pytest.mark.parametrize(("decided", "then"), [("trials", "Trial runs"), ("match", "--trials 4")])
def test_targets_that_spoil_a_question_are_named(decided: str, then: str) -> None:
    uncovered = {"web": 0.99}
    told, *others = outlook_verdicts(planted(decided=decided), uncovered)
    assert "explains 99 % of web, so that its losses are guesses" in told.figures
    assert "those of all targets; not those of law." in told.figures
    assert then in told.figures
    given, _ = outlook_verdicts(planted(decided="", better=(0.95, 0.95)), uncovered)
    assert (given.level, given.answer) == ("careful", "Yes"), "a guess is in it"
    assert [(one.question, one.level, one.answer) for one in others] == [
        ("Is it better than uniform?", "careful", "Yes"),
        ("Is it better than natural?", "careful", "Open"),
    ], "what chose the weights takes nothing from the page"
    assert all("The law hardly knows these losses." in one.figures for one in others)
    alone, *_ = outlook_verdicts(planted(decided=decided, targets=("web",)), uncovered)
    assert "a question without it" not in alone.figures


def test_an_answer_that_is_the_baseline_is_called_so() -> None:
    content = outlook_of()
    for one in content["differences"]["natural"].values():
        one |= {"loss": -1e-5, "better": 0.52}
    verdicts = outlook_verdicts(TypeAdapter(Outlook).validate_python(content))
    answers = {one.question: one.answer for one in verdicts}
    assert answers["Is it better than natural?"] == "No, it is as natural"
    assert answers["Is it better than uniform?"] != "No, it is as uniform"


def test_no_target_worse_has_its_probability() -> None:
    *_, told = outlook_verdicts(planted(none_worse=0.93, probability=0.9))
    assert told.heading == "Is no target worse than under the baseline? With probability 93 %."
    assert "in 93 % of the draws; 90 % was asked for" in told.figures
    *_, short = outlook_verdicts(planted(none_worse=0.8975, probability=0.9))
    assert short.heading.endswith("With probability 89.8 %."), "not 90 %, which it falls short of"


@pytest.mark.parametrize(
    ("held", "asked", "level"),
    [(0.93, 0.9, "good"), (0.93, 0.95, "careful"), (0.9, 0.9, "good"), (0.5, 0.9, "careful"),
     (0.49, 0.9, "bad"), (0.0, 0.9, "bad"), (0.0, None, "bad"), (0.4, 0.3, "good")],
)  # fmt: skip
def test_the_level_follows_from_the_probability(
    held: float, asked: float | None, level: str
) -> None:
    *_, told = outlook_verdicts(planted(none_worse=held, probability=asked))
    assert told.level == level
    *_, guess = outlook_verdicts(planted(none_worse=held, probability=asked), {"web": 0.99})
    assert guess.level == ("careful" if level == "good" else level)


def test_bounds_have_their_price() -> None:
    costs = {"loss": 0.0123, "low": -0.001, "high": 0.0254}
    law = {"domain": "law", "side": "at least", "weight": 0.05, "of_more": 0.0031}
    rows = bounds_table(planted(bounds=[law | {"costs": costs}, {"domain": "", "costs": costs}]))
    assert rows.rows == [
        ("law at least 0.05", "+0.012 (-0.001 to +0.025)", "costs 0.0031"),
        ("all bounds", "+0.012 (-0.001 to +0.025)", "\N{EN DASH}"),
    ]
    columns = price_columns(planted(worth_of_text={"law": 0.0123}), [*NAMES, None])
    assert columns == {
        "within 0.01 nats": ["0.100 to 0.300"] * 4 + [""],
        "10 % more text brings": ["", "0.0123", "", "", ""],
    }


@pytest.mark.parametrize("count", [1, 13])
def test_every_domain_has_a_panel_and_no_name_reaches_the_next(count: int) -> None:
    names = [f"web/part-{k}/of a name that is $x^2$ long-{k}" for k in range(count)]
    figure = curves_figure(planted(names=names))
    assert figure is not None
    figure.canvas.draw()
    shown = [axes for axes in figure.axes if axes.axison]
    assert len(shown) == count
    assert len(figure.axes) == -(-count // COLUMNS) * min(COLUMNS, count)
    for axes in shown:
        law, *runs = axes.lines
        np.testing.assert_allclose(law.get_ydata(), (4.0, 3.0, 2.5))
        np.testing.assert_allclose([one.get_ydata()[0] for one in runs], (4.05, 2.95))
    boxes = sorted((a.title.get_window_extent() for a in shown), key=lambda b: (-b.y0, b.x0))
    assert not any(a.overlaps(b) for a, b in pairwise(boxes))


@pytest.mark.parametrize("targets", [("law", "web"), ("law", "web", "a" * 80 + ".jsonl")])
def test_the_frontier_has_a_panel_for_each_pair(targets: tuple[str, ...]) -> None:
    figure = frontier_figure(planted(targets=targets))
    assert figure is not None
    figure.canvas.draw()
    assert len(figure.axes) == len(targets) * (len(targets) - 1) // 2
    line, *points = figure.axes[0].lines
    np.testing.assert_allclose(line.get_xdata(), (2.0, 2.2, 2.5))
    assert [one.get_gid().split(":")[0] for one in points] == ["this mixture", "uniform", "natural"]
    assert points[1].get_xydata().tolist() == [[2.2, 2.7]]
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert not any(box.overlaps(axes.get_window_extent()) for axes in figure.axes)
    for axes in figure.axes:
        assert axes.yaxis.label.get_window_extent().height < figure.bbox.height
    assert frontier_figure(planted(targets=("law",))) is None
