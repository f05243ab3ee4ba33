"""Losses on held-out text, against a model whose losses are known and transformers' own."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import Bigram, text_of
from torch import nn
from training_runs import train
from transformers import AutoModelForCausalLM

from bydore_pyro.data.store import TokenStore
from bydore_pyro.errors import NonFiniteError
from bydore_pyro.proxy.measured_model import MeasuredModel
from bydore_pyro.training.held_out import SEQUENCES, HeldOutLoss, held_out_losses


def test_the_loss_is_the_mean_over_the_tokens_of_every_sequence(corpus: TokenStore) -> None:
    """Text of as many sequences as are read, in any order: all of it, cut into sequences."""
    text = np.random.default_rng(0).integers(corpus.vocabulary, size=SEQUENCES * 16 + 5)
    bigram = Bigram(corpus.vocabulary)
    nn.init.normal_(bigram.table)
    validation = {**corpus.validation, "birds": text_of([text])}
    store = dataclasses.replace(corpus, validation=validation)
    found = held_out_losses(MeasuredModel(bigram), store, 16, 7)
    rows = torch.from_numpy(text[: SEQUENCES * 16]).view(SEQUENCES, 16)
    expected = nn.functional.cross_entropy(
        bigram(rows)[:, :-1].flatten(0, 1), rows[:, 1:].flatten()
    )
    assert found["birds"].loss == pytest.approx(expected.item(), rel=1e-5)
    assert {*found} == {*corpus.names}
    for name, one in found.items():
        assert one.sequences == (
            SEQUENCES if name == "birds" else min(SEQUENCES, len(corpus.validation[name]) // 16)
        )


def test_nan_is_refused_by_name(corpus: TokenStore) -> None:
    model = Bigram(corpus.vocabulary)
    nn.init.constant_(model.table, float("nan"))
    told = "^Expected a finite loss, found nan on the held-out text of "
    with pytest.raises(NonFiniteError, match=f"{told}'birds': a lower --learning_rate"):
        held_out_losses(MeasuredModel(model), corpus, 16, 8)


def test_a_training_tells_them_of_the_model_that_it_saves(
    corpus: TokenStore, tmp_path: Path
) -> None:
    """Of all domains of the store, and after a resume; the same text with another seed."""
    metrics = train(corpus, tmp_path / "run", tokens="512", save_every=1)
    model = MeasuredModel(AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "model"))
    expected = held_out_losses(model, corpus, 32, 4)
    assert {*expected} == {*corpus.names}
    found = {
        name: HeldOutLoss(loss, metrics["held_out_sequences"][name])
        for name, loss in metrics["held_out_loss_nats_per_token"].items()
    }
    assert found == expected
    (tmp_path / "run" / "metrics.json").unlink()
    again = train(corpus, tmp_path / "run", tokens="512", save_every=1, resume=True)
    for key in ("held_out_loss_nats_per_token", "held_out_sequences"):
        assert again[key] == metrics[key]
