"""Every example against NUTS or the exact answer, and that none is left out."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import torch

EXAMPLES = Path(__file__).parents[1] / "examples"
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


def test_shares_of_topics_are_those_of_nuts() -> None:
    topics = load("topics")
    counts, words, titles = topics.read_counts()
    assert len(words) == counts.shape[1] == topics.WORDS
    assert len(titles) == len(counts)
    guide, both = topics.fit(counts, 200)
    exact = topics.by_nuts(counts[:4], both.median(counts)["words"], 100)["shares"][0]
    found = guide.posterior(counts[:4]).mean.detach()
    # Of every section: the text is that of the pages, and one amortised guide serves them all.
    assert float((found - exact.mean(0)).abs().mean()) < 0.08


def test_shares_of_groups_are_those_of_nuts() -> None:
    groups = load("groups")
    guide = groups.fit(groups.COUNTS, 200)
    exact = groups.by_nuts(groups.COUNTS, 150)["shares"][0]
    torch.testing.assert_close(guide[2].posterior().mean, exact.mean(0), atol=0.05, rtol=0)


def test_gates_are_those_of_nuts_where_experts_are_absent() -> None:
    experts = load("experts")
    data = experts.make_data()
    found = experts.fit(*data, 300).posterior(experts.features_of(*data)).mean
    assert (found[experts.ABSENT] < 2e-3).all()
    exact = experts.by_nuts(*data, region=2, samples=150).mean(0)
    torch.testing.assert_close(found[2, ~experts.ABSENT[2]], exact, atol=0.06, rtol=0)


def test_data_weights_have_the_exact_mean() -> None:
    weights = load("data_weights")
    found = weights.guide.posterior().mean.detach()
    torch.testing.assert_close(found, weights.exact_mean(), atol=0.08, rtol=0)
