"""What a search found, as labelled data for ArviZ; do searches with other seeds find the same?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from bydore_pyro.core import (
    GammaDirichlet,
    GuideFit,
    central_weights,
    guide_fit,
    mixture_model,
)
from bydore_pyro.mixture import HDI_PROBABILITY, MOST_SHOWN, Mixture, below
from bydore_pyro.search import (
    BayesianLearner,
    LinearSearch,
    MatchingSearch,
    SearchState,
    StepRecord,
)
from bydore_pyro.utils import DataError

if TYPE_CHECKING:
    import arviz
    import pandas
    import xarray

__all__ = [
    "agreement",
    "jitter",
    "mixture_of",
    "mixture_of_draws",
    "posterior_of",
    "search_guide_fit",
    "to_the_bounds",
    "trajectory_of",
]

BY_DOMAIN: tuple[str, ...] = (
    *("weights", "mean", "standard_deviation", "concentration", "rate", "losses", "g"),
)
BY_STEP: tuple[str, ...] = ("train_loss", "validation_loss", "kl_weight", "loss")
UNITS = dict.fromkeys(("losses", "g", *BY_STEP), "nats per token")
# An interval that is this much narrower than the spread over seeds claims too much; differences
# between seeds that are smaller than this are of no matter.
TOO_NARROW, SMALLEST_SPREAD = 0.5, 0.005


def posterior_of(
    state: SearchState,
    *,
    chains: int = 4,
    draws: int = 1000,
    seed: int = 0,
) -> arviz.InferenceData:
    """Draws from the posterior that a search found.

    By gradient matching it is the posterior of all rounds' evidence: exact draws, by chains that
    begin where the guide draws (`bydore_pyro.core.exact_draws`); of more than 128 domains the
    guide's draws, put right by importance weights (`bydore_pyro.core.corrected_draws`). The
    attributes of the group tell the guide's k-hat and whether the draws are the posterior's.

    By linear evidence it is the averaged posterior, ``q(w) = mean over steps t of q_t(w)``. The
    average is a mixture: each draw takes one step of the averaged window and samples that
    step's guide. Its mean is the mean of the steps' ``E_q[w]``, the result of the search; its
    spread holds both the guides' own and their wandering over the window. Draws are independent,
    so chains serve ArviZ's conventions only.

    Args:
        state: A search after at least one step.
        chains: Number of chains.
        draws: Draws of a chain.
        seed: Of the draws.

    Returns:
        A group `posterior` with ``w``, dimensions (chain, draw, domain), and the scale ``s`` where
        it is free, or for linear evidence the concentrations ``beta``.

    Raises:
        DataError: When the search has no step, or did not learn a posterior.
    """
    import arviz

    window = _window(state)
    if isinstance(state, MatchingSearch):
        if state.inference is None or state.signals is None:
            raise DataError("Expected a search that has measured its last round, found none")
        own = (state.signals, state.matching, state.domains.names)
        return state.learner.posterior(*own, chains=chains, draws=draws, seed=seed)
    if state.config.learner != "bayesian":
        raise DataError(f"Expected a posterior, found the learner '{state.config.learner}'")
    rng = np.random.default_rng(seed)
    steps = rng.integers(len(window), size=chains * draws)
    concentration = torch.from_numpy(np.stack([window[t].concentration for t in steps]))
    rate = torch.from_numpy(np.stack([window[t].rate for t in steps]))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        log_w, log_beta = GammaDirichlet(concentration, rate).rsample_log()
    shape = (chains, draws, len(state.domains.names))
    return arviz.from_dict(
        {
            "w": log_w.exp().numpy().reshape(shape),
            "beta": log_beta.exp().numpy().reshape(shape),
        },
        dims={"w": ["domain"], "beta": ["domain"]},
        coords={"domain": state.domains.names},
    )


def mixture_of(
    state: SearchState,
    posterior: arviz.InferenceData | None,
    *,
    tokenizer: str,
    data_sha256: str,
) -> Mixture:
    """Returns the learned mixture, with the posterior's spread and HDI.

    By gradient matching the weights are those of `bydore_pyro.core.central_weights`; the HDI begins
    with 0 or ends with 1 where it ends with the outermost draw. By linear evidence the weights are
    the exact mean of the averaged posterior; without a posterior it is the mean alone.
    """
    import arviz

    if isinstance(state, MatchingSearch) and posterior is not None:
        return mixture_of_draws(posterior, tokenizer=tokenizer, data_sha256=data_sha256)
    mean = np.stack([record.mean for record in _window(state)]).astype(float).mean(0)
    spread: dict[str, Any] = {}
    if posterior is not None:
        interval = arviz.hdi(posterior["posterior"]["w"].values, hdi_prob=HDI_PROBABILITY)
        spread = _spread(posterior, interval)
        samples, pools = posterior["posterior"]["w"], state.domains.pools
        spread |= _sums(samples, mean / mean.sum(), pools)
    return Mixture(
        names=state.domains.names,
        weights=tuple((mean / mean.sum()).tolist()),
        tokenizer=tokenizer,
        data_sha256=data_sha256,
        **spread,
    )


def mixture_of_draws(
    posterior: arviz.InferenceData,
    *,
    tokenizer: str,
    data_sha256: str,
    pools: Mapping[str, Mapping[str, float]] | None = None,
) -> Mixture:
    """Returns the weights at the centre of draws (`bydore_pyro.core.central_weights`), with their
    spread and HDI, which begins with 0 or ends with 1 where it ends with the outermost draw.

    Where draws are of steps of several lengths, it is the mean of the lengths' centres: the loss is
    convex in the weights, so that their mean does no worse than a choice among them by chance. Of a
    length that hardly any draw has, the HDI is taken to the mean.

    Args:
        posterior: Draws ``w`` (chain, draw, domain), and their ``length`` where it differs.
        tokenizer: Hash of the tokenizer that counts the shares.
        data_sha256: Hash of the text.
        pools: The domains of pools, for the sums below paths; see `Mixture.unpooled`.
    """
    import arviz

    samples = posterior["posterior"]["w"]
    draws = samples.values.reshape(-1, samples.shape[-1])
    interval = to_the_bounds(arviz.hdi(draws[None], hdi_prob=HDI_PROBABILITY), draws)
    weights = np.zeros(samples.shape[-1])
    length = posterior["posterior"].get("length")
    lengths = np.ones(len(draws)) if length is None else length.values.ravel()
    for one in np.unique(lengths):
        own = draws[lengths == one]
        weights += len(own) / len(draws) * central_weights(torch.from_numpy(own)).numpy()
    interval[:, 0] = np.minimum(interval[:, 0], weights)
    interval[:, 1] = np.maximum(interval[:, 1], weights)
    return Mixture(
        names=tuple(str(name) for name in samples["domain"].values),
        weights=tuple(weights.tolist()),
        tokenizer=tokenizer,
        data_sha256=data_sha256,
        **_sums(samples, weights, pools or {}),
        **_spread(posterior, interval),
    )


def _sums(
    samples: xarray.DataArray, weights: np.ndarray, pools: Mapping[str, Mapping[str, float]]
) -> dict[str, Any]:
    """Returns the HDI of the sum of the weights below each path, and of all but the largest; each
    holds the sum of `weights`."""
    import arviz

    names = [str(name) for name in samples["domain"].values]
    leaves = [(k, leaf, share) for k, name in enumerate(names)
              for leaf, share in pools.get(name, {name: 1.0}).items()]  # fmt: skip
    paths = below([leaf for _, leaf, _ in leaves])
    order = np.argsort([-weights[k] * share for k, _, share in leaves], kind="stable")
    columns = [*paths.values(), order[MOST_SHOWN:].tolist()]
    if not any(columns):
        return {}
    shares = np.zeros((len(names), len(columns)))
    for column, places in enumerate(columns):
        for k, _, share in (leaves[place] for place in places):
            shares[k, column] += share
    draws = (samples.values.reshape(-1, len(names)) @ shares).clip(max=1.0)
    ends = to_the_bounds(arviz.hdi(draws[None], hdi_prob=HDI_PROBABILITY), draws)
    sums = (weights @ shares).clip(max=1.0)
    low, high = np.minimum(ends[:, 0], sums), np.maximum(ends[:, 1], sums)
    *branches, rest = zip(low.tolist(), high.tolist(), strict=True)
    return {
        "branches": dict(zip(paths, branches, strict=True)),
        "rest": rest if columns[-1] else None,
    }


def _spread(posterior: arviz.InferenceData, interval: np.ndarray) -> dict[str, Any]:
    deviation = posterior["posterior"]["w"].std(("chain", "draw"))
    return {
        "standard_deviation": tuple(deviation.values.tolist()),
        "hdi": tuple((low, high) for low, high in interval.tolist()),
        "hdi_probability": HDI_PROBABILITY,
    }


def to_the_bounds(intervals: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Takes highest-density intervals of weights to 0 or 1 where they end with the outermost draw.

    There the density is highest at the bound, so that the interval begins with the bound; that no
    draw is exactly 0 says nothing against a weight of 0. A bound that is further than the interval
    is wide has nothing to do with it: of few draws the outermost are often among the closest.

    Args:
        intervals: Lower and upper ends ``(K, 2)``.
        draws: That they were found from ``(N, K)``, in [0, 1].

    Returns:
        Lower and upper ends ``(K, 2)``.
    """
    low, high = intervals.T
    width = high - low
    at_0, at_1 = (
        (low <= draws.min(0)) & (low <= width),
        (high >= draws.max(0)) & (1 - high <= width),
    )
    return np.stack([np.where(at_0, 0.0, low), np.where(at_1, 1.0, high)], 1)


def trajectory_of(state: SearchState) -> xarray.Dataset:
    """Returns every step's record, dimensions (step, domain); losses and g in nats per token."""
    import xarray

    records = state.records
    by_domain, by_step = BY_DOMAIN, BY_STEP
    if isinstance(state, MatchingSearch):
        by_domain = ("weights", "mean", "losses")
        by_step = ("train_loss", "validation_loss")
    columns: dict[str, tuple[Sequence[str], np.ndarray, dict[str, str]]] = {}
    for name in by_domain:
        values = [getattr(record, name) for record in records]
        array = np.stack(values) if values else np.empty((0, len(state.domains.names)))
        columns[name] = (("step", "domain"), array, {"units": UNITS.get(name, "1")})
    for name in by_step:
        array = np.array([getattr(record, name) for record in records], dtype=float)
        columns[name] = (("step",), array, {"units": UNITS[name]})
    return xarray.Dataset(
        columns,
        coords={"step": np.arange(len(records)), "domain": list(state.domains.names)},
    )


def search_guide_fit(state: SearchState, *, num_samples: int | None = None) -> GuideFit:
    """Weighs the last guide of a search by linear evidence by its model.

    The model's ``g`` and ``lam`` are the means over the averaged window. In the search ``g``
    answers to the weights, which the frozen model cannot know. `num_samples` is as for `guide_fit`.

    Raises:
        DataError: When the search has no step, or did not learn a posterior by linear evidence.
    """
    window = _window(state)
    if not isinstance(state, LinearSearch):
        raise DataError("Expected a search by linear evidence, found one by matching")
    learner = state.learner
    if not isinstance(learner, BayesianLearner):
        raise DataError(f"Expected a posterior, found the learner '{state.config.learner}'")
    g = torch.from_numpy(np.stack([record.g for record in window]).mean(0))
    kl_weight = float(np.mean([record.kl_weight for record in window]))
    arguments = (state.signals, g, kl_weight)
    with learner.isolated():
        return guide_fit(mixture_model, learner.guide, *arguments, num_samples=num_samples)


def jitter(means: np.ndarray) -> float:
    """Mean over steps of ``sum_k |w_{t+1,k} - w_{t,k}|``, in [0, 2], for weights ``(steps, K)``.

    0 for one step.
    """
    if len(means) < 2:
        return 0.0
    return float(np.abs(np.diff(means, axis=0)).sum(1).mean())


def _window(state: SearchState) -> list[StepRecord]:
    window = state.records[state.average_start :]
    if not window:
        raise DataError("Expected a search of at least one step, found none")
    return window


def agreement(mixtures: Sequence[Mixture]) -> pandas.DataFrame:
    """Compares the mixtures that searches with different seeds found.

    Args:
        mixtures: At least two, with the same names in the same order and with their uncertainty.

    Returns:
        A row a domain, largest first: `mean` weight, `sd_over_seeds` (of S seeds, with S - 1),
        `posterior_sd` (mean over seeds), `coverage`, the share of pairs of seeds in which one's
        HDI holds the other's weight, and `overconfident`: the posterior is less than half as wide
        as the spread over seeds.

    Raises:
        ValueError: When there are fewer than two, they differ in names, or one has no intervals.
    """
    import pandas

    if len(mixtures) < 2:
        raise ValueError(f"Expected at least two mixtures, actual {len(mixtures)}")
    names = mixtures[0].names
    for mixture in mixtures:
        if mixture.names != names:
            raise ValueError(f"Expected the domains {names}, actual {mixture.names}")
        if mixture.hdi is None or mixture.standard_deviation is None:
            raise ValueError("Expected mixtures with intervals, found one without")
    # Intervals are those of the free weights.
    weights = np.array([m.free_weights or m.weights for m in mixtures])  # (S, K)
    bounds = np.array([m.hdi for m in mixtures])  # (S, K, 2)
    deviation = np.array([m.standard_deviation for m in mixtures]).mean(0)
    # inside[i, j, k]: the interval of seed i holds the weight that seed j found
    low, high = bounds[:, None, :, 0], bounds[:, None, :, 1]
    inside = (low <= weights[None]) & (weights[None] <= high)
    others = ~np.eye(len(mixtures), dtype=bool)
    spread = weights.std(0, ddof=1)
    frame = pandas.DataFrame(
        {
            "mean": weights.mean(0),
            "sd_over_seeds": spread,
            "posterior_sd": deviation,
            "coverage": inside[others].mean(0),
            "overconfident": (deviation < TOO_NARROW * spread) & (spread > SMALLEST_SPREAD),
        },
        index=list(names),
    )
    return frame.sort_values("mean", ascending=False)
