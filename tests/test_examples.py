"""Every example against NUTS or the exact answer, and that none is left out."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pyro
import pytest
import torch
from pyro.distributions import Dirichlet
from torch import Tensor

EXAMPLES = Path(__file__).parents[1] / "examples"
WITHIN = 0.05  # measured over three seeds: docs/lab-notebook.md, "The examples"
HELD = ("topics", "groups", "experts", "data_weights")

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("_own_store")]


def load(name: str) -> ModuleType:
    """Imports an example; `data_weights` fits at import."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_held_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*HELD}


def width(found: Tensor, exact: Tensor) -> float:
    """Returns the geometric mean of the ratios of standard deviations."""
    return float((found / exact).log().mean().exp())


def test_shares_of_topics_are_as_wide_as_exact_ones() -> None:
    """Given the topics; over all sections, since one amortised guide serves them all."""
    topics = load("topics")
    pyro.set_rng_seed(0)
    counts, words, titles = topics.read_counts()
    assert len(words) == counts.shape[1] == topics.WORDS
    assert len(titles) == len(counts)
    guide, both = topics.fit(counts)
    q = guide.posterior(counts)
    prior = Dirichlet(torch.full((topics.TOPICS,), 0.5)).sample((100_000,))
    fits = (prior @ both.median(counts)["words"].detach()).log() @ counts.T  # (draws, sections)
    share = fits.double().softmax(0).float()
    assert float(1 / share.square().sum(0).max()) > 200  # effective draws of every section
    mean = share.T @ prior
    deviation = (share.T @ prior.square() - mean.square()).sqrt()
    assert float((q.mean.detach() - mean).abs().mean()) < 0.05
    assert width(q.stddev.detach(), deviation) == pytest.approx(1, abs=WITHIN)


def test_shares_of_groups_are_those_of_nuts() -> None:
    groups = load("groups")
    pyro.set_rng_seed(0)
    guide = groups.fit(groups.COUNTS)
    exact = groups.by_nuts(groups.COUNTS, 400)["shares"][0]
    q = guide[2].posterior()
    torch.testing.assert_close(q.mean, exact.mean(0), atol=0.05, rtol=0)
    assert width(q.stddev.detach(), exact.std(0)) == pytest.approx(1, abs=WITHIN)


@pytest.mark.parametrize("seed", range(3))
def test_gates_are_as_wide_as_exact_ones_where_experts_are_absent(seed: int) -> None:
    experts = load("experts")
    pyro.set_rng_seed(seed)
    data = experts.make_data()
    q = experts.fit(*data).posterior(experts.features_of(*data))
    assert (q.mean[experts.ABSENT] < 2e-3).all()
    mean, deviation = experts.exact(*data)
    there = ~experts.ABSENT
    found = q.stddev.detach()[there]
    assert width(found, deviation[there]) == pytest.approx(1, abs=WITHIN)
    assert (((q.mean.detach() - mean)[there] / deviation[there]).abs() < 0.8).all()
    if seed == 0:
        nuts = experts.by_nuts(*data, region=2, samples=150)
        torch.testing.assert_close(nuts.mean(0), mean[2, there[2]], atol=0.06, rtol=0)


def test_data_weights_have_the_exact_posterior() -> None:
    weights = load("data_weights")
    mean, deviation = weights.exact()
    q = weights.guide.posterior()
    torch.testing.assert_close(q.mean.detach(), mean, atol=0.01, rtol=0)
    assert width(q.stddev.detach(), deviation) == pytest.approx(1, abs=WITHIN)
    evidence = weights.evidence_at(q.mean.detach())
    drawn = weights.guide.to_inference_data(weights.model, *evidence, num_draws=4000)["posterior"]
    corrected = torch.from_numpy(drawn["weights"].values[0]).std(0)
    assert width(corrected, deviation) == pytest.approx(1, abs=WITHIN)
