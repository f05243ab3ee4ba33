"""What a notebook shows of a run."""

from __future__ import annotations

from pathlib import Path

from report_runs import HOSTILE, NAMES, matching_of, outlook_of, write_matching, write_search

from bydore_pyro.report.short import MOST_ROWS, short_html


def test_weights_losses_and_doubts_stand_in_one_screen(tmp_path: Path) -> None:
    run = write_search(tmp_path / "run", outlook=outlook_of(baseline="natural"))
    shown = short_html(run)
    assert shown.count("<table>") == 2
    for told in ("0.4596", "2.000 (1.750 to 2.250)", "It is better than natural"):
        assert told in shown
    assert "Is text read too often?" not in shown, "what is good needs no words"
    doubtful = short_html(write_matching(tmp_path / "bad", unexplained=0.9))
    assert "Against it: Do the domains cover the target? Hardly." in doubtful
    assert matching_of()["unexplained"] < 0.9


def test_names_are_harmless_and_many_rows_are_cut(tmp_path: Path) -> None:
    hostile = short_html(write_search(tmp_path / "hostile", (*HOSTILE, *NAMES)))
    assert "<script" not in hostile
    assert "<img" not in hostile
    assert "\x00" not in hostile
    names = [f"domain {number}" for number in range(MOST_ROWS + 3)]
    many = short_html(write_search(tmp_path / "many", names))
    assert many.count("<tr>") == 1 + MOST_ROWS
    assert "and 3 more rows" in many
