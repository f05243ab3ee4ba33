"""A check in words and tables: every target, and how many intervals hold what was measured."""

from __future__ import annotations

from dataclasses import replace

from bydore_pyro.answer.forecast import Expected
from bydore_pyro.check import Check, CheckedMixture, Compared
from bydore_pyro.report.checks import check_table, check_text


def compared(low: float, high: float, *measured: float) -> Compared:
    mean = sum(measured) / len(measured)
    return Compared(
        predicted=Expected(loss=(low + high) / 2, low=low, high=high),
        measured=mean,
        standard_error=0.25 if len(measured) > 1 else None,
        by_seed=measured,
        holds=low <= mean <= high,
    )


NATURAL = CheckedMixture(
    weights={"b": 1.0},
    losses={"quiz": compared(1, 3, 2.0, 2.5), "domain b": compared(1, 2, 3.0, 3.5)},
)
MINE = CheckedMixture(
    weights={"b": 1.0},
    losses={"quiz": compared(1, 3, 4.0, 4.5), "domain b": compared(1, 2, 1.0, 1.5)},
    differences={"quiz": compared(-1, 1, 2.0, 2.0), "domain b": compared(-3, 0, -2.0, -2.0)},
)
CHECK = Check(
    run="run",
    tokens=1e4,
    predicted_tokens=1e4,
    seeds=(1, 2),
    baseline="natural",
    targets=("quiz",),
    units={"quiz": "bits per byte", "domain b": "nats per token"},
    mixtures={"mine.json": MINE, "natural": NATURAL},
    added=3,
)


def test_the_targets_stand_in_tables_and_the_domains_are_counted() -> None:
    losses, differences = check_table(CHECK, "losses"), check_table(CHECK, "differences")
    assert losses.header[:2] == ("loss, bits per byte", "mixture")
    assert losses.rows == [
        ("quiz", "mine.json", "2.0000", "1.0000 to 3.0000", "4.2500", "0.2500", "no"),
        ("quiz", "natural", "2.0000", "1.0000 to 3.0000", "2.2500", "0.2500", "yes"),
    ]
    assert differences.header[0] == "loss less that of natural, bits per byte"
    assert differences.rows == [
        ("quiz", "mine.json", "+0.0000", "-1.0000 to +1.0000", "+2.0000", "0.2500", "no")
    ]
    text = " ".join(check_text(CHECK).split())
    assert losses.rows[0][0] in text
    assert "the mean of 2 runs of 10,000 tokens on each mixture, at a constant rate." in text
    assert "measured mean of 1 of 2 losses and 0 of 1 differences on the targets" in text
    assert "and of 1 of 2 losses and 1 of 1 differences on the domains" in text
    assert "bydore ask now also uses 3 new runs." in text


def test_units_stand_in_a_column_where_there_are_several() -> None:
    both = replace(CHECK, targets=("quiz", "domain b"))
    found = check_table(both, "losses")
    assert (found.header[0], found.header[-1]) == ("loss", "unit")
    assert [row[-1] for row in found.rows] == ["bits per byte"] * 2 + ["nats per token"] * 2


def test_other_runs_are_told_apart() -> None:
    for other in (replace(CHECK, decay=True, added=0), replace(CHECK, tokens=5e3, added=0)):
        text = " ".join(check_text(other).split())
        assert "also differ because the runs are of another kind" in text
        assert "bydore ask does not use them" in text
    assert "a rate that falls to zero" in check_text(replace(CHECK, decay=True))
    alone = replace(CHECK, seeds=(1,), mixtures={"natural": NATURAL}, added=0)
    text = " ".join(check_text(alone).split())
    assert "Measured: one run of" in text
    assert "1 of 1 losses on the targets" in text
    assert "loss less" not in text
    assert "bydore ask used all of these runs before." in text
    assert "uses 1 new run." in check_text(replace(CHECK, added=1))
