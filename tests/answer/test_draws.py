"""Posterior, mixture and trajectory of a search, and their agreement."""

from __future__ import annotations

import dataclasses

import arviz as az
import numpy as np
import pytest
import torch
from bydore_pyro.analysis.diagnostics import (
    agreement,
    jitter,
    mixture_of,
    mixture_of_draws,
    posterior_of,
    search_guide_fit,
    to_the_bounds,
    trajectory_of,
)
from bydore_pyro.search.matching import MatchingSearch
from bydore_pyro.search.search import run_search
from bydore_pyro.search.state import SearchState, StepRecord
from searches import LINEAR, MATCHING, state_of

from bydore_pyro.core.distribution import GammaDirichlet
from bydore_pyro.core.point import central_weights
from bydore_pyro.data.store import TokenStore
from bydore_pyro.mixture.mixture import HDI_PROBABILITY, MOST_SHOWN, Mixture
from bydore_pyro.utils.errors import DataError

A = np.array([[2.0, 1.0, 0.5, 4.0], [1.0, 1.0, 5.0, 1.0]], dtype=np.float32)
B = np.array([[1.0, 2.0, 1.0, 0.5], [1.0, 1.0, 0.2, 1.0]], dtype=np.float32)


@pytest.fixture
def state(corpus: TokenStore) -> SearchState:
    """A search whose averaged window holds the two posteriors above."""
    state = state_of(corpus)
    blank = np.zeros(4, dtype=np.float32)
    for a, b in [(A[0], B[0]), (A[1], B[1]), (A[0], B[0]), (A[1], B[1])]:
        q = GammaDirichlet(torch.from_numpy(a), torch.from_numpy(b))
        arrays = dict.fromkeys(("weights", "losses", "g", "standard_deviation"), blank)
        scalars = dict.fromkeys(("train_loss", "validation_loss", "kl_weight", "loss"), 1.0)
        state.records.append(
            StepRecord(mean=q.mean.numpy(), concentration=a, rate=b, **arrays, **scalars)
        )
    return state


def test_draws_come_from_the_average_of_the_posteriors(state: SearchState) -> None:
    posterior = posterior_of(state, chains=2, draws=40_000)["posterior"]
    assert posterior["w"].dims == ("chain", "draw", "domain")
    assert posterior["domain"].values.tolist() == ["birds", "digits", "greek", "upper"]
    qs = [
        GammaDirichlet(torch.from_numpy(a).double(), torch.from_numpy(b).double())
        for a, b in zip(A, B, strict=True)
    ]
    mean = np.mean([q.mean.numpy() for q in qs], axis=0)
    second = np.mean([(q.variance + q.mean.square()).numpy() for q in qs], axis=0)
    draws = posterior["w"].values.reshape(-1, 4)
    error = draws.std(0) / np.sqrt(len(draws))
    assert (np.abs(draws.mean(0) - mean) < 5 * error).all()
    np.testing.assert_allclose(draws.var(0), second - mean**2, atol=0.003)
    beta = posterior["beta"].values.reshape(-1, 4).mean(0)
    np.testing.assert_allclose(beta, np.mean(A / B, axis=0), rtol=0.05)


def test_mixture_states_mean_spread_and_interval(state: SearchState) -> None:
    posterior = posterior_of(state)
    mixture = mixture_of(state, posterior, tokenizer="t", data_sha256="d")
    mean = np.mean([r.mean for r in state.records[2:]], axis=0)
    np.testing.assert_allclose(mixture.weights, mean, atol=1e-6)
    draws = posterior["posterior"]["w"].values.reshape(-1, 4)
    np.testing.assert_allclose(mixture.standard_deviation, draws.std(0), rtol=1e-6)
    assert mixture.hdi is not None
    for column, (low, high) in zip(draws.T, mixture.hdi, strict=True):
        inside = ((column >= low) & (column <= high)).mean()
        assert inside == pytest.approx(0.94, abs=0.005)
    assert (mixture.tokenizer, mixture.data_sha256) == ("t", "d")


def test_a_search_without_steps_has_no_posterior(corpus: TokenStore) -> None:
    with pytest.raises(DataError, match="at least one step"):
        posterior_of(state_of(corpus))
    assert dict(trajectory_of(state_of(corpus)).sizes) == {"step": 0, "domain": 4}


def test_trajectory_holds_every_field_of_every_step(corpus: TokenStore) -> None:
    state = state_of(corpus)
    list(run_search(state))
    trajectory = trajectory_of(state)
    assert set(trajectory.data_vars) == {f.name for f in dataclasses.fields(StepRecord)}
    for step, record in enumerate(state.records):
        for field in dataclasses.fields(record):
            np.testing.assert_array_equal(
                trajectory[field.name].values[step], getattr(record, field.name)
            )
    assert trajectory["g"].attrs["units"] == "nats per token"


def test_an_interval_of_a_density_that_falls_from_0_begins_with_0() -> None:
    rng = np.random.default_rng(0)
    inside = 0.5 + 0.1 * np.clip(rng.normal(size=4000), -4, 4)
    draws = np.stack([rng.beta(1, 20, 4000), inside, rng.beta(20, 1, 4000)], 1)
    found = az.hdi(draws[None], hdi_prob=0.94)
    bounded = to_the_bounds(found, draws)
    assert found[0, 0] > 0
    assert bounded[0, 0] == 0
    assert bounded[2, 1] == 1
    np.testing.assert_array_equal(bounded[1], found[1])
    np.testing.assert_array_equal([bounded[0, 1], bounded[2, 0]], [found[0, 1], found[2, 0]])


def test_a_bound_far_from_the_draws_is_none_of_the_interval() -> None:
    """Of few draws of a small weight the shortest interval often ends with the largest."""
    draws = np.array([0.001, 0.006, 0.0061, 0.0062, 0.0063])[:, None]
    interval = np.array([[0.006, 0.0063]])
    np.testing.assert_array_equal(to_the_bounds(interval, draws), interval)
    np.testing.assert_array_equal(to_the_bounds(1 - interval[:, ::-1], 1 - draws),
                                  1 - interval[:, ::-1])  # fmt: skip


def test_jitter() -> None:
    assert jitter(np.array([[0.5, 0.5], [0.6, 0.4], [0.6, 0.4]])) == pytest.approx(0.1)
    assert jitter(np.array([[0.5, 0.5]])) == 0.0


@pytest.fixture
def matched(corpus: TokenStore) -> MatchingSearch:
    """A finished search by gradient matching."""
    state = state_of(corpus, MATCHING, validation={"birds": 0.6, "greek": 0.4})
    list(run_search(state))
    assert isinstance(state, MatchingSearch)
    return state


def test_the_posterior_of_matching_tells_whether_it_is_to_be_believed(
    matched: MatchingSearch,
) -> None:
    """Draws of weights and scale, the same for the same seed; what the correction found."""
    posterior = posterior_of(matched, chains=2, draws=300)["posterior"]
    assert set(posterior.data_vars) == {"w", "s"}
    assert posterior["s"].dims == ("chain", "draw")
    np.testing.assert_allclose(posterior["w"].sum("domain"), 1, atol=1e-6)
    assert (posterior["s"] > 0).all()
    assert set(posterior.attrs) >= {"khat", "effective_draws", "weighed_draws", "corrected"}
    assert 1 <= posterior.attrs["effective_draws"] <= posterior.attrs["weighed_draws"]
    assert posterior.attrs["corrected"] == 1
    again = posterior_of(matched, chains=2, draws=300)["posterior"]
    other = posterior_of(matched, chains=2, draws=300, seed=1)["posterior"]
    assert again.equals(posterior)
    assert not other.equals(posterior)


def test_the_mixture_of_matching_is_the_posteriors_own(matched: MatchingSearch) -> None:
    """Its intervals hold the weights, and are the draws' but for the bounds."""
    posterior = posterior_of(matched, chains=2, draws=300)
    mixture = mixture_of(matched, posterior, tokenizer="t", data_sha256="d")
    draws = posterior["posterior"]["w"].values.reshape(600, -1)
    central = central_weights(torch.from_numpy(draws))
    np.testing.assert_allclose(mixture.weights, central, atol=1e-12)
    assert mixture.hdi is not None
    own = to_the_bounds(az.hdi(draws[None], hdi_prob=HDI_PROBABILITY), draws)
    np.testing.assert_array_equal(mixture.hdi, own)
    for weight, (low, high) in zip(mixture.weights, mixture.hdi, strict=True):
        assert low <= weight <= high
    assert mixture_of_draws(posterior, tokenizer="t", data_sha256="d") == mixture


def test_branches_and_the_rest_have_the_intervals_of_their_sums() -> None:
    """Each by its own from the draws; the domains of a pool have shares of its weight."""
    names = [f"{a}/{b}" for a in "xyz" for b in range(9)] + ["x/*"]
    pools = {"x/*": {"x/few": 0.25, "x/small": 0.75}}
    alpha = np.random.default_rng(1).gamma(0.5, size=len(names))
    w = np.random.default_rng(2).dirichlet(alpha + 0.2, size=(2, 400))
    posterior = az.from_dict({"w": w}, dims={"w": ["domain"]}, coords={"domain": names})
    mixture = mixture_of_draws(posterior, tokenizer="t", data_sha256="d", pools=pools)
    mixture = mixture.unpooled(pools)
    draws = {name: w[..., k].ravel() for k, name in enumerate(names)}
    draws |= {name: share * draws["x/*"] for name, share in pools["x/*"].items()}
    weights = mixture.as_dict()
    smallest = sorted(weights, key=lambda name: weights[name])[: len(weights) - MOST_SHOWN]
    groups = {path: [n for n in weights if n.startswith(f"{path}/")] for path in "xyz"}
    found = {**mixture.branches, "rest": mixture.rest}
    assert found.keys() == {*groups, "rest"}
    for name, members in {**groups, "rest": smallest}.items():
        own = sum(draws[one] for one in members)
        ends = to_the_bounds(az.hdi(own[None, :, None], hdi_prob=HDI_PROBABILITY), own[:, None])[0]
        total = sum(weights[one] for one in members)
        assert found[name] == pytest.approx((min(ends[0], total), max(ends[1], total)))
    again = az.from_dict({"w": w[..., :3] / w[..., :3].sum(-1, keepdims=True)},
                         dims={"w": ["domain"]}, coords={"domain": list("abc")})  # fmt: skip
    few = mixture_of_draws(again, tokenizer="t", data_sha256="d")
    assert (few.branches, few.rest) == ({}, None)


def test_of_steps_of_two_lengths_the_mean_of_their_centres_is_the_mixture() -> None:
    """Draws that are certain within a length: a rare one still counts, and its weight is held."""
    w = np.array([[0.8, 0.2]] * 3 + [[1.0, 0.0]] * 97)[None]
    posterior = az.from_dict({"w": w}, dims={"w": ["domain"]}, coords={"domain": ["a", "b"]})
    posterior["posterior"]["length"] = (("chain", "draw"), np.where(w[..., 0] < 1, 1.0, 0.5))
    mixture = mixture_of_draws(posterior, tokenizer="t", data_sha256="d")
    assert mixture.weights == pytest.approx((0.994, 0.006))
    assert mixture.hdi == (pytest.approx((0.994, 1.0)), pytest.approx((0.0, 0.006)))
    del posterior["posterior"]["length"]
    chosen = mixture_of_draws(posterior, tokenizer="t", data_sha256="d")
    assert chosen.weights == pytest.approx((1.0, 0.0))


def test_what_has_not_been_measured_has_no_posterior(corpus: TokenStore) -> None:
    state = state_of(corpus, MATCHING)
    state.step()
    with pytest.raises(DataError, match="Expected a search that has measured its last round"):
        posterior_of(state)
    with pytest.raises(DataError, match="by linear evidence, found one by matching"):
        search_guide_fit(state)
    trajectory = trajectory_of(state)
    assert "g" not in trajectory
    assert "kl_weight" not in trajectory
    assert np.isnan(trajectory["validation_loss"].values).all()


def test_fit_of_a_search(corpus: TokenStore) -> None:
    state = state_of(corpus, LINEAR)
    for _ in run_search(state):
        pass
    fit = search_guide_fit(state, num_samples=200)
    assert 1 <= fit.effective_draws <= 200
    assert np.isfinite(fit.khat)
    assert search_guide_fit(state, num_samples=200) == fit


def of_seed(first: float, width: float, **options: tuple) -> Mixture:
    weights = (first, 1 - first)
    return Mixture(
        names=("a", "b"),
        weights=weights,
        standard_deviation=(width / 4, width / 4),
        hdi=tuple((w - width / 2, w + width / 2) for w in weights),
        **options,
    )


def test_two_seeds_by_hand() -> None:
    frame = agreement([of_seed(0.6, 0.1), of_seed(0.7, 0.3)])
    assert list(frame.index) == ["a", "b"]
    row = frame.loc["a"]
    assert row["mean"] == pytest.approx(0.65)
    assert row["sd_over_seeds"] == pytest.approx(0.1 / 2**0.5)
    assert row["posterior_sd"] == pytest.approx(0.05)
    assert row["coverage"] == 0.5, "the wide interval holds 0.6, the narrow one not 0.7"
    assert not row["overconfident"]


def test_narrow_posteriors_are_called_overconfident() -> None:
    rng = np.random.default_rng(0)
    weights = 0.5 + 0.1 * rng.standard_normal(6)
    narrow = agreement([of_seed(w, 0.02) for w in weights])
    assert narrow["overconfident"].all()
    assert narrow["coverage"].max() < 0.5
    honest = agreement([of_seed(w, 0.4) for w in weights])
    assert not honest["overconfident"].any()
    assert honest["coverage"].min() > 0.8
    equal = agreement([of_seed(0.5, 1e-6) for _ in weights])
    assert not equal["overconfident"].any(), "where seeds agree, nothing is too narrow"


def test_capped_mixtures_are_compared_before_the_cap() -> None:
    capped = [
        of_seed(0.5, 0.1, free_weights=(0.6, 0.4)),
        of_seed(0.5, 0.1, free_weights=(0.8, 0.2)),
    ]
    assert agreement(capped).loc["a", "mean"] == pytest.approx(0.7)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="at least two"):
        agreement([of_seed(0.5, 0.1)])
    other = Mixture(names=("a", "c"), weights=(0.5, 0.5))
    with pytest.raises(ValueError, match="Expected the domains"):
        agreement([of_seed(0.5, 0.1), other])
    with pytest.raises(ValueError, match="without"):
        agreement([of_seed(0.5, 0.1), Mixture(names=("a", "b"), weights=(0.5, 0.5))])
