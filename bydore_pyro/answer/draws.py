"""Draws of weights: their intervals, their bounds, and the mixture that they make."""

from __future__ import annotations

import dataclasses
from itertools import combinations

import numpy as np
import torch
from torch import Tensor

from bydore_pyro.answer.question import Question
from bydore_pyro.mixture import (
    HDI_PROBABILITY,
    MOST_SHOWN,
    Group,
    Mixture,
    Sums,
    below,
    within_bounds,
)

KNOWN_SHARE = 0.25  # of the variances of a group's weights, that their sum may have at most
LEAST_SPREAD = 0.01  # of a weight that may be in a group: a standard deviation
MOST_GROUPED = 48  # domains among which groups are looked for: those whose weights vary most


def interval_of_draws(draws: np.ndarray, probability: float = HDI_PROBABILITY) -> np.ndarray:
    """Returns the highest-density intervals ``(K, 2)`` of draws of weights ``(D, K)``, in [0, 1].

    An interval that ends with the outermost draw is extended to 0 or 1: there the density is
    highest at the bound, and that no draw is exactly 0 says nothing against a weight of 0. A bound
    that is further than the interval is wide has nothing to do with it: of few draws the outermost
    are often among the closest. All intervals of weights follow this rule.
    """
    import arviz
    import xarray

    # Of what the two versions of ArviZ take, this means the same to both.
    data = xarray.Dataset({"w": (("chain", "draw", "domain"), draws[None])})
    low, high = arviz.hdi(data, probability)["w"].values.T
    width = high - low
    at_0 = (low <= draws.min(0)) & (low <= width)
    at_1 = (high >= draws.max(0)) & (1 - high <= width)
    return np.stack([np.where(at_0, 0.0, low), np.where(at_1, 1.0, high)], 1)


def raised(draws: Tensor, least: Tensor) -> Tensor:
    """Returns weights ``(D, K)`` that are at least ``(K,)``; the others shrink in proportion."""
    draws = draws / draws.sum(1, keepdim=True)
    if not least.any():
        return draws
    return torch.from_numpy(within_bounds(draws.numpy(), least.numpy(), np.ones(len(least))))


def mixture_of_draws(draws: Tensor, centre: Tensor, question: Question) -> Mixture:
    """Returns weights with the spread of their draws and intervals that hold the weights.

    Args:
        draws: Weights ``(D, K)``.
        centre: The weights ``(K,)``.
        question: Has the names of the domains, and the hashes of tokenizer and text.
    """
    values, weights = draws.numpy(), centre.numpy() / centre.numpy().sum()
    return Mixture(
        names=question.names,
        weights=tuple(weights.tolist()),
        standard_deviation=tuple(values.std(0).tolist()),
        hdi=tuple(_around(values, weights)),
        hdi_probability=HDI_PROBABILITY,
        tokenizer=question.tokenizer,
        data_sha256=question.data_sha256,
    )


def mixture_within(mixture: Mixture, question: Question, *, free: bool) -> Mixture:
    """Returns the mixture that is nearest to an answer's within the question's bounds, which hold
    exactly: nothing that was done to the weights before counts.

    Args:
        mixture: The weights.
        question: The bounds.
        free: Whether the weights were found without the largest weights, so that they stay as
            `free_weights`.

    Raises:
        DataError: When the bounds leave no mixture.
    """
    most, least = question.most, question.least
    if most is None and not least:
        return mixture
    bounded = mixture.capped(most or {}, least)
    if free and most is not None:
        return bounded
    return dataclasses.replace(bounded, free_weights=None)


def _around(draws: np.ndarray, weights: np.ndarray) -> list[tuple[float, float]]:
    """Returns the intervals of draws, taken to the weights ``(K,)``."""
    low, high = interval_of_draws(draws).T
    low, high = np.minimum(low, weights), np.maximum(high, weights)
    return list(zip(low.tolist(), high.tolist(), strict=True))


def sums_of_draws(draws: Tensor, centre: Tensor, question: Question) -> Sums:
    """Returns the intervals of the sum of the weights below each path, of all but the largest, and
    of groups of domains that stand for each other; each holds the sum of the weights.

    Args:
        draws: Weights ``(D, K)``.
        centre: The weights ``(K,)``.
        question: Has the names of the domains, and the domains of pools.
    """
    values, weights = draws.numpy(), centre.numpy() / centre.numpy().sum()
    names, pools = question.names, question.pools
    leaves = [
        (k, leaf, share)
        for k, name in enumerate(names)
        for leaf, share in pools.get(name, {name: 1.0}).items()
    ]
    paths = below([leaf for _, leaf, _ in leaves])
    order = np.argsort([-weights[k] * share for k, _, share in leaves], kind="stable")
    columns = [*paths.values(), order[MOST_SHOWN:].tolist()]
    groups = groups_of_draws(values)
    if not any(columns) and not groups:
        return Sums()
    shares = np.zeros((len(names), len(columns)))
    for column, places in enumerate(columns):
        for k, _, share in (leaves[place] for place in places):
            shares[k, column] += share
    of_groups = np.zeros((len(names), len(groups)))
    for column, places in enumerate(groups):
        of_groups[list(places), column] = 1
    shares = np.concatenate([shares, of_groups], 1)
    ends = _around((values @ shares).clip(max=1.0), (weights @ shares).clip(max=1.0))
    branches, rest = ends[: len(paths)], ends[len(paths)]
    found = [
        Group(
            domains=tuple(leaf for k in own for leaf in pools.get(names[k], (names[k],))),
            low=low,
            high=high,
        )
        for own, (low, high) in zip(groups, ends[len(columns) :], strict=True)
    ]
    found.sort(key=lambda one: -(one.low + one.high))
    return Sums(
        branches=dict(zip(paths, branches, strict=True)),
        rest=rest if columns[-1] else None,
        groups=tuple(found),
    )


def groups_of_draws(draws: np.ndarray) -> list[tuple[int, ...]]:
    """Returns groups of domains that stand for each other, as places.

    The variance of a group's sum is at most a quarter of the sum of its weights' variances; of
    weights that vary independently of each other it is about that sum. Groups are built up two by
    two, those first whose sum is known best, and none is larger than need be. Each has at most half
    of the domains: of more, the others' weights say the same. Weights that hardly vary are in none.

    Args:
        draws: Weights ``(D, K)``.
    """
    covariance = np.atleast_2d(np.cov(draws.T))
    spread = np.sqrt(covariance.diagonal())
    order = np.argsort(-spread, kind="stable")[:MOST_GROUPED]
    parts: list[tuple[int, ...]] = [(int(k),) for k in order if spread[k] >= LEAST_SPREAD]
    found: list[tuple[int, ...]] = []

    def known(places: tuple[int, ...]) -> float:
        return float(covariance[np.ix_(places, places)].sum() / (spread[list(places)] ** 2).sum())

    while True:
        both = [
            (known(one + other), one, other)
            for one, other in combinations(parts, 2)
            if len(one + other) <= draws.shape[1] / 2
        ]
        if not both:
            return found
        share, one, other = min(both)
        if share >= 1:  # what varies together, or independently, does not stand for each other
            return found
        parts = [part for part in parts if part not in (one, other)]
        (found if share <= KNOWN_SHARE else parts).append(tuple(sorted(one + other)))
