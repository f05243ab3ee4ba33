"""A target is read where the domains were measured: it finds what was planted."""

from __future__ import annotations

import copy
import dataclasses
import functools
from pathlib import Path

import numpy as np
import pytest
import torch
from scored_text import with_task
from searches import MATCHING, MatchingRun
from tiny import Bigram, random_store
from torch import Tensor, nn

from bydore_pyro.core.matching import Matching, match
from bydore_pyro.core.quadratic import least, square_root
from bydore_pyro.data.domains import Domains
from bydore_pyro.data.scored import PER_BYTE, together
from bydore_pyro.data.store import Text, TokenStore
from bydore_pyro.measure.config import MatchingConfig
from bydore_pyro.measure.measurement import keep_measurement, measure, set_parameters
from bydore_pyro.measure.target import TargetMeasurement, read_target
from bydore_pyro.proxy.config import ProxyConfig
from bydore_pyro.proxy.gradients import GradientSketch
from bydore_pyro.proxy.proxy import Proxy

PLANTED = {"a": 0.6, "b": 0.4}
TRUTH = np.array([0.6, 0.4, 0.0, 0.0])
CONFIG = dataclasses.replace(MATCHING, round_sequences=40, sketch_size=4096)


def finished(
    config: MatchingConfig = CONFIG,
    corpus: TokenStore | None = None,
    seed: int = 0,
    **options: float,
) -> MatchingRun:
    domains = Domains(
        corpus or random_store(tokens=12800, documents=100),
        PLANTED,
        sequence_length=32,
        validation_sequences=200,
        measured=config.measured_sequences(4),
        seed=seed,
    )
    options = {"learning_rate": 0.01, "warmup_steps": 0, **options}
    return MatchingRun(domains, config, options=options).run()


def rounds_of(run: MatchingRun) -> list[TargetMeasurement]:
    rounds = []
    for measured in run.measured:
        set_parameters(run.proxy, measured)
        rounds.append(read_target(run.sketch, measured, run.domains))
    return rounds


def found_by(run: MatchingRun) -> Matching:
    return match([one.evidence for one in rounds_of(run)])


@functools.cache
def usual() -> MatchingRun:
    """One for all tests that only look at it."""
    return finished()


def distance(weights: torch.Tensor) -> float:
    return 0.5 * float(np.abs(weights.numpy() - TRUTH).sum())


def test_the_planted_mixture_is_found() -> None:
    """Two of four kinds of tokens make up the validation text."""
    found = found_by(usual())
    assert distance(found.weights) < 0.08, found.weights
    assert found.scale == pytest.approx(1, abs=0.15)
    assert found.unexplained < 0.1


def test_a_round_tells_where_it_was_measured_and_its_gradients() -> None:
    run = usual()
    before = run.proxy.cost.tokens["gradients"]
    rounds = rounds_of(run)
    assert [one.step for one in rounds] == [5, 10]
    assert all(one.sequences == 4 * 40 for one in rounds)
    assert run.proxy.cost.tokens["gradients"] == before + 2 * 200 * 32
    for one, measured in zip(rounds, run.measured, strict=True):
        set_parameters(run.proxy, measured)
        expected, losses = run.sketch(together(run.domains.targets.values())[0], "x")
        largest = float(expected.abs().max())  # float16 keeps shares of it
        torch.testing.assert_close(one.sample.gradients, expected, rtol=1e-3, atol=1e-6 * largest)
        assert one.loss == pytest.approx(float(losses.mean()))
    last, found = rounds[-1], match([one.evidence for one in rounds])
    nothing = dataclasses.replace(found, optimum=torch.zeros(4).double())
    own = last.metric(last.sample.gradients.mean(0))
    torch.testing.assert_close(last.residual(nothing, run.measured[-1]), last.metric(own))
    left = last.residual(found, run.measured[-1])
    assert float(left.norm()) < 0.7 * float(last.metric(own).norm())


def test_a_measurement_knows_no_target() -> None:
    """One measurement serves targets that are read later; the model ends as it was."""
    run = usual()
    before = {name: value.clone() for name, value in run.proxy.parameters.items()}
    weights = {}
    for name in "cd":
        target = Domains(run.domains.corpus, {name: 1.0}, sequence_length=32)
        rounds = []
        for measured in run.measured:
            set_parameters(run.proxy, measured)
            rounds.append(read_target(run.sketch, measured, target).evidence)
        weights[name] = match(rounds).weights
    assert float(weights["c"][2]) > 0.9
    assert float(weights["d"][3]) > 0.9
    assert all(torch.equal(before[name], value) for name, value in run.proxy.parameters.items())


def loss_of_c(run: MatchingRun) -> float:
    """On the sequences on which the domain is measured, nats per token."""
    batch, _ = copy.deepcopy(run.domains).measure_batch("c", 40)
    return float(run.sketch(batch, "x")[1].mean())


def test_a_domain_that_was_learned_by_heart_gains_no_weight() -> None:
    """Few sequences, read dozens of times: measured on these, their gradients are so small that
    noise alone gives the domain weight. On those that were
    kept aside it has none."""
    corpus = random_store(tokens=12800, documents=100)
    few = Text(corpus.train["c"][:384], corpus.train["c"].ends[:3])
    short = dataclasses.replace(corpus, train={**corpus.train, "c": few})
    config = dataclasses.replace(CONFIG, steps=200, batch_sequences=16, rounds=1, branches=0)
    run = finished(config, short, seed=3, learning_rate=0.1)
    assert run.domains.epochs()["c"] > 40
    aside = loss_of_c(run)
    weights = found_by(run).weights
    assert float(weights[2]) < 0.02
    assert distance(weights) < 0.1, weights
    run.domains._streams["measure", "c"] = run.domains._streams["train", "c"]
    run.measured = [measure(run.sketch, run.domains, 40, run.proxy.steps)]
    assert loss_of_c(run) < aside - 0.2, "it was learned by heart"
    found = found_by(run)
    assert 0.02 < float(found.weights[2]) < 0.05, "the simplex leaves little of the trap"
    free = least(square_root(found.precision), found.linear)
    assert float(free[2] / free.sum()) > 0.05, "the trap is one"


def test_a_target_is_read_once(tmp_path: Path) -> None:
    """The second time from its file, to the bit; a damaged one, or another's, is read again."""
    run = usual()
    kept = keep_measurement(tmp_path, 1, run.measured[-1], {"domains": {}})
    set_parameters(run.proxy, kept)
    first = read_target(run.sketch, kept, run.domains)
    spent = run.proxy.cost.report()["flops"]
    again = read_target(run.sketch, kept, run.domains, each=True)
    assert run.proxy.cost.report()["flops"] == spent
    assert torch.equal(first.sample.gradients, again.sample.gradients)
    assert first.loss == again.loss
    assert len(again.parts) > 1
    (path,) = (kept.folder / "targets").iterdir()
    (path / "tree.json").write_text("{}")
    for measured in (kept, dataclasses.replace(kept, sha256="other")):
        spent = run.proxy.cost.report()["flops"]
        again = read_target(run.sketch, measured, run.domains)
        assert run.proxy.cost.report()["flops"] > spent
        assert torch.equal(first.sample.gradients, again.sample.gradients)


class Absurd(nn.Module):
    """A model to which everything but the answers is absurd: behind the first tokens its logits
    are huge, by its parameters."""

    def __init__(self, model: nn.Module, context: int) -> None:
        super().__init__()
        self.model, self.context = model, context

    def forward(self, input_ids: Tensor) -> Tensor:
        logits = self.model(input_ids)
        huge = 1e4 * self.model.table.sum() * torch.arange(logits.shape[2])
        places = torch.arange(logits.shape[1])[:, None]
        read = (places < self.context - 1) | (places >= self.context + 3)
        return logits + torch.where(read, huge, 0.0)


@pytest.mark.parametrize("choices", [1, 3])
def test_only_answers_count(choices: int) -> None:
    """The losses of contexts, and of what fills sequences up, are absurd, and nothing moves."""
    corpus = random_store(tokens=12800, documents=100)
    store = with_task(corpus, "exam", "b", count=30, context=6, answer=4, choices=choices)
    found = []
    for absurd in (False, True):
        plain = Bigram(store.vocabulary)
        proxy = Proxy(Absurd(plain, 6) if absurd else plain, ProxyConfig())
        sketch = GradientSketch(proxy, 256)
        domains = Domains(store, {"exam": 1.0}, names=corpus.names, sequence_length=16, measured=20)
        sane = GradientSketch(Proxy(plain, ProxyConfig()), 256)
        measured = measure(sane, domains, 20, 0)
        found.append(read_target(sketch, measured, domains))
    one, other = found
    assert one.loss == pytest.approx(other.loss, rel=1e-5)
    torch.testing.assert_close(one.sample.gradients, other.sample.gradients)
    torch.testing.assert_close(one.evidence.cross, other.evidence.cross)


def test_a_task_from_a_domains_text_is_made_of_it() -> None:
    corpus = random_store(tokens=12800, documents=100)
    store = with_task(corpus, "exam", "b", count=150, context=20, answer=10)
    domains = Domains(
        store,
        {"exam": 1.0},
        names=corpus.names,
        sequence_length=32,
        validation_sequences=150,
        measured=CONFIG.measured_sequences(4),
    )
    run = MatchingRun(domains, CONFIG, options={"learning_rate": 0.01, "warmup_steps": 0}).run()
    assert float(found_by(run).weights[1]) > 0.85
    assert run.domains.targets["exam"].unit == PER_BYTE


def test_targets_together_are_their_mean_by_shares() -> None:
    corpus = random_store(tokens=12800, documents=100)
    store = with_task(corpus, "exam", "b", count=30)
    domains = Domains(
        store, {"exam": 0.75, "a": 0.25}, names=corpus.names, sequence_length=16, measured=20
    )
    sketch = GradientSketch(Proxy(Bigram(store.vocabulary), ProxyConfig()), 256)
    measured = measure(sketch, domains, 20, 0)
    found = read_target(sketch, measured, domains, each=True)
    exam, plain = found.parts["exam"], found.parts["a"]
    assert found.loss == pytest.approx(0.75 * exam.loss + 0.25 * plain.loss)
    mean = 0.75 * exam.sample.gradients.mean(0) + 0.25 * plain.sample.gradients.mean(0)
    torch.testing.assert_close(found.sample.gradients.mean(0), mean)
    assert len(found.sample.documents.unique()) == len(exam.sample.documents) + len(
        plain.sample.documents.unique()
    )
