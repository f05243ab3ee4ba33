"""A training from its options to its plan; and what is refused before anything starts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from bydore_pyro.training.mixture_schedule import MixtureSchedule
from training_runs import mixture_for, tiny_config, tiny_shape

from bydore_pyro.data.store import TokenStore
from bydore_pyro.training.checkpoints import write_seal
from bydore_pyro.training.training_plan import CHECKPOINTS, TrainingPlan, plan_training
from bydore_pyro.utils.errors import DataError, RunFolderError


def plan(store: TokenStore, told: list[str] | None = None, **rest: Any) -> TrainingPlan:
    model, resumed = rest.pop("model", tiny_shape()), rest.pop("resumed", None)
    tell = (told if told is not None else []).append
    schedule = MixtureSchedule.constant(mixture_for(store))
    return plan_training(model, store, schedule, tiny_config(**rest), resumed, tell)


def test_a_plan(corpus: TokenStore) -> None:
    told: list[str] = []
    found = plan(corpus, told)
    assert (found.device_batch, found.accumulation, found.processes) == (4, 2, 1)
    assert found.device.type == "cpu"
    assert not found.liger
    assert found.checkpoint is None
    assert len(found.dataset) == 96
    assert found.model.vocab_size == corpus.vocabulary
    assert found.model.eos_token_id == found.model.bos_token_id == 0, "the store's end of text"
    assert len(told) == 1
    assert (
        "37,792 parameters; 12 steps of 8 x 32 tokens, 4 sequences at once, 2 times, on 1 x cpu"
        in (told[0])
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "cuda"}, "Expected a CUDA device, found none"),
        ({"model": "models/none"}, "Expected the configuration of a causal language model"),
        ({"sequence_length": 65}, "Expected sequence_length <= 64"),
        ({"tokens": "100M"}, "at most 4 times .--max_epochs., found 'birds' "),
        ({"device": "cuda", "fsdp": True}, "Expected several processes with --fsdp, found one"),
    ],
)
def test_refused(corpus: TokenStore, options: dict[str, Any], message: str) -> None:
    if torch.cuda.is_available() and options.get("device") == "cuda" and "fsdp" not in options:
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match=message) as caught:
        plan(corpus, **options)
    assert "\n" not in str(caught.value)


def test_a_sequence_longer_than_a_domain(corpus: TokenStore) -> None:
    with pytest.raises(DataError, match="Expected at least one sequence of 20000 tokens"):
        plan(corpus, sequence_length=20_000)


def test_too_little_memory(corpus: TokenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sysconf", lambda name: 1000)
    with pytest.raises(ValueError, match=r"GiB of memory for each process, found 0\.0"):
        plan(corpus)


@pytest.mark.parametrize("package", ["accelerate", "tensorboard"])
def test_missing_packages(
    corpus: TokenStore, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=f"Expected the package {package}, found none .*pip"):
        plan(corpus, log="tensorboard")


def test_several_processes(corpus: TokenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    found = plan(corpus)
    assert (found.device_batch, found.accumulation, found.processes) == (2, 1, 4)
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(ValueError, match="3 processes share equally, found 8"):
        plan(corpus)


def test_going_on(corpus: TokenStore, tmp_path: Path) -> None:
    told: list[str] = []
    assert plan(corpus, told, resumed=tmp_path).checkpoint is None
    assert told[0] == "no checkpoint: beginning anew"
    checkpoint = tmp_path / CHECKPOINTS / "checkpoint-8"
    shape = tiny_shape()
    shape.num_hidden_layers = 3
    shape.save_pretrained(checkpoint)
    write_seal(checkpoint, plan(corpus).belongs)
    found = plan(corpus, told, resumed=tmp_path)
    assert found.checkpoint == checkpoint
    assert found.model.num_hidden_layers == 3, "the checkpoint's own shape"
    write_seal(checkpoint, {**found.belongs, "model": "target-1b"})
    with pytest.raises(RunFolderError, match=r"Expected model target-1b, .* found LlamaConfig"):
        plan(corpus, told, resumed=tmp_path)
