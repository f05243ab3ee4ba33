"""Branches train as a run does, are kept, and show what a target is made of."""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from scored_text import with_task
from searches import MATCHING, MatchingRun
from tiny import random_store

from bydore_pyro import core
from bydore_pyro.data.domains import Domains
from bydore_pyro.errors import NonFiniteError, RunFolderError
from bydore_pyro.measure import branches as module
from bydore_pyro.measure.branches import (
    BRANCH,
    Branch,
    groups_of,
    losses_of,
    losses_of_texts,
    measure_branches,
    read_branches,
    responses_of,
    samples_of,
    with_domains,
)
from bydore_pyro.measure.target import read_target
from bydore_pyro.proxy.scheduling import train_on_mixture

PLANTED = {"a": 0.6, "b": 0.4}
STEPS, BATCH, READ = 5, 8, 40
CONFIG = dataclasses.replace(MATCHING, round_sequences=40, sketch_size=4096)


def finished(learning_rate: float = 0.01) -> MatchingRun:
    domains = Domains(
        random_store(tokens=12800, documents=100),
        PLANTED,
        sequence_length=32,
        validation_sequences=200,
        measured=CONFIG.measured_sequences(4),
        seed=0,
    )
    options = {"learning_rate": learning_rate, "warmup_steps": 0}
    return MatchingRun(domains, CONFIG, options=options).run()


def branched(run: MatchingRun, folder: Path | None = None, most: int = 24) -> list[Branch]:
    return measure_branches(
        run.domains,
        run.proxy,
        run.measured[-1],
        most=most,
        steps=STEPS,
        batch_sequences=BATCH,
        sequences=READ,
        folder=folder,
        belongs={"seed": 0},
    )


def same(first: list[Branch], second: list[Branch]) -> bool:
    return len(first) == len(second) and all(
        a.domains == b.domains
        and all(torch.equal(a.change[n], b.change[n]) for n in a.change)
        and all(torch.equal(a.responses[n], b.responses[n]) for n in a.responses)
        for a, b in zip(first, second, strict=True)
    )


def test_a_branch_is_more_steps_on_its_domain_alone() -> None:
    run = finished()
    by_hand, domains = run.proxy.copied(), copy.deepcopy(run.domains)
    found = branched(run)
    assert [one.domains for one in found] == [("a",), ("b",), ("c",), ("d",)]
    steps = by_hand.steps + STEPS
    for _ in train_on_mixture(domains, by_hand, {"c": 1.0}, steps, BATCH):
        pass
    theta = run.proxy.parameters
    for name, value in found[2].parameters(theta).items():
        moved = by_hand.parameters[name] - theta[name]
        assert torch.allclose(value - theta[name], moved, rtol=0.01, atol=1e-6), "bfloat16"
    assert float(found[2].responses["c"].mean()) > 0, "it learns its own domain"
    assert found[2].responses["a"].shape == (READ,)
    assert run.domains.names == tuple(samples_of(found))
    assert samples_of(found)["a"].gradients.shape == (READ, 4)


def test_branches_change_nothing_but_what_they_read() -> None:
    run = finished()
    before = copy.deepcopy(run.proxy.model.state_dict())
    moments = copy.deepcopy(run.proxy.optimizer.state_dict()["state"])
    trained = [row for row in run.domains.state()["positions"] if row[0] == "train"]
    branched(run)
    assert all(torch.equal(before[n], v) for n, v in run.proxy.model.state_dict().items())
    now = run.proxy.optimizer.state_dict()["state"]
    assert all(torch.equal(moments[k]["exp_avg"], now[k]["exp_avg"]) for k in moments)
    assert trained == [row for row in run.domains.state()["positions"] if row[0] == "train"]
    parts = run.proxy.cost.tokens
    assert parts["branch_train"] == 4 * STEPS * BATCH * 32
    assert parts["branch_responses"] == 4 * 4 * READ * 32
    assert parts["responses"] == 4 * READ * 32


def test_they_are_kept_and_a_kill_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = branched(finished())
    monkeypatch.setattr(module.terminal, "stop_if_asked", lambda agreed=int: None)
    plain, done = module._Start.branch, []

    def once(self: object, *given: object) -> object:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(given)
        return plain(self, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(module._Start, "branch", once)
    with pytest.raises(KeyboardInterrupt):
        branched(finished(), tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"{BRANCH}-1", f"{BRANCH}-2"]
    done.clear()
    run = finished()
    assert same(branched(run, tmp_path), whole)
    assert len(done) == 2, "those that are there are not trained again"
    assert run.proxy.cost.tokens["branch_train"] == 4 * STEPS * BATCH * 32, "they cost the same"
    kept = read_branches(tmp_path, run.measured[-1], {"seed": 0})
    assert same(kept, whole)
    assert all(one.sha256 for one in kept)
    with pytest.raises(RunFolderError, match="seed"):
        read_branches(tmp_path, run.measured[-1], {"seed": 1})


def test_a_target_responds_as_what_it_is_made_of() -> None:
    run = finished()
    found = branched(run)
    whole = read_target(run.sketch, run.measured[-1], run.domains, found, each=True)
    assert whole.responses is not None
    matched = core.match([whole.responses.evidence])
    truth = torch.tensor([0.6, 0.4, 0.0, 0.0]).double()
    assert float((matched.weights - truth).abs().sum()) / 2 < 0.1
    assert matched.scale == pytest.approx(1.0, abs=0.15)
    own = whole.parts["a"]
    assert own.responses is not None
    assert float(core.match([own.responses.evidence]).weights[0]) > 0.9
    some = whole.restricted([1, 0])
    assert some.responses is not None
    assert len(some.responses.domains) == 2


@pytest.mark.parametrize("choices", [1, 3])
def test_the_responses_of_a_task_are_falls_of_its_own_loss(choices: int) -> None:
    run = finished()
    found = branched(run)
    corpus = with_task(run.domains.corpus, "task", "a", choices=choices)
    asked = Domains(corpus, {"task": 1.0}, names=run.domains.names, sequence_length=32)
    text = asked.targets["task"]
    responses = responses_of(run.proxy, found, text)
    assert responses.shape == (len(text.documents), 4)
    theta = {n: v.clone() for n, v in run.proxy.parameters.items()}
    before = losses_of(run.proxy, text)
    tokens = {"first": text.tokens[:3], "others": text.tokens[3:]}
    apart = losses_of_texts(run.proxy, tokens)
    assert [len(one) for one in apart.values()] == [3, len(text.tokens) - 3]
    for name, value in found[1].parameters(theta).items():
        run.proxy.parameters[name].copy_(value)
    tokens = run.proxy.token_losses(text.tokens, "x").detach()
    by_hand = text.losses(text.of_sequences(tokens)).float()
    assert torch.allclose(responses[:, 1], before - by_hand, atol=1e-5)


def test_domains_of_one_kind_share_a_branch() -> None:
    generator = torch.Generator().manual_seed(0)
    kinds = torch.randn(3, 30, generator=generator)
    documents = torch.arange(10)
    samples = {
        f"{name}{kind}": core.Sample(
            kinds[kind] + 0.1 * torch.randn(10, 30, generator=generator), documents
        )
        for name in "xy"
        for kind in range(3)
    }
    assert groups_of(samples, 3) == [("x0", "y0"), ("x1", "y1"), ("x2", "y2")]
    assert groups_of(samples, 6) == [(name,) for name in samples]
    run = finished()
    two = branched(run, most=2)
    assert sorted(name for one in two for name in one.domains) == ["a", "b", "c", "d"]
    assert samples_of(two)["a"].gradients.shape == (READ, 2)


def test_a_new_domain_is_read_in_the_branches_that_are_there() -> None:
    run = finished()
    found = branched(run)
    domains = Domains(
        run.domains.corpus,
        PLANTED,
        sequence_length=32,
        measured=CONFIG.measured_sequences(4),
        seed=0,
    )
    for _ in range(CONFIG.rounds):
        domains.measure_batch("d", 40)
    old = [
        dataclasses.replace(
            one,
            responses={n: v for n, v in one.responses.items() if n != "d"},
            documents={n: v for n, v in one.documents.items() if n != "d"},
        )
        for one in found
    ]
    again = with_domains(old, run.proxy, domains, READ, ["d"])
    for one, other in zip(found, again, strict=True):
        assert [*other.responses] == [*one.responses]
        assert torch.allclose(one.responses["d"], other.responses["d"], atol=1e-5)
        assert torch.equal(one.documents["d"], other.documents["d"])


def test_a_branch_that_diverges_is_named() -> None:
    run = finished()
    run.proxy.config = dataclasses.replace(run.proxy.config, learning_rate=1e30)
    for group in run.proxy.optimizer.param_groups:
        group["lr"] = 1e30
    with pytest.raises(NonFiniteError, match=r"branch on a: .*--branches 0"):
        branched(run)
    assert np.isfinite(run.proxy.evaluate(run.domains.targets["a"].tokens, "x"))
