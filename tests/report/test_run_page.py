"""What the page on one run shows."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from report_runs import NAMES, mixture_with_intervals, write_fit, write_matching, write_search

from bydore_pyro.report.run_page import run_page
from bydore_pyro.report.run_record import RunRecord, read_run


def test_a_case(tmp_path: Path) -> None:
    page = run_page(read_run(write_search(tmp_path / "case", verified=True)))
    assert page["title"] == "case: weights of 4 domains"
    assert json.loads(page["told"])["d0"].startswith("code: weight 0.4596, 94 % interval 0.306")
    for figure in ("weights", "trajectory", "losses"):
        assert page[figure]["id"]
    assert "94 % intervals; thick" in page["weights_caption"]
    assert "as long as the search itself" in page["table_note"]
    assert ("commit", "c" * 40) in page["versions"]
    assert page["repeat"] == f"bydore search --config {tmp_path / 'case' / 'config.json'} --out NEW"


def test_a_search_by_matching(tmp_path: Path) -> None:
    page = run_page(read_run(write_matching(tmp_path / "run")))
    assert page["rounds"]["id"]
    assert [len(table.rows) for table in page["round_tables"]] == [4, 3]
    assert "after each round" in page["trajectory_caption"]
    assert "Points: measured in a round" in page["losses_caption"]
    assert "most likely" in page["table_note"]
    assert dict(page["asked"])["Evidence"] == (
        "gradient matching in 3 rounds, the last after 50 % of the steps"
    )


def test_a_fit_has_less_to_show(tmp_path: Path) -> None:
    page = run_page(read_run(write_fit(tmp_path / "fit")))
    for figure in ("trajectory", "losses"):
        assert page[figure] is None
    assert page["weights_caption"] == "Diamonds: weights, as shares of the training tokens."
    assert page["repeat"] == ""


def test_long_runs_of_many_domains_say_what_is_drawn(tmp_path: Path) -> None:
    names = [f"domain {i:03d}" for i in range(50)]
    record = read_run(write_search(tmp_path / "run", names))
    assert "The 40 largest of 50." in run_page(record)["trajectory_caption"]


def test_capped_weights(tmp_path: Path) -> None:
    capped = mixture_with_intervals().capped(dict.fromkeys(NAMES, 0.4))
    record = read_run(write_search(tmp_path / "run"))
    page = run_page(dataclasses.replace(record, mixture=capped))
    assert "hollow: free of it" in page["weights_caption"]
    assert "those of the free weights" in page["table_note"]


def test_nothing_known(tmp_path: Path) -> None:
    page = run_page(RunRecord(path=tmp_path, label="empty"))
    assert page["rows"] == page["verdicts"] == page["versions"] == []
    assert page["weights"] is None
