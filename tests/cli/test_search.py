"""`bydore search` as a user runs it; whole searches run in test_run.py."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from quick import PROXY
from safetensors.torch import load_file
from tiny import write_domains
from training_runs import train

from bydore_pyro.cli.ask import ask_command
from bydore_pyro.cli.export import export_command
from bydore_pyro.cli.prepare import prepare_command
from bydore_pyro.cli.search import Searched, run_search, search_command
from bydore_pyro.command_line.command_line import options_from
from bydore_pyro.data.store import TokenStore, open_store
from bydore_pyro.files.trees import read_tree
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.setup.options import SMOKE, Options


def test_bad_searches(store: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    out = tmp_path / "run"
    given = ["--smoke", "--data", str(store), "--validation", "a", "--out", str(out)]
    for wrong, message in (
        (["--config", "none.yaml"], "Expected a JSON or YAML file of options, found 'none.yaml'"),
        (["--sequence_length", "100000"], "Expected sequence_length <= "),
        (["--proxy", str(store)], "Expected the configuration of a causal language model"),
        (["--device", "tpu"], "Expected a device of this machine, found 'tpu'"),
        (["--max_epochs", "1", "--target_tokens", "1e12"], "within the cap"),
        (["--baseline", "nowhere"], "nowhere"),
        (["--at_least", "a=.6", "b=.6"], "found 1.2 and 3"),
        (["--evidence", "linear", "--objective", "worst"], "Expected --evidence matching"),
    ):
        assert message in refused("search", *given, *wrong)
        assert not out.exists(), wrong


def test_a_proxy_that_has_not_learned_is_told_everywhere(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the command line, in the report as text and as a page, and in the metrics."""
    given = ["--smoke", "--data", str(store), "--validation", "a", "--out", str(tmp_path / "run")]
    search_command([*given, "--learning_rate", "1e-9"])
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
    corpus: TokenStore,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    refused: Callable[..., str],
) -> None:
    """Its gradients are measured and it is left as it is; what it has read counts."""
    monkeypatch.setattr("bydore_pyro.setup.metrics.LEARNED_MARGIN", 9.0)  # it would count as random
    train(corpus, tmp_path / "target")
    model, out = tmp_path / "target/model", tmp_path / "run"
    given = ["--data", str(corpus.folder), "--validation", "greek", "--checkpoint", str(model)]
    given += ["--sequence_length", "32", "--validation_sequences", "64", "--device", "cpu"]
    search_command([*given, "--out", str(out)])
    told = capsys.readouterr()
    assert f"bydore search --config {out}/config.json --seed 1" in told.out
    assert "the model has not learned" in told.err
    assert "measure a later checkpoint" in told.err
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

    config_only = tmp_path / "config_only"
    config_only.mkdir()
    (config_only / "config.json").write_bytes((model / "config.json").read_bytes())
    other = shutil.copytree(model, tmp_path / "other")
    tokens = json.loads((other / "tokenizer.json").read_text())
    vocabulary = tokens["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    (other / "tokenizer.json").write_text(json.dumps(tokens))
    for wrong, message in (
        (["--evidence", "linear"], "Expected --evidence matching with --checkpoint, found linear"),
        (["--objective", "worst"], "found a checkpoint or linear evidence"),
        (["--checkpoint", str(tmp_path)], "Expected the configuration of a causal language model"),
        (["--checkpoint", str(config_only)], "as safetensors, found: "),
        (["--checkpoint", str(other)], "the text's tokenizer ("),
        (["--consumed", str(tmp_path / "none.json")], "Expected numbers of domains in"),
    ):
        assert message in refused("search", *given, *wrong, "--target_tokens", "8000")


def test_a_tree_of_domains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From folders of folders to a trainer's file; what is too small is measured with siblings."""
    kinds = {"web/law/high": "abcde", "web/law/low": "fghij", "code": "klmno"}
    write_domains(tmp_path / "text", kinds, files=150)
    for name, words in (("tiny", 22), ("small", 30)):
        (tmp_path / "text/web/law" / name).mkdir()
        for side, word in (("train", "pqrst"), ("validation", "tsrqp")):
            path = tmp_path / "text/web/law" / name / f"{side}.txt"
            path.write_text(f"{name} {word} " * words)
    data, store, run = (str(tmp_path / name) for name in ("text/**", "store", "run"))
    prepare_command(["--data", data, "--out", store, "--vocabulary", "280", "--processes", "0"])
    sizes = {name: len(tokens) for name, tokens in open_store(Path(store)).train.items()}
    assert list(sizes) == ["code", "web/law/high", "web/law/low", "web/law/small", "web/law/tiny"]
    assert sizes["web/law/tiny"] < sizes["web/law/small"] < 2 * 200, "two sequences"
    given = ["--smoke", "--data", store, "--validation", "web/law", "--out", run, "--trials", "0"]
    given += ["--rounds", "1", "--proxy", str(PROXY)]
    search_command([*given, "--round_sequences", "8", "--sequence_length", "200"])
    mixture = Mixture.from_json(tmp_path / "run/mixture.json")
    weights = mixture.as_dict()
    assert list(weights) == ["code", "web/law/high", "web/law/low", "web/law/small", "web/law/tiny"]
    ratio = sizes["web/law/tiny"] / sizes["web/law/small"]
    assert weights["web/law/tiny"] == pytest.approx(ratio * weights["web/law/small"])
    assert "web/law/* (2 domains)" in mixture.notes[-1]
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    below = sum(weight for name, weight in weights.items() if name != "code")
    for path in ("web", "web/law"):
        low, high = metrics["sums"]["branches"][path]
        assert low <= below + 1e-9
        assert below <= high + 1e-9
    epochs = metrics["run_epochs"]
    assert epochs["web/law/tiny"] == pytest.approx(epochs["web/law/small"])
    given = ["--validation", "code", "--drop", "web/law/high", "--out", str(tmp_path / "asked")]
    ask_command([run, *given])
    assert list(Mixture.from_json(tmp_path / "asked/mixture.json").names)[-1] == "web/law/tiny"
    capsys.readouterr()
    export_command([run, "--to", "megatron", "--prefix", "/data/{domain}_text"])
    for line in capsys.readouterr().out.splitlines():
        weight, path = line.split()
        name = path.removeprefix("/data/").removesuffix("_text")
        assert float(weight) == pytest.approx(weights[name], abs=1e-6)


def test_a_search_from_options_leaves_its_page(store: Path, tmp_path: Path) -> None:
    """Without a command line: what it found stays in memory too."""
    given = {"data": store, "validation": ["b"], "smoke": True, "trials": 0, "proxy": str(PROXY)}
    options = options_from({**given, "out": tmp_path / "run"}, Options, smoke=SMOKE)
    found = run_search(options.resolved())
    assert isinstance(found, Searched)
    assert found.domains.names == ("a", "b", "c")
    assert found.found.mixture == Mixture.from_json(tmp_path / "run" / "mixture.json")
    assert (found.folder.path / "report.html").is_file()
