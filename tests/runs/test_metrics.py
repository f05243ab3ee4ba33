"""A finished search in figures."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from bydore_pyro.analysis.diagnostics import jitter
from bydore_pyro.runs.answers import answer_of
from bydore_pyro.search.matching import MatchingSearch
from bydore_pyro.search.search import run_search
from searches import LINEAR, MATCHING, state_of

from bydore_pyro.cli.search import SearchOptions
from bydore_pyro.data.store import TokenStore
from bydore_pyro.proxy.measured_model import Cost
from bydore_pyro.runs.metrics import (
    learning_of,
    matching_record,
    peak_memory_megabytes,
    results_of,
    run_epochs,
    search_metrics,
    spent,
)
from bydore_pyro.runs.record import Learning, Metrics, plain, read_as
from bydore_pyro.utils.command_line import parse_options


@pytest.mark.parametrize(
    ("evidence", "learner"),
    [("linear", "bayesian"), ("linear", "point"), ("matching", "bayesian")],
)
def test_what_was_found_is_told(
    evidence: str, learner: str, corpus: TokenStore, tmp_path: Path
) -> None:
    config = LINEAR if evidence == "linear" else MATCHING
    state = state_of(corpus, dataclasses.replace(config, learner=learner))
    list(run_search(state))
    given = ["--sequence_length", "32", "--target_tokens", "5000", "--device", "cpu"]
    options = parse_options(given, "test", "", SearchOptions)
    found = answer_of(state, options, None)
    assert (found.posterior is None) == (learner == "point")
    metrics = search_metrics(options, found)
    means = np.stack([record.mean for record in state.records])
    assert metrics.steps == config.trained_steps
    assert metrics.jitter_second_half == jitter(means[len(means) // 2 :])
    told = metrics.matching
    assert told == matching_record(state)
    assert [one.step for one in told.rounds] == ([3, 6] if evidence == "matching" else [])
    if isinstance(state, MatchingSearch):
        assert told.unexplained == state.matching.unexplained
        assert told.by_document_over_by_sequence > 0
        assert list(told.check.slopes) == list(told.rounds[-1].weights) == list(corpus.names)
        assert told.inference.steps == state.inference.steps
    assert list(metrics.last_weights.values()) == means[-1].tolist()
    assert (metrics.guide_fit.khat is not None) == (learner == "bayesian")
    assert metrics.search == spent(state.proxy.cost)
    assert metrics.search.tokens == sum(state.proxy.cost.tokens.values())
    assert metrics.versions
    (tmp_path / "metrics.json").write_text(json.dumps(plain(metrics), allow_nan=False))
    assert read_as(Metrics, tmp_path / "metrics.json") == metrics

    tokens = {
        name: n * state.domains.sequence_length for name, n in state.domains.sequences().items()
    }
    for name, times in run_epochs(options, state.domains, found.mixture).items():
        assert times == pytest.approx(found.mixture.as_dict()[name] * 5000 / tokens[name])


def test_results_carry_their_origin() -> None:
    options = parse_options(
        ["--seed", "3", "--out", "x", "--cache", "y"], "test", "", SearchOptions
    )
    cost = Cost()
    with cost.part("train"):
        cost.count("train", 5, 7.0)
    found = results_of({"found": 1}, options, 3, cost, ("scipy",))
    assert list(found) == ["found", "seed", "config", "cost", "versions", "commit"]
    assert (found["found"], found["seed"], found["config"]["run"]["seed"]) == (1, 3, 3)
    assert found["config"]["search"] == options.as_dict()["search"]
    assert not {"out", "cache"} & set(found["config"]["run"]), "it tells no places"
    assert found["cost"] == cost.report()
    assert "scipy" in found["versions"]


def test_memory_is_counted_in_megabytes() -> None:
    held = np.ones(20_000_000)
    assert peak_memory_megabytes() > held.nbytes / 2**20


@pytest.mark.parametrize("evidence", ["linear", "matching"])
@pytest.mark.parametrize(("gained", "learned"), [(0.0, False), (0.09, False), (0.11, True)])
def test_a_proxy_has_learned_when_it_beats_a_uniform_prediction(
    corpus: TokenStore, evidence: str, gained: float, learned: bool
) -> None:
    """A search by linear evidence notes noisy losses, of which the last ten are averaged."""
    config = LINEAR if evidence == "linear" else MATCHING
    state = state_of(corpus, config)
    assert learning_of(state) == Learning()
    state.step()
    noise = 0.5 * (-1.0) ** np.arange(10) if evidence == "linear" else np.zeros(10)
    uniform = math.log(corpus.vocabulary)
    state.records = [
        dataclasses.replace(state.records[0], validation_loss=loss)
        for loss in [9.0, *(uniform - gained + noise)]
    ]
    found = learning_of(state)
    assert found.validation_loss == pytest.approx(uniform - gained)
    assert found.uniform_loss == uniform
    assert (found.warning == "") == learned
