"""What stands in a report, in which order, and the sentences between its tables."""

from __future__ import annotations

import dataclasses

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
    Section,
    cost_sentence,
    intervals_words,
    losses_words,
    run_sections,
)
from bydore_pyro.report.tables import WITHIN, weights_table


def test_a_report_begins_with_its_losses() -> None:
    found = run_sections(record_of(metrics=metrics_of(outlook=outlook_of())), drawn=False)
    assert isinstance(found[0], Section)
    assert [one.title for one in found][:2] == ["What it will do", "The mixture"]


def test_what_a_run_cost_is_a_sentence() -> None:
    told = "Found by search: 6.0 s, 3.00e+09 FLOPs, on cpu, 1 thread, peak memory 0.6 GB."
    assert cost_sentence(record_of()) == told
    assert cost_sentence(record_of(metrics={})) == "Found by search: at no cost."


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
    for decided, word in (("law", "law of losses"), ("trials", "trial runs"), ("match", "gradien")):
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
