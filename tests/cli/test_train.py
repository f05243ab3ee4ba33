"""`bydore train` as a user runs it."""

from __future__ import annotations

import json
import shutil
import signal
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from processes import forked
from quick import PROXY
from tiny import make_problem, write_domains
from training_runs import mixture_for, same_bits, weights_in
from transformers import AutoModelForCausalLM, AutoTokenizer

from bydore_pyro.cli.main import main
from bydore_pyro.cli.train import train_command
from bydore_pyro.data.domains import Domains
from bydore_pyro.data.store import TokenStore, open_store
from bydore_pyro.methods.fixed import fit_natural
from bydore_pyro.setup.question import weights_of


@pytest.fixture
def given(corpus: TokenStore, tmp_path: Path) -> list[str]:
    (tmp_path / "mixture.json").write_text(mixture_for(corpus).to_json())
    data = ["--data", str(corpus.folder), "--out", str(tmp_path / "run")]
    return ["--smoke", "--mixture", str(tmp_path / "mixture.json"), *data]


def test_a_training(given: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train_command([*given, "--seed", "3", "--device", "auto"])
    printed = capsys.readouterr()
    assert "birds 1,024 0.5000 " in " ".join(printed.out.split())
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    for name, loss in metrics["held_out_loss_nats_per_token"].items():
        (line,) = (line for line in printed.out.splitlines() if line.startswith(f"{name} "))
        assert line.endswith(f" {loss:.4f}")
    assert "nats per token, each on at most 64 held-out sequences\n" in printed.out
    assert "loss on the target" not in printed.out
    assert "In " + str(tmp_path / "run/model") in printed.out
    assert "802,944 parameters; 8 steps of 8 x 32 tokens" in printed.err
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert (config["target"]["seed"], config["train"]["model"]) == (3, "models/target-tiny")
    AutoModelForCausalLM.from_pretrained(tmp_path / "run/model")
    AutoTokenizer.from_pretrained(tmp_path / "run/model")
    # The mixture may change or go: a run goes on with the one that it was begun with.
    (tmp_path / "mixture.json").unlink()
    before = weights_in(tmp_path / "run/model")
    shutil.rmtree(tmp_path / "run/model")
    shutil.rmtree(tmp_path / "run/checkpoints/checkpoint-8")
    train_command(["--resume", str(tmp_path / "run")])
    assert same_bits(weights_in(tmp_path / "run/model"), before)


def test_stages_and_another_tokenizer(
    given: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    refused: Callable[..., str],
) -> None:
    stages = [
        {"until": "1K", "mixture": {"birds": 1.0}, "tokenizer_sha256": "f" * 64},
        {"mixture": {"greek": 1.0}},
    ]
    (tmp_path / "mixture.json").write_text(json.dumps(stages))
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        train_command([*given, "--other_tokenizer"])
    printed = capsys.readouterr()
    assert "bydore train: warning: the mixture: the weights are shares of the tokens" in printed.err
    assert "greek " in printed.out


def test_natural_weights_are_the_same_for_all(tmp_path: Path) -> None:
    """On a store of as much text of a large domain as of a small one: to train on, to compare with,
    and as a method."""
    for name, files in (("a", 60), ("b", 8)):
        write_domains(tmp_path / "text", {name: "bcdfg"}, files)
    data = ["--data", str(tmp_path / "text"), "--domain_megabytes", "0.005"]
    store = ["--vocabulary", "300", "--processes", "0", "--out", str(tmp_path / "store")]
    main(["prepare", *data, *store])
    corpus = open_store(tmp_path / "store")
    shares = {
        name: len(text) / sum(map(len, corpus.train.values()))
        for name, text in corpus.train.items()
    }
    natural = corpus.natural()
    assert shares["a"] < 0.7 < 0.8 < natural["a"], "a is sampled"
    given = ["--smoke", "--mixture", "natural", "--data", str(tmp_path / "store")]
    train_command([*given, "--tokens", "512", "--out", str(tmp_path / "run")])
    (stage,) = json.loads((tmp_path / "run/schedule.json").read_text())
    assert stage["mixture"] == natural
    target = {"sequence_length": 16, "minimal_validation": 1}
    known = weights_of("natural", Domains(corpus, {"a": 1.0}, **target))
    assert known.tolist() == [*natural.values()]
    fitted = fit_natural(make_problem(corpus, tmp_path, target={"a": 1.0})).mixture
    assert fitted.as_dict() == pytest.approx(natural, rel=1e-15)


def test_killed_it_goes_on_with_the_same_bits(given: list[str], tmp_path: Path) -> None:
    """SIGKILL, which leaves nobody time for anything."""
    options = [*given, "--mixture", "natural", "--model", str(PROXY)]
    options += ["--tokens", "10K", "--save_every", "4"]
    train_command([*options, "--out", str(tmp_path / "whole")])
    process = forked(partial(train_command, options), tmp_path / "told")
    checkpoints = tmp_path / "run/checkpoints"
    deadline = time.monotonic() + 120
    while not list(checkpoints.glob("checkpoint-[1-9][0-9]")) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL, "it had not come to its end"
    assert not (tmp_path / "run/model").exists()
    train_command(["--resume", str(tmp_path / "run")])
    killed, whole = (weights_in(tmp_path / out / "model") for out in ("run", "whole"))
    assert same_bits(killed, whole)
