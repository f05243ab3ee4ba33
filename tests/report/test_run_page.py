"""What the page on one run shows; `test_page.py` reads the page itself."""

from __future__ import annotations

from pathlib import Path

from report_runs import write_fit, write_matching, write_search

from bydore_pyro.report.run_page import run_page
from bydore_pyro.report.run_record import RunRecord, read_run


def test_figures_and_tables_of_every_kind_of_run(tmp_path: Path) -> None:
    page = run_page(read_run(write_search(tmp_path / "case", verified=True)))
    assert page["title"] == "case: weights of 4 domains"
    assert page["told"]["d0"].startswith("code: weight 0.4596, 94 % interval 0.306")
    assert all(page["figures"][figure] for figure in ("weights", "trajectory", "losses"))
    assert ("commit", "c" * 40) in page["versions"]
    assert page["repeat"] == f"bydore search --config {tmp_path / 'case' / 'config.json'} --out NEW"
    matching = run_page(read_run(write_matching(tmp_path / "run")))
    assert matching["figures"]["rounds"] is not None
    assert [len(table.rows) for table in matching["rounds"]] == [4, 3]
    fit = run_page(read_run(write_fit(tmp_path / "fit")))
    assert [name for name, figure in fit["figures"].items() if figure] == ["weights"]
    assert fit["repeat"] == ""
    nothing = run_page(RunRecord(path=tmp_path, label="empty"))
    assert nothing["rows"] == nothing["verdicts"] == nothing["versions"] == []
    assert not any(nothing["figures"].values())
