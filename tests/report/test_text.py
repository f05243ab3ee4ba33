"""The text of a run, from its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from report_runs import write_matching

from bydore_pyro.analysis.seeds import agreement
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.report.run_record import read_run
from bydore_pyro.report.text import (
    agreement_table,
    losses_table,
    report_text,
    rounds_text,
    weights_table,
)
from bydore_pyro.utils.errors import RunFolderError

MIXTURE = Mixture(
    names=("law", "web"),
    weights=(0.25, 0.75),
    standard_deviation=(0.1, 0.2),
    hdi=((0.1, 0.4), (0.6, 0.9)),
)
METRICS = {
    "steps": 7,
    "search": {"tokens": 1000, "flops": 1e6, "seconds": 3.0},
    "peak_memory_megabytes": 512,
    "jitter_second_half": 0.01,
    "run_epochs": {"law": 0.5, "web": 2.0},
    "validation_loss_nats_per_token": {"learned": 3.25, "uniform": 3.5},
    "guide_fit": {"khat": "infinite", "effective_draws": 3.0, "draws": 1000},
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "mixture.json").write_text(MIXTURE.to_json())
    (tmp_path / "metrics.json").write_text(json.dumps(METRICS))
    return tmp_path


def test_everything_is_told(run: Path) -> None:
    lines = report_text(run).splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["domain", "web", "law"]
    assert lines[2].split() == ["web", "0.750", "0.200", "[0.600,", "0.900]", "2.00", "above"]
    text = "\n".join(lines)
    for part in ("3.2500", "1,000 tokens", "k-hat infinite", "0.5 GB", "mixture.json"):
        assert part in text


def test_capped_weights_stand_beside_the_free_ones() -> None:
    table = weights_table(MIXTURE.capped({"law": 1.0, "web": 0.6}), {"law": 1, "web": 1})
    assert table.splitlines()[2].split()[:3] == ["web", "0.600", "0.750"]
    assert "free" in table
    assert "free" not in weights_table(MIXTURE, {"law": 1, "web": 1})
    assert losses_table({"x": 1.0}).splitlines()[-1].split() == ["x", "1.0000"]


def test_agreement_is_told_in_words(tmp_path: Path) -> None:
    other = Mixture(
        names=("law", "web"),
        weights=(0.75, 0.25),
        standard_deviation=(0.01, 0.01),
        hdi=((0.7, 0.8), (0.2, 0.3)),
    )
    for seed, mixture in enumerate((MIXTURE, other)):
        (tmp_path / f"seed-{seed}").mkdir()
        (tmp_path / f"seed-{seed}" / "mixture.json").write_text(mixture.to_json())
    rows = agreement([MIXTURE, other]).to_csv(index_label="domain")
    (tmp_path / "agreement.csv").write_text(rows)
    text = agreement_table(read_run(tmp_path))
    assert text == report_text(tmp_path)
    assert text.count("overconfident") == 2
    assert "over seeds is 0.354" in text
    assert "in 0% of the cases" in text


def test_what_is_no_finished_run(run: Path, tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"Expected a run in .*nowhere"):
        report_text(tmp_path / "nowhere")
    (run / "metrics.json").write_text(json.dumps({"stopped": "interrupted", "steps": 3}))
    with pytest.raises(RunFolderError, match="stopped after 3 steps: interrupted"):
        report_text(run)
    (run / "metrics.json").write_text("null")
    with pytest.raises(RunFolderError, match=r"Expected a whole run .* metrics\.json: DataError"):
        report_text(run)
    for damaged in ("{}", '{"run_epochs": 3, "search": 1}'):
        (run / "metrics.json").write_text(damaged)
        with pytest.raises(RunFolderError, match="Expected a whole run"):
            report_text(run)


def test_a_search_by_matching_tells_of_its_rounds(tmp_path: Path) -> None:
    text = report_text(write_matching(tmp_path / "run"))
    for part in (
        "most likely, by rounds",
        "round 2, after step 20: 1,002 sequences, validation loss 4.000",
        "The domains cover the target",
        "On fresh text none of 4 domains contradicts the mixture.",
        "k-hat 0.57",
        "the draws are corrected to the posterior's",
    ):
        assert part in text
    assert "jitter" not in text
    assert "g frozen" not in text
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    metrics["guide_fit"]["corrected"] = False
    (tmp_path / "run" / "metrics.json").write_text(json.dumps(metrics))
    assert "the draws could not be corrected" in report_text(tmp_path / "run")
    assert rounds_text({"matching": {}}).strip() == ""
