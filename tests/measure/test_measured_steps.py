"""A proxy that trains on equal weights and is measured on text that it never trains on."""

from __future__ import annotations

import dataclasses

from searches import MATCHING, MatchingRun
from tiny import random_store

from bydore_pyro.data.domains import Domains
from bydore_pyro.data.store import TokenStore
from bydore_pyro.measure.config import MatchingConfig
from bydore_pyro.measure.measured_steps import MeasuredStep, measured_training

ROUNDS = dataclasses.replace(MATCHING, steps=10, rounds=3, round_sequences=10)


def run_of(config: MatchingConfig = ROUNDS, corpus: TokenStore | None = None) -> MatchingRun:
    domains = Domains(
        corpus or random_store(tokens=6400, documents=50),
        {"a": 0.6, "b": 0.4},
        sequence_length=32,
        validation_sequences=64,
        measured=config.measured_sequences(4),
    )
    return MatchingRun(domains, config)


def steps_of(run: MatchingRun) -> list[MeasuredStep]:
    return list(measured_training(run.domains, run.proxy, run.sketch, run.config))


def test_rounds_are_measured_where_they_are_due_and_charged() -> None:
    assert ROUNDS.measured_steps == (2, 5, 10)
    run = run_of()
    steps = steps_of(run)
    assert [one.number for one in steps] == list(range(1, 11))
    assert all(0 < one.loss < 20 for one in steps)
    rounds = [one.measured for one in steps if one.measured is not None]
    assert [one.step for one in rounds] == [2, 5, 10]
    assert [one.number for one in steps if one.measured is not None] == [2, 5, 10]
    assert all(len(s.documents) == 10 for one in rounds for s in one.samples.values())
    tokens = run.proxy.cost.tokens
    assert (tokens["train"], tokens["gradients"]) == (32 * 8 * 10, 32 * 3 * 4 * 10)
    assert run.proxy.cost.seconds["gradients"] > 0
    assert steps_of(run) == [], "all steps are taken"
