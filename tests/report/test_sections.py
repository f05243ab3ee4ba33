"""What stands in a report, in which order, and the sentences between its tables."""

from __future__ import annotations

import dataclasses

from matplotlib.figure import Figure
from report_runs import (
    NAMES,
    metrics_of,
    mixture_with_intervals,
    outlook_of,
    planted,
    record_of,
)

from bydore_pyro.answer.outlook import Outlook
from bydore_pyro.report.sections import (
    CHANGES,
    Section,
    intervals_words,
    losses_words,
    run_sections,
)
from bydore_pyro.report.summary import Lead
from bydore_pyro.report.tables import WITHIN, weights_table


def test_a_report_begins_with_its_losses() -> None:
    found = run_sections(record_of(metrics=metrics_of(outlook=outlook_of())), drawn=False)
    assert isinstance(found[0], Section)
    assert [one.title for one in found][:2] == ["What it will do", "The mixture"]


def test_a_page_begins_with_a_screen_and_other_weights_and_folds_the_rest() -> None:
    found = run_sections(record_of(metrics=metrics_of(outlook=outlook_of(baseline="natural"))))
    assert [one.title for one in found][:3] == ["", "Try other weights", "What it will do"]
    lead, changes, words = found[0].blocks
    assert isinstance(lead, Lead)
    assert isinstance(changes, Figure)
    assert words == CHANGES
    assert [one.folded for one in found] == [place >= 2 for place in range(len(found))]
    assert not any(one.folded for one in run_sections(record_of(), drawn=False))


def test_losses_hold_for_runs_of_a_length() -> None:
    assert losses_words(Outlook()) is None
    assert "over 15,360 tokens" in (losses_words(planted()) or "")
    assert "is for 138,240 tokens" in (losses_words(planted(asked=9 * 15_360)) or "")


def test_each_interval_of_a_weight_is_explained() -> None:
    plain_mixture = dataclasses.replace(mixture_with_intervals(), hdi=None)
    assert intervals_words(record_of(plain_mixture)) is None, "there is none"
    assert intervals_words(record_of()) is None, "the interval of another method"
    alone = intervals_words(record_of(config={"run": {"evidence": "matching"}})) or ""
    assert alone.startswith("The 94 % interval is where the best weight probably lies ")
    assert WITHIN not in alone
    for decided, word in (("law", "law of"), ("trials", "trial runs"), ("match", "measured")):
        outlook = outlook_of(decided=decided)
        record = record_of(metrics=metrics_of(outlook=outlook))
        assert {"94 % interval", WITHIN} < set(weights_table(record).header)
        words = intervals_words(record)
        assert words is not None
        assert word in words
        assert WITHIN in words
    outlook = outlook_of() | {"units": {"quiz": "bits per byte"}}
    words = intervals_words(record_of(metrics=metrics_of(outlook=outlook))) or ""
    assert '"within 0.01" is how far' in words
    assert "0.01 bits per byte higher" in words
    capped = mixture_with_intervals().capped(dict.fromkeys(NAMES, 0.4))
    assert "best weight without caps" in (
        intervals_words(record_of(capped, metrics=metrics_of(outlook=outlook_of()))) or ""
    )
