"""A proxy that trains on equal weights and is measured on text that it never trains on."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from searches import MATCHING, MatchingRun
from tiny import random_store

from bydore_pyro.data.domains import Domains
from bydore_pyro.data.store import TokenStore
from bydore_pyro.measure.config import MatchingConfig
from bydore_pyro.measure.measured_steps import MeasuredStep, measured_training
from bydore_pyro.measure.measurement import keep_measurement, read_measurements
from bydore_pyro.proxy.scheduling import proxy_content, restore_proxy
from bydore_pyro.utils.files import read_tree, write_tree

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
    assert len(steps) == 10
    assert all(0 < one.loss < 20 for one in steps)
    rounds = [one.measured for one in steps if one.measured is not None]
    assert [one.step for one in rounds] == [2, 5, 10]
    assert [place for place, one in enumerate(steps, 1) if one.measured is not None] == [2, 5, 10]
    assert all(len(s.documents) == 10 for one in rounds for s in one.samples.values())
    tokens = run.proxy.cost.tokens
    assert (tokens["train"], tokens["gradients"]) == (32 * 8 * 10, 32 * 3 * 4 * 10)
    assert run.proxy.cost.seconds["gradients"] > 0
    assert steps_of(run) == [], "all steps are taken"


@pytest.mark.parametrize("stop", [1, 2, 4])
def test_one_that_goes_on_measures_the_same_bits(tmp_path: Path, stop: int) -> None:
    """Before, right after and between rounds; the proxy and what it measured from files."""
    whole, broken, resumed = run_of(), run_of(), run_of()
    expected = [one.measured for one in steps_of(whole) if one.measured is not None]
    belongs = {"domains": dict.fromkeys("abcd", "")}
    training = measured_training(broken.domains, broken.proxy, broken.sketch, ROUNDS)
    rounds = 0
    for _ in range(stop):
        if (measured := next(training).measured) is not None:
            rounds += 1
            keep_measurement(tmp_path, rounds, measured, belongs)
    (tmp_path / "proxy").mkdir()
    write_tree(tmp_path / "proxy", proxy_content(broken.proxy, broken.domains), {})
    torch.manual_seed(stop)  # what the process drew since does not matter
    restore_proxy(resumed.proxy, resumed.domains, read_tree(tmp_path / "proxy")[1])
    found = read_measurements(tmp_path, belongs)
    found += [one.measured for one in steps_of(resumed) if one.measured is not None]
    for one, other in zip(expected, found, strict=True):
        assert one.step == other.step
        for name in "abcd":
            assert torch.equal(one.samples[name].gradients, other.samples[name].gradients)
            assert torch.equal(one.samples[name].documents, other.samples[name].documents)
        assert all(torch.equal(one.parameters[n], value) for n, value in other.parameters.items())
    assert whole.domains.state() == resumed.domains.state()
    assert whole.proxy.cost.tokens == resumed.proxy.cost.tokens


def test_what_is_measured_is_never_trained_on() -> None:
    """Over many epochs: the rows of training and those of measuring have none in common."""
    config = dataclasses.replace(ROUNDS, steps=60, batch_sequences=32)
    run = run_of(config, random_store(tokens=3200))
    trained, measured = {}, {}
    for (kind, name), stream in run.domains._streams.items():
        seen = trained if kind == "train" else measured
        if kind == "signal":
            continue
        plain = stream.rows

        def rows(position: int, count: int, plain=plain, seen=seen, name=name) -> np.ndarray:
            found = plain(position, count)
            seen.setdefault(name, set()).update(found.tolist())
            return found

        stream.rows = rows
    run.run()
    assert max(run.domains.epochs().values()) > 2
    for name in run.domains.names:
        assert measured[name]
        assert not trained[name] & measured[name]
