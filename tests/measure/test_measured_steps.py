"""A proxy that trains on equal weights and is measured on text that it never trains on."""

from __future__ import annotations

import dataclasses

from searches import MATCHING, MatchingRun
from tiny import random_store

from bydore_pyro.data.domains import Domains
from bydore_pyro.measure.measured_steps import MeasuredStep, measured_training

ROUNDS = dataclasses.replace(MATCHING, steps=10, rounds=3, round_sequences=10)


def test_rounds_are_measured_where_they_are_due_and_charged() -> None:
    assert ROUNDS.measured_steps == (2, 5, 10)
    domains = Domains(
        random_store(tokens=6400, documents=50),
        {"a": 0.6, "b": 0.4},
        sequence_length=32,
        validation_sequences=64,
        measured=ROUNDS.measured_sequences(4),
    )
    run = MatchingRun(domains, ROUNDS)
    given = (domains, run.proxy, run.sketch, ROUNDS)
    steps = list(measured_training(*given))
    assert all(isinstance(one, MeasuredStep) for one in steps)
    assert len(steps) == 10
    assert all(0 < one.loss < 20 for one in steps)
    rounds = [one.measured for one in steps if one.measured is not None]
    assert [one.step for one in rounds] == [2, 5, 10]
    assert [place for place, one in enumerate(steps, 1) if one.measured is not None] == [2, 5, 10]
    assert all(len(s.documents) == 10 for one in rounds for s in one.samples.values())
    tokens = run.proxy.cost.tokens
    assert (tokens["train"], tokens["gradients"]) == (32 * 8 * 10, 32 * 3 * 4 * 10)
    assert run.proxy.cost.seconds["gradients"] > 0
    assert list(measured_training(*given)) == [], "all steps are taken"
