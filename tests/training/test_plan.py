"""A training from its options to its plan; and what is refused before anything starts."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training_runs import mixture_for, tiny_config, tiny_shape

from bydore_pyro.data.domains import Domains
from bydore_pyro.data.store import TokenStore
from bydore_pyro.errors import DataError, RunFolderError
from bydore_pyro.mixture.mixture import Mixture, within_bounds
from bydore_pyro.training.checkpoints import write_seal
from bydore_pyro.training.order import MixtureState, begin
from bydore_pyro.training.plan import CHECKPOINTS, TrainingPlan, plan_training
from bydore_pyro.training.stages import Stages


def plan(store: TokenStore, **rest: Any) -> TrainingPlan:
    model, resumed = rest.pop("model", tiny_shape()), rest.pop("resumed", None)
    stages = rest.pop("stages", None) or Stages.constant(mixture_for(store))
    return plan_training(model, store, stages, tiny_config(**rest), resumed)


def test_a_plan(corpus: TokenStore, capsys: pytest.CaptureFixture[str]) -> None:
    found = plan(corpus)
    assert (found.device_batch, found.accumulation, found.processes) == (4, 2, 1)
    assert (found.checkpoint, found.state) == (None, begin(4))
    assert found.model.vocab_size == corpus.vocabulary
    assert found.model.eos_token_id == found.model.bos_token_id == 0, "the store's end of text"
    assert capsys.readouterr().err.splitlines() == [
        "37,792 parameters; 12 steps of 8 x 32 tokens, 4 sequences at once, 2 times, on 1 x cpu"
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "cuda"}, "Expected a CUDA device, found none"),
        ({"model": "models/none"}, "Expected the configuration of a causal language model"),
        ({"sequence_length": 65}, "sequence_length <= 64, the most that LlamaConfig takes, fo"),
        ({"sequence_length": 20_000}, "Expected at least one sequence of 20000 tokens"),
        ({"tokens": "100M"}, "at most 4 times .--max_epochs., found 'birds' "),
        ({"max_epochs": 0.001}, "found 'birds' .* with weight 0.5; --tokens .* would"),
    ],
)
def test_refused(corpus: TokenStore, options: dict[str, Any], message: str) -> None:
    if torch.cuda.is_available() and options == {"device": "cuda"}:
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match=message) as caught:
        plan(corpus, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("length", "batch"), [(32, 8), (48, 7), (64, 16)])
def test_what_a_search_proposes_within_its_epochs_is_accepted(
    corpus: TokenStore, length: int, batch: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the sequences and steps of the training, also where a weight is at its cap."""
    tokens, epochs = 20_001, 0.7
    domains = Domains(corpus, {"birds": 1.0}, sequence_length=32, validation_sequences=64)
    most = domains.most_weights(epochs, tokens)
    weights = within_bounds(
        np.array([[0.9, 0.05, 0.03, 0.02]]), np.zeros(4), np.array([*most.values()])
    )[0]
    assert weights[0] == most[domains.names[0]] < 0.9, "the cap binds"
    stages = Stages.constant(Mixture(names=domains.names, weights=tuple(weights.tolist())))
    given = {"sequence_length": length, "target_batch_sequences": batch, "stages": stages}
    found = plan(corpus, tokens=str(tokens), max_epochs=epochs, **given)
    assert found.config.steps * batch * length > tokens, "whole steps"
    assert "(--max_epochs 0.7), because the run has whole steps" in capsys.readouterr().err
    for more in (f"{1.05 * tokens}", f"{1.003 * tokens}"):
        with pytest.raises(DataError, match="Expected to read the text") as caught:
            plan(corpus, tokens=more, max_epochs=0.999 * epochs, **given)
        allowed, times = re.findall(r"[\d.]+(?= times)", str(caught.value))
        assert float(allowed) < float(times), "numbers that differ"


def test_mixture_and_text_go_together(corpus: TokenStore) -> None:
    own = mixture_for(corpus)
    other = Stages.constant(dataclasses.replace(own, tokenizer="f" * 64))
    with pytest.raises(DataError, match=r"found weights for another .* --other_tokenizer accepts"):
        plan(corpus, stages=other)
    with pytest.warns(UserWarning, match="tokens of another tokenizer"):
        plan(corpus, stages=other, other_tokenizer=True)
    missing = Mixture(names=("birds", "law"), weights=(0.5, 0.5))
    with pytest.raises(DataError, match=r"Expected domains of the data \(.*\), found 'law'"):
        plan(corpus, stages=Stages(ends=(0.5, 1.0), mixtures=(own, missing)))


def test_a_missing_package(corpus: TokenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(ValueError, match=r"Expected the package accelerate, found none .*pip"):
        plan(corpus)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="Expected the package nowhere, found none"):
        plan(corpus, report_to="nowhere")


def test_going_on(corpus: TokenStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(corpus, resumed=tmp_path).checkpoint is None
    assert capsys.readouterr().err.startswith("no checkpoint: beginning anew\n")
    checkpoint = tmp_path / CHECKPOINTS / "checkpoint-8"
    shape = tiny_shape()
    shape.num_hidden_layers = 3
    shape.save_pretrained(checkpoint)
    state = MixtureState(8, [32, 20, 9, 3], [0.0, -0.8, 0.6, 0.2])
    write_seal(checkpoint, plan(corpus).belongs, state)
    found = plan(corpus, resumed=tmp_path)
    assert (found.checkpoint, found.state) == (checkpoint, state)
    assert found.model.num_hidden_layers == 3, "the checkpoint's own shape"
    write_seal(checkpoint, {**found.belongs, "model": "target-1b"}, state)
    with pytest.raises(RunFolderError, match=r"Expected model target-1b, .* found LlamaConfig"):
        plan(corpus, resumed=tmp_path)


def test_processes_share_a_batch(corpus: TokenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for batch, most, processes, expected in (
        *((512, 8, 64, (8, 1)), (512, 8, 128, (4, 1))),
        *((48, 10, 4, (6, 2)), (7, 4, 1, (1, 7))),
    ):
        monkeypatch.setenv("WORLD_SIZE", str(processes))
        found = plan(corpus, target_batch_sequences=batch, device_batch_sequences=most)
        assert (found.device_batch, found.accumulation) == expected
    monkeypatch.setenv("WORLD_SIZE", "5")
    with pytest.raises(ValueError, match="5 processes share equally, found 7"):
        plan(corpus, target_batch_sequences=7)
