"""What is refused before a training starts, and how a batch is shared."""

from __future__ import annotations

import dataclasses
import re
import sys
from typing import Any

import numpy as np
import pytest
import torch
from training_runs import mixture_for, tiny_config

from bydore_pyro.data.domains import Domains
from bydore_pyro.data.store import TokenStore
from bydore_pyro.errors import DataError
from bydore_pyro.mixture.mixture import Mixture, within_bounds
from bydore_pyro.training.checks import check_training, device_batch
from bydore_pyro.training.config import TargetConfig
from bydore_pyro.training.stages import Stages


def check(store: TokenStore, stages: Stages | None = None, **options: Any) -> TargetConfig:
    """Checks a training with these options, which are returned."""
    stages, config = stages or Stages.constant(mixture_for(store)), tiny_config(**options)
    check_training(store, stages, config)
    return config


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "cuda"}, "Expected a CUDA device, found none"),
        ({"tokens": "100M"}, "at most 4 times .--max_epochs., found 'birds' "),
    ],
)
def test_refused(corpus: TokenStore, options: dict[str, Any], message: str) -> None:
    if torch.cuda.is_available() and options == {"device": "cuda"}:
        pytest.skip("there is a GPU")
    with pytest.raises(ValueError, match=message):
        check(corpus, **options)


@pytest.mark.parametrize(("length", "batch"), [(32, 8), (48, 7), (64, 16)])
def test_what_a_search_proposes_within_its_epochs_is_accepted(
    corpus: TokenStore, length: int, batch: int
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
    config = check(corpus, tokens=str(tokens), max_epochs=epochs, **given)
    assert config.steps * batch * length > tokens, "whole steps"
    for more in (f"{1.05 * tokens}", f"{1.003 * tokens}"):
        with pytest.raises(DataError, match="Expected to read the text") as caught:
            check(corpus, tokens=more, max_epochs=0.999 * epochs, **given)
        allowed, times = re.findall(r"[\d.]+(?= times)", str(caught.value))
        assert float(allowed) < float(times), "numbers that differ"


def test_mixture_and_text_go_together(corpus: TokenStore) -> None:
    own = mixture_for(corpus)
    other = Stages.constant(dataclasses.replace(own, tokenizer="f" * 64))
    with pytest.raises(DataError, match=r"found weights for another .* --other_tokenizer accepts"):
        check(corpus, stages=other)
    with pytest.warns(UserWarning, match="tokens of another tokenizer"):
        check(corpus, stages=other, other_tokenizer=True)
    missing = Mixture(names=("birds", "law"), weights=(0.5, 0.5))
    with pytest.raises(DataError, match=r"Expected domains of the data \(.*\), found 'law'"):
        check(corpus, stages=Stages(ends=(0.5, 1.0), mixtures=(own, missing)))


def test_a_missing_package(corpus: TokenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(ValueError, match=r"Expected the package accelerate, found none .*pip"):
        check(corpus)


def test_processes_share_a_batch() -> None:
    for batch, largest, processes, expected in (
        (512, 8, 128, (4, 1)),
        (48, 10, 4, (6, 2)),
        (7, 4, 1, (1, 7)),
    ):
        config = tiny_config(target_batch_sequences=batch, device_batch_sequences=largest)
        assert device_batch(config, processes) == expected
    with pytest.raises(ValueError, match="5 processes share equally, found 7"):
        device_batch(tiny_config(target_batch_sequences=7), 5)
