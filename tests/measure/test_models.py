"""Models that one has say what a target is made of, as branches do."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from searches import MATCHING, MatchingRun
from tiny import random_store

from bydore_pyro import core
from bydore_pyro.data.domains import Domains
from bydore_pyro.data.scored import Sequences
from bydore_pyro.errors import DataError
from bydore_pyro.measure.branches import measure_branches, samples_of, texts_of
from bydore_pyro.measure.models import (
    MODELS,
    Model,
    ModelResponses,
    Separated,
    beside,
    responses_to_models,
    separated,
)
from bydore_pyro.measure.target import read_target
from bydore_pyro.proxy.measured_model import Cost, MeasuredModel
from bydore_pyro.proxy.proxy import Proxy
from bydore_pyro.proxy.scheduling import train_on_mixture

PLANTED = {"a": 0.6, "b": 0.4}
READ = 40
CONFIG = dataclasses.replace(MATCHING, round_sequences=40, sketch_size=64)


class Own:
    """A search, and models that went on from its proxy on mixtures."""

    def __init__(self, *mixtures: Mapping[str, float]) -> None:
        self.domains = Domains(
            random_store(tokens=12800, documents=100),
            PLANTED,
            sequence_length=32,
            validation_sequences=200,
            measured=CONFIG.measured_sequences(4),
            seed=0,
        )
        options = {"learning_rate": 0.01, "warmup_steps": 0}
        self.run = MatchingRun(self.domains, CONFIG, options=options).run()
        self.before = copy.deepcopy(self.domains)  # they are about to be read
        self.texts = texts_of(self.domains, READ, self.domains.names)
        self.models = {"base": self.run.proxy.copied()}
        for number, mixture in enumerate(mixtures):
            self.models[f"on {number}"] = self.trained(mixture)
        self.loaded: list[str] = []
        self.cost = Cost()

    def trained(self, mixture: Mapping[str, float], steps: int = 20) -> Proxy:
        own, domains = self.run.proxy.copied(), copy.deepcopy(self.domains)
        for _ in train_on_mixture(domains, own, mixture, own.steps + steps, 8):
            pass
        return own

    def load(self, model: Model) -> MeasuredModel:
        self.loaded.append(model.folder)
        return MeasuredModel(self.models[model.folder].model, self.cost)

    def read(self, folder: Path | None = None, **targets: Sequences) -> ModelResponses:
        models = [Model(folder=name, sha256=f"of {name}") for name in self.models]
        given = targets or self.domains.targets
        return responses_to_models(models, self.load, self.texts, given, folder)


def test_responses_are_falls_of_every_models_own_loss() -> None:
    own = Own({"a": 1.0}, {"b": 0.5, "c": 0.5})
    found = own.read()
    assert own.loaded == ["base", "on 0", "on 1"]
    assert found.count == 2
    assert own.cost.tokens["responses"] == 3 * (4 * READ + 200) * 32
    assert [*found.domains] == ["a", "b", "c", "d"]

    def losses(name: str, tokens: torch.Tensor) -> torch.Tensor:
        table = own.models[name].model.table.detach().log_softmax(-1)
        return -table[tokens[:, :-1], tokens[:, 1:]].mean(1)

    for samples, texts in ((found.domains, own.texts), (found.targets, own.domains.targets)):
        for name, sample in samples.items():
            tokens = texts[name].tokens
            before = losses("base", tokens)
            by_hand = [before - losses(one, tokens) for one in ("on 0", "on 1")]
            assert torch.allclose(sample.gradients, torch.stack(by_hand, 1), atol=1e-5)
            assert sample.documents.tolist() == texts[name].documents.tolist()


def test_the_order_of_models_and_domains_decides_nothing() -> None:
    own = Own({"a": 1.0}, {"b": 1.0})
    found = own.read()
    own.texts = dict(reversed(own.texts.items()))
    base, first, second = own.models.items()
    own.models = dict([base, second, first])
    other = own.read()
    assert [*other.domains] == ["d", "c", "b", "a"]
    for name, sample in found.domains.items():
        assert torch.allclose(sample.gradients.flip(1), other.domains[name].gradients, atol=1e-6)


def test_models_on_known_mixtures_say_what_a_target_is_made_of() -> None:
    """Alone, and better than gradients of which hardly anything is kept; beside branches, too."""
    mixtures = ({"a": 0.7, "c": 0.3}, {"b": 1.0}, {"c": 0.5, "d": 0.5}, {"d": 0.8, "a": 0.2})
    own = Own(*mixtures)
    truth = torch.tensor([0.6, 0.4, 0.0, 0.0]).double()

    def apart(found: core.Matching) -> float:
        return float((found.weights - truth).abs().sum()) / 2

    run, models = own.run, own.read()
    alone = read_target(run.sketch, run.measured[-1], run.domains, models=models, each=True)
    assert alone.responses is not None
    assert alone.responses.models == 4
    found = core.composition_of([alone.evidence], alone.responses)
    assert apart(found) < min(0.1, apart(core.match([alone.evidence])))
    assert found.left_out == alone.responses.unexplained
    part = alone.parts["a"].responses
    assert part is not None
    assert float(core.match([part.evidence]).weights[0]) > 0.9
    given = {"most": 24, "steps": 5, "batch_sequences": 8, "sequences": READ}
    branches = measure_branches(own.before, run.proxy, run.measured[-1], **given)
    both = read_target(run.sketch, run.measured[-1], run.domains, branches, models=models)
    assert both.responses is not None
    assert both.responses.target.gradients.shape == (200, 8)
    first = both.responses.domains[0].gradients
    assert torch.equal(first[:, :4], samples_of(branches)["a"].gradients)
    assert torch.equal(first[:, 4:], models.domains["a"].gradients)
    assert samples_of(branches)["a"].documents.tolist() == own.texts["a"].documents.tolist()
    assert apart(core.match([both.responses.evidence])) < 0.1


def test_what_was_read_of_a_model_is_kept(tmp_path: Path) -> None:
    own = Own({"a": 1.0}, {"b": 1.0})
    found = own.read(tmp_path)
    assert len([*(tmp_path / MODELS).iterdir()]) == 3 * 3, "the domains and two targets"
    read = own.cost.tokens["responses"]
    again = own.read(tmp_path)
    assert own.loaded == ["base", "on 0", "on 1"]
    assert torch.equal(again.domains["c"].gradients, found.domains["c"].gradients)
    target = own.domains.targets["a"]
    assert torch.equal(again.targets["a"].gradients, found.targets["a"].gradients)
    less = target.chosen(np.arange(10))
    one = own.read(tmp_path, less=less)
    assert own.loaded[3:] == ["base", "on 0", "on 1"]
    assert own.cost.tokens["responses"] == read + 3 * 10 * 32, "of another target, it alone"
    assert torch.allclose(one.targets["less"].gradients, found.targets["a"].gradients[:10])
    own.models["on 2"] = own.trained({"c": 1.0})
    assert own.read(tmp_path).count == 3
    assert own.loaded[6:] == ["on 2"]


def test_a_model_whose_losses_are_not_finite_is_named() -> None:
    own = Own({"a": 1.0})
    with torch.no_grad():
        own.models["on 0"].model.table[3] = torch.inf
    with pytest.raises(DataError, match="Expected finite losses of the model in on 0, found nan"):
        own.read()


def sample(mean: torch.Tensor, seed: int, noise: float = 0.05) -> core.Sample:
    generator = torch.Generator().manual_seed(seed)
    spread = noise * torch.randn(60, len(mean), generator=generator).double()
    return core.Sample(mean + spread, torch.arange(60))


def test_what_models_tell_apart() -> None:
    """The third of three models is half of each other; two domains respond alike."""
    first = torch.tensor([1.0, 0.2, 0.2, -0.3, 0.0]).double()
    second = torch.tensor([0.1, 0.9, 0.9, 0.4, 0.0]).double()
    rows = torch.stack([first, second, (first + second) / 2], 1)

    def found(rows: torch.Tensor) -> Separated:
        return separated({name: sample(rows[k], k) for k, name in enumerate("abcde")})

    assert found(rows) == Separated(directions=2, alike=(("b", "c"),))
    assert found(rows[:, :1]) == Separated(directions=1, alike=(("b", "c"),))
    nothing = found(0 * rows)
    assert nothing.directions == 0
    assert nothing.alike == (("a", "b", "c", "d", "e"),)
    scaled = found(rows * torch.tensor([1.0, 100.0, 0.01]))
    assert scaled.alike == (("b", "c"),)


def test_branches_stand_before_models() -> None:
    then = core.Sample(torch.ones(2, 1), torch.arange(2))
    assert beside(None, then) is then
    both = beside(core.Sample(torch.zeros(2, 2), torch.arange(2)), then)
    assert both.gradients.tolist() == [[0, 0, 1], [0, 0, 1]]
