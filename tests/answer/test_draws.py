"""Draws of weights: their intervals, their bounds, and the mixture that they make."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import arviz
import numpy as np
import pytest
import torch
import xarray

from bydore_pyro.answer.draws import (
    groups_of_draws,
    interval_of_draws,
    mixture_of_draws,
    mixture_within,
    raised,
    sums_of_draws,
)
from bydore_pyro.answer.question import Question
from bydore_pyro.core.point import central_weights
from bydore_pyro.law.goal import Goal
from bydore_pyro.mixture.mixture import MOST_SHOWN, Mixture
from bydore_pyro.mixture.tree import Group, Sums


@pytest.mark.parametrize("free", [True, False])
def test_the_last_thing_that_is_done_to_weights_is_to_bound_them(free: bool) -> None:
    asked = Question(names=("a", "b", "c"), tokenizer="t", data_sha256="d")
    found = Mixture(names=asked.names, weights=(0.5, 0.3, 0.2 + 1e-9))
    assert mixture_within(found, asked, free=free) is found, "without bounds nothing moves"
    at_least = torch.tensor([0, 0, 0.2 + 1e-7], dtype=torch.double)
    least = dataclasses.replace(asked, goal=Goal(at_least=at_least))
    raised = mixture_within(found, least, free=free)
    assert raised.weights[2] == 0.2 + 1e-7
    assert raised.free_weights is None, "there is no cap"
    at_most = torch.tensor([0.0, 1, 1]).double()
    both = dataclasses.replace(asked, goal=Goal(at_least=at_least, at_most=at_most))
    bounded = mixture_within(found, both, free=free)
    assert bounded.weights == pytest.approx((0.0, 0.6, 0.4))
    assert bounded.weights[0] == 0.0
    assert bounded.free_weights == (found.weights if free else None)


def mixture_of(draws: np.ndarray, names: Sequence[str], **more: dict) -> Mixture:
    question = Question(names=tuple(names), tokenizer="t", data_sha256="d", **more)
    values = torch.from_numpy(draws)
    return mixture_of_draws(values, central_weights(values), question)


def test_an_interval_of_a_density_that_falls_from_0_begins_with_0() -> None:
    rng = np.random.default_rng(0)
    inside = 0.5 + 0.1 * np.clip(rng.normal(size=4000), -4, 4)
    draws = np.stack([rng.beta(1, 20, 4000), inside, rng.beta(20, 1, 4000)], 1)
    data = xarray.Dataset({"w": (("chain", "draw", "domain"), draws[None])})
    found = arviz.hdi(data, 0.94)["w"].values
    bounded = interval_of_draws(draws)
    assert found[0, 0] > 0
    assert bounded[0, 0] == 0
    assert bounded[2, 1] == 1
    np.testing.assert_array_equal(bounded[1], found[1])
    np.testing.assert_array_equal([bounded[0, 1], bounded[2, 0]], [found[0, 1], found[2, 0]])


def test_the_mixture_is_the_draws_own() -> None:
    """Its intervals are theirs, taken to the weights."""
    draws = np.random.default_rng(0).dirichlet([6, 4, 0.3], 600)
    mixture = mixture_of(draws, "abc")
    np.testing.assert_allclose(mixture.weights, central_weights(torch.from_numpy(draws)))
    np.testing.assert_allclose(mixture.standard_deviation, draws.std(0))
    own = interval_of_draws(draws, mixture.hdi_probability)
    assert mixture.hdi is not None
    np.testing.assert_array_equal(mixture.hdi, own)
    assert (mixture.tokenizer, mixture.data_sha256) == ("t", "d")
    elsewhere = torch.tensor([0.1, 0.1, 0.8], dtype=torch.float64)
    question = Question(names=("a", "b", "c"), tokenizer="t", data_sha256="d")
    held = mixture_of_draws(torch.from_numpy(draws), elsewhere, question)
    assert held.hdi is not None
    assert held.hdi[0] == pytest.approx((0.1, own[0, 1]))
    assert held.hdi[2] == pytest.approx((own[2, 0], 0.8))


def test_branches_and_the_rest_have_the_intervals_of_their_sums() -> None:
    """Each by its own from the draws; the domains of a pool have shares of its weight."""
    names = [f"{a}/{b}" for a in "xyz" for b in range(9)] + ["x/*"]
    pools = {"x/*": {"x/few": 0.25, "x/small": 0.75}}
    alpha = np.random.default_rng(1).gamma(0.5, size=len(names))
    w = np.random.default_rng(2).dirichlet(alpha + 0.2, size=(2, 400))
    values = torch.from_numpy(w.reshape(800, -1))
    question = Question(names=tuple(names), tokenizer="t", data_sha256="d", pools=pools)
    mixture = mixture_of(values.numpy(), names, pools=pools).unpooled(pools)
    sums = sums_of_draws(values, central_weights(values), question)
    draws = {name: w[..., k].ravel() for k, name in enumerate(names)}
    draws |= {name: share * draws["x/*"] for name, share in pools["x/*"].items()}
    weights = mixture.as_dict()
    smallest = sorted(weights, key=lambda name: weights[name])[: len(weights) - MOST_SHOWN]
    groups = {path: [n for n in weights if n.startswith(f"{path}/")] for path in "xyz"}
    found = {**sums.branches, "rest": sums.rest}
    assert found.keys() == {*groups, "rest"}
    for name, members in {**groups, "rest": smallest}.items():
        own = sum(draws[one] for one in members)
        ends = interval_of_draws(own[:, None])[0]
        total = sum(weights[one] for one in members)
        assert found[name] == pytest.approx((min(ends[0], total), max(ends[1], total)))
    few = values[:, :3] / values[:, :3].sum(-1, keepdim=True)
    asked = Question(names=("a", "b", "c"), tokenizer="t", data_sha256="d")
    assert sums_of_draws(few, central_weights(few), asked) == Sums()


@pytest.mark.parametrize("least", [(0.2, 0.0, 0.0), (0.3, 0.3, 0.0), (0.2, 0.2, 0.6), (0, 0, 0)])
def test_weights_are_raised_to_their_bounds_and_the_others_keep_their_proportions(
    least: tuple[float, ...],
) -> None:
    draws = torch.from_numpy(np.random.default_rng(0).dirichlet([1, 2, 3], 500))
    bound = torch.tensor(least).double()
    found = raised(draws, bound)
    torch.testing.assert_close(found.sum(1), torch.ones(500).double())
    assert (found >= bound - 1e-12).all()
    free = (found > bound + 1e-12).all(1) | ~bound.any()
    torch.testing.assert_close(found[free], draws[free], msg="within the bounds nothing moves")
    others = (found > bound + 1e-12) & (draws > 0)
    ratio = torch.where(others, found / draws, torch.nan)
    spread = ratio.nan_to_num(0).amax(1) - ratio.nan_to_num(9e9).amin(1)
    assert (spread[others.any(1)] < 1e-9).all()


def test_domains_that_stand_for_each_other_are_a_group() -> None:
    """Two of six share a half that is known, in a way that is not; three others share the rest."""
    rng = np.random.default_rng(0)
    half = 0.5 + 0.01 * rng.standard_normal((4000, 1))
    pair, three = rng.dirichlet([1, 1], 4000), rng.dirichlet([1, 1, 1], 4000)
    last = np.full((4000, 1), 0.1) + 0.005 * rng.standard_normal((4000, 1))
    draws = np.concatenate([half * pair, (1 - half - last) * three, last], 1)
    order = [0, 2, 1, 3, 5, 4]
    found = groups_of_draws(draws[:, order])
    assert sorted(found) == [(0, 2), (1, 3, 5)]
    names = tuple("abcdef")
    asked = Question(names=names, tokenizer="t", data_sha256="d", pools={"a": {"x": 0.5, "y": 0.5}})
    values = torch.from_numpy(draws[:, order])
    first, other = sums_of_draws(values, values.mean(0), asked).groups
    assert isinstance(first, Group)
    assert first.domains == ("x", "y", "c")
    assert (first.low, first.high) == pytest.approx((0.481, 0.519), abs=2e-3)
    assert other.domains == ("b", "d", "f")
    assert (other.low, other.high) == pytest.approx((0.379, 0.421), abs=3e-3)


@pytest.mark.parametrize("domains", [2, 3, 5, 8, 30])
def test_weights_that_are_tied_by_their_sum_alone_are_in_no_group(domains: int) -> None:
    draws = np.random.default_rng(1).dirichlet(np.ones(domains), 2000)
    assert groups_of_draws(draws) == []
    sure = draws * 1e-3 + np.full(domains, 1 - 1e-3) / domains
    assert groups_of_draws(sure) == [], "they hardly vary"
