"""`bydore search` as a user runs it; whole searches run in test_run.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from training_runs import train

from bydore_pyro.cli.ask import ask_command
from bydore_pyro.cli.search import RepetitionConfig, search_command
from bydore_pyro.data.store import TokenStore
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.utils.files import read_tree


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


def test_a_checkpoints_next_stage(
    corpus: TokenStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its gradients are measured and it is left as it is; what it has read counts."""
    train(corpus, tmp_path / "target")
    model, out = tmp_path / "target/model", tmp_path / "run"
    given = ["--data", str(corpus.folder), "--validation", "greek", "--checkpoint", str(model)]
    given += ["--sequence_length", "32", "--validation_sequences", "64", "--device", "cpu"]
    search_command([*given, "--out", str(out)])
    mixture = Mixture.from_json(out / "mixture.json").as_dict()
    assert mixture["greek"] > 0.9
    _, measured = read_tree(out / "measured-1")
    for name, value in load_file(model / "model.safetensors").items():
        assert torch.equal(measured["parameters"][name], value)
    assert not (out / "measured-2").exists()
    assert not (out / "trials").exists()
    ask_command([str(out), "--validation", "birds", "--out", str(tmp_path / "asked")])
    (answer,) = (tmp_path / "asked").rglob("mixture.json")
    assert Mixture.from_json(answer).as_dict()["birds"] > 0.9

    (tmp_path / "read.json").write_text(json.dumps({"tokens_by_domain": {"greek": 3000}}))
    left = 2 * (len(corpus.train["greek"]) // 32 * 32) - 3000
    capped = ["--target_tokens", "60000", "--max_epochs", "2", "--out", str(tmp_path / "capped")]
    search_command([*given, *capped, "--consumed", str(tmp_path / "read.json")])
    found = Mixture.from_json(tmp_path / "capped/mixture.json").as_dict()
    assert found["greek"] == pytest.approx(left / 60000, abs=1e-6)
    capsys.readouterr()
    config_only = tmp_path / "config_only"
    config_only.mkdir()
    (config_only / "config.json").write_bytes((model / "config.json").read_bytes())
    for wrong, message in (
        (["--evidence", "linear"], "Expected --evidence matching with --checkpoint, found linear"),
        (["--checkpoint", str(tmp_path)], "Expected the configuration of a causal language model"),
        (["--checkpoint", str(config_only)], "as safetensors, found: "),
        (["--consumed", str(tmp_path / "none.json")], "Expected numbers of domains in"),
    ):
        with pytest.raises(SystemExit) as exit_:
            search_command([*given, *wrong, "--target_tokens", "8000"])
        assert exit_.value.code == 2
        assert message in capsys.readouterr().err
