"""`bydore search` as a user runs it; whole searches run in test_run.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bydore_pyro.cli.search import RepetitionConfig, search_command


def test_bad_searches(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--smoke", "--data", str(store), "--validation", "a"]
    for wrong, message in (
        (["--seeds", "0"], "Expected seeds in [1, 1000], actual 0"),
        (["--tokens", "many"], "Expected tokens such as 4e6 or 0.4B, found 'many'"),
        (["--config", "none.yaml"], "Expected a JSON or YAML file of options, found 'none.yaml'"),
        (["--sequence_length", "100000"], "Expected sequence_length <= "),
        (["--proxy", str(store)], "Expected the configuration of a causal language model"),
        (["--device", "tpu"], "Expected a device of this machine, found 'tpu'"),
        (["--max_epochs", "1", "--target_tokens", "1e12"], "within the cap"),
        (["--validation", "nowhere"], "nowhere"),
        (["--strategy", "all"], "invalid choice: 'all'"),
    ):
        with pytest.raises(SystemExit) as exit_:
            search_command([*given, *wrong])
        assert exit_.value.code == 2
        assert message in capsys.readouterr().err
    with pytest.raises(ValueError, match="Expected seeds"):
        RepetitionConfig(seeds=2000)


@pytest.mark.parametrize("evidence", ["matching", "linear"])
def test_a_proxy_that_has_not_learned_is_told_everywhere(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], evidence: str
) -> None:
    """On the command line, in the report as text and as a page, and in the metrics."""
    given = ["--smoke", "--data", str(store), "--validation", "a", "--out", str(tmp_path / "run")]
    search_command([*given, "--evidence", evidence, "--learning_rate", "1e-9"])
    printed = capsys.readouterr()
    told = "The weights mean nothing: the proxy has not learned. Its validation loss ended at "
    assert f"\nwarning: {told}" in printed.err
    assert told in " ".join(printed.out.split())
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["learning"]["warning"].startswith(told)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Has the proxy learned?" in page
    assert told in page
