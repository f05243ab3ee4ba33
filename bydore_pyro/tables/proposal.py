"""The mixture that a regression proposes: the best of very many random ones near its runs (RegMix).

No regression knows what lies far from every run, and the best of its guesses lies there. So a
proposal lies in a trust region: off its nearest run it has no larger share of tokens than 94 % of
the runs have off theirs, and of each domain at most 1.25 times the largest share of a run.

References:
    Liu et al., RegMix: Data Mixture as Regression for Language Model Pre-training,
    arXiv 2407.01492.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from bydore_pyro.errors import require
from bydore_pyro.mixture import HDI_PROBABILITY, Mixture, within_bounds
from bydore_pyro.tables.record import Direction, Distance, Gain, Predicted
from bydore_pyro.tables.regression import REACH, Regression

BEST = 128  # simulated mixtures that are averaged
# Of the mixtures with the best means those with the best bounds, on which functions are drawn.
CANDIDATES, CONTENDERS, POSTERIOR_DRAWS = 4000, 1000, 400
SURE = 0.97  # the probability of an improvement that is called one
RANKED = 50.0  # rank correlation of left-out runs, x 100, below which nothing is sure
BEYOND_ALL = (
    "The proposal's whole interval is better than the best run: no run shows that a mixture can be "
    "so good."
)
UNRANKED = (
    "The regression hardly ranks runs that were left out, or there are too few runs to leave some "
    "out: no prediction is sure."
)
#: What is predicted, and how a better one differs.
DIFFERENCES: dict[Direction, tuple[str, str]] = {
    "minimised": ("loss", "lower"),
    "maximised": ("value", "higher"),
    "both": ("mean", "lower"),
}
BEYOND = 1.25  # times the largest share of a run, which no proposal exceeds


class TrustRegion:
    """The mixtures whose nearest run ``(N, K)`` is not farther than is usual among the runs.
    Distances are total variations, the share of tokens that lies elsewhere. It is `capped` at 1.25
    times the largest share that a run has of each domain, but for RegMix's own proxies."""

    def __init__(self, runs: np.ndarray, names: Sequence[str], capped: bool = True) -> None:
        from scipy.spatial.distance import cdist

        self.runs, self.names = runs, names
        distinct = np.unique(runs, axis=0)
        among = cdist(distinct, distinct, "cityblock") / 2
        np.fill_diagonal(among, np.inf)
        self.among = among.min(1) if len(distinct) > 1 else np.zeros(1)  # to the nearest other
        self.reach = float(np.quantile(self.among, HDI_PROBABILITY))
        self.most = np.minimum(BEYOND * runs.max(0), 1.0) if capped else np.ones(runs.shape[1])

    def nearest(self, mixtures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the place of the run nearest to each mixture ``(S, K)``, and its distance."""
        metrics = require("sklearn.metrics", "baselines")
        places, gaps = metrics.pairwise_distances_argmin_min(
            mixtures, self.runs, metric="manhattan"
        )
        return places, gaps / 2

    def far(self, mixture: np.ndarray) -> bool:
        """Whether a mixture ``(K,)`` lies outside."""
        outside = self.nearest(mixture[None])[1][0] > self.reach * (1 + 1e-6) + 1e-9
        return bool(outside or self._above(mixture))

    def _above(self, mixture: np.ndarray) -> bool:
        return bool((mixture > self.most * (1 + 1e-6) + 1e-9).any())

    def moved_in(self, mixtures: np.ndarray) -> np.ndarray:
        """Caps the mixtures ``(S, K)`` at 1.25 times the runs' shares, and moves those that lie
        outside straight towards their nearest runs."""
        if (self.most < 1).any():
            mixtures = within_bounds(mixtures, np.zeros(len(self.most)), self.most)
        places, distances = self.nearest(mixtures)
        outside = distances > self.reach
        moved, step = mixtures.copy(), self.reach / np.maximum(distances, 1e-300)
        runs = self.runs[places[outside]]
        moved[outside] = runs + step[outside, None] * (mixtures[outside] - runs)
        return moved

    def described(self, mixture: np.ndarray) -> Distance:
        """Returns how far a mixture ``(K,)`` lies from the runs."""
        places, distances = self.nearest(mixture[None])
        nearest, far = float(distances[0]), self.far(mixture)
        held = not far and nearest > 0.99 * self.reach
        full = bool((mixture > 0.999 * self.most)[self.most < 1].any())
        words = (
            f"The nearest run ({self.names[places[0]]}) has {100 * nearest:.0f} % of its tokens "
            f"elsewhere; the runs among themselves have {100 * np.median(self.among):.0f} % "
            f"(median), and 94 % of them at most {100 * self.reach:.0f} %"
        )
        if far:
            words += ": nothing like this mixture was run, so its prediction was never checked."
            if self._above(mixture):
                words += f" A weight is above {BEYOND:g} times the largest of a run."
        elif held:
            words += (
                ": the proposal was kept within this distance, because nothing beyond it was run."
            )
        elif full:
            words += f": no weight above {BEYOND:g} times the largest of a run is proposed."
        else:
            words += ": mixtures like this one were run."
        return Distance(far=far, held=not far and (held or full), words=words)


@dataclass(frozen=True, kw_only=True, eq=False)
class SimulatedOptimum:
    """The mean of the best simulated mixtures ``(K,)``, the single best one ``(K,)``, and the
    optimum of each posterior draw ``(D, K)``, None without uncertainty."""

    weights: np.ndarray
    single: np.ndarray
    draws: np.ndarray | None = None


def simulated_optimum(
    model: Regression,
    prior: np.ndarray,
    region: TrustRegion | None = None,
    *,
    draws: int = 100_000,
    caps: np.ndarray | None = None,
    kl: float = 0.0,
    posterior: bool = True,
) -> SimulatedOptimum:
    """Returns the mean of those simulated mixtures whose predicted loss is least.

    The mixtures are drawn from Dirichlet(prior), as the authors do, with NumPy's generator of their
    seed; those outside of the trust region are moved to its edge. Where the regression knows how
    sure it is, 400 functions are drawn from the posterior, each with an optimum of its own among
    the 1,000 mixtures with the least mean - 2 standard deviations.

    Args:
        model: What predicts losses.
        prior: Shares of tokens ``(K,)``, not negative. A share of 0 is a weight of 0.
        region: Where mixtures may lie; everywhere, as with the authors, if not given.
        draws: Simulated mixtures.
        caps: Largest weights ``(K,)``, with a sum >= 1, which count more than the region; none if
            not given.
        kl: What a nat of relative entropy to the prior costs, in losses; it is added to every
            prediction before the best are chosen.
        posterior: Whether functions are drawn from the posterior.
    """
    prior = prior / prior.sum()
    mixtures = np.zeros((draws, len(prior)))
    # The stream of the authors' np.random.seed(42); the newer generators give other mixtures.
    legacy = np.random.RandomState(42)
    mixtures[:, prior > 0] = legacy.dirichlet(prior[prior > 0], size=draws)
    mixtures = _allowed(mixtures, region, caps)
    cost = kl * relative_entropy(mixtures, prior) if kl else np.zeros(len(mixtures))  # (S,)
    losses = model.predict(mixtures) + cost
    order = np.argsort(losses, kind="stable")
    single, weights = mixtures[order[0]], mixtures[order[:BEST]].mean(0)
    optima = None
    if model.tells_doubt and posterior:
        some = order[:CANDIDATES]
        deviation = model.deviation(mixtures[some], of_run=False)
        bound = losses[some] - (0 if deviation is None else 2 * deviation)
        chosen = some[np.argsort(bound, kind="stable")[:CONTENDERS]]
        drawn = model.sample(mixtures[chosen], POSTERIOR_DRAWS, 42) + cost[chosen]
        own = np.argsort(drawn, axis=1, kind="stable")[:, :BEST]
        optima = mixtures[chosen][own].mean(1)
    weights = _allowed(weights[None], region, caps)[0]
    return SimulatedOptimum(weights=weights, single=single, draws=optima)


def _allowed(
    mixtures: np.ndarray, region: TrustRegion | None, caps: np.ndarray | None
) -> np.ndarray:
    """Returns mixtures ``(S, K)`` brought into the caps and the region, some of them left out."""
    if caps is not None:
        mixtures = within_bounds(mixtures, np.zeros(len(caps)), caps)
    moved = mixtures if region is None else region.moved_in(mixtures)
    if caps is None:
        return moved
    kept = moved[(moved <= caps + 1e-9).all(1)]
    return kept if len(kept) else mixtures


def relative_entropy(weights: np.ndarray, natural: np.ndarray) -> np.ndarray:
    """Returns ``KL(w || natural) = sum_k w_k log(w_k / natural_k)`` of mixtures ``(S, K)``, nats.

    It is infinite where a mixture has a domain that the natural one lacks.
    """
    from scipy.special import rel_entr

    return rel_entr(weights, natural).sum(1)


def proposed(
    model: Regression,
    mixture: Mixture,
    region: TrustRegion,
    *,
    draws: int = 100_000,
    caps: np.ndarray | None = None,
    kl: float = 0.0,
    direction: Direction = "minimised",
) -> tuple[Mixture, Gain, Distance]:
    """Returns the mixture to use, its gain over the prior, and its distance from the runs.

    Candidates are the mean of the best simulated mixtures, which is RegMix's optimum, and the
    prior; where the regression knows how sure it is, the one best simulated mixture too. That one
    is taken whose own predicted loss is least, the cost of its distance from the prior included.
    The mean of the posterior's optima is none of them: where these lie near different vertices,
    their mean is a mixture that nobody found good.

    Args:
        model: What predicts losses.
        mixture: The names, the prior as weights, and whose tokens the weights are shares of.
        region: Of the runs that the regression was fitted to.
        draws: As for `simulated_optimum`, and so are the others.
        caps: A prior above them is no candidate.
        kl: The candidates' predicted losses hold it, too.
        direction: Of the metrics; the model predicts them negated where they are "maximised", the
            gain's `predicted_loss` holds them as they are.
    """
    prior = np.array(mixture.weights)
    optimum = simulated_optimum(model, prior, region, draws=draws, caps=caps, kl=kl)
    candidates = [optimum.weights]
    if model.tells_doubt:
        candidates.append(optimum.single)
    if caps is None or (prior <= caps).all():
        candidates.append(prior)
    losses = model.predict(np.stack(candidates))
    if kl:
        losses = losses + kl * relative_entropy(np.stack(candidates), prior)
    shares = candidates[int(losses.argmin())]
    shares = shares / shares.sum()
    if caps is not None:
        shares = within_bounds(shares[None], np.zeros(len(caps)), caps)[0]
    found = dataclasses.replace(mixture, weights=tuple(shares.tolist()))
    if caps is not None:
        free = simulated_optimum(model, prior, region, draws=draws, kl=kl, posterior=False).weights
        found = dataclasses.replace(found, free_weights=tuple((free / free.sum()).tolist()))
    if optimum.draws is not None:
        found = with_intervals(found, prior, optimum.draws)
    gain, distance = gain_over(model, shares, prior, region), region.described(shares)
    predicted = _predicted(model, found, prior, direction)
    gain = dataclasses.replace(gain, prior=mixture.as_dict(), predicted_loss=predicted)
    notes = (*found.notes, *_notes(found, gain, distance, len(region.runs), direction))
    if beyond(model, shares):
        notes = (*notes, BEYOND_ALL)
    if model.rank is not None and model.rank < RANKED:
        notes = (*notes, UNRANKED)
    return dataclasses.replace(found, notes=notes), gain, distance


def with_intervals(mixture: Mixture, prior: np.ndarray, draws: np.ndarray) -> Mixture:
    """Adds to a mixture the standard deviations and HDIs of draws of the optimum ``(D, K)``.

    An interval that does not hold its weight is stretched to it and to the prior's ``(K,)``, so
    that it decides nothing.
    """
    import arviz

    low, high = arviz.hdi(draws[None], hdi_prob=HDI_PROBABILITY).T  # (K,)
    ends = np.array([mixture.weights, prior])  # (2, K)
    inside = (low <= ends[0]) & (ends[0] <= high)
    low = np.where(inside, low, np.minimum(low, ends.min(0)))
    high = np.where(inside, high, np.maximum(high, ends.max(0)))
    return dataclasses.replace(
        mixture,
        standard_deviation=tuple(draws.std(0).tolist()),
        hdi=tuple(zip(low.tolist(), high.tolist(), strict=True)),
        hdi_probability=HDI_PROBABILITY,
    )


def gain_over(
    model: Regression, weights: np.ndarray, other: np.ndarray, region: TrustRegion
) -> Gain:
    """Returns how much lower a mixture's predicted loss is than another's, and how sure that is.

    Nobody knows the probability far from every run, or without cross-validation. Nothing is sure
    where left-out runs are ranked with less than 50, or where a whole interval lies below the best
    run.
    """
    mean, deviation = model.gap(weights, other)
    if same := np.array_equal(weights, other):
        mean = 0.0  # not what rounding leaves of it
    if deviation is None:
        return Gain(mean=mean)
    if region.far(weights) or region.far(other):
        return Gain(mean=mean, sure=False)
    unsure = deviation > 0 and not same
    probability = NormalDist().cdf(mean / deviation) if unsure else float(mean > 0)
    ranked = model.rank is None or model.rank >= RANKED
    return Gain(
        mean=mean,
        probability=probability,
        sure=probability >= SURE and ranked and not beyond(model, weights),
    )


def beyond(model: Regression, weights: np.ndarray) -> bool:
    """Whether the whole 94 % interval of a mixture ``(K,)`` lies below the best run's loss."""
    deviation = model.deviation(weights[None])
    half = 0.0 if deviation is None else REACH * float(deviation[0])
    return float(model.predict(weights[None])[0]) + half < model.least


def in_own_direction(values: np.ndarray, direction: Direction) -> np.ndarray:
    """Returns predictions, of which less is better, as values of the metric itself."""
    return -values if direction == "maximised" else values


def _predicted(
    model: Regression, mixture: Mixture, prior: np.ndarray, direction: Direction
) -> dict[str, Predicted]:
    stacked = np.stack([mixture.weights, prior, np.full(len(prior), 1 / len(prior))])
    means = in_own_direction(model.predict(stacked), direction).tolist()
    deviations = model.deviation(stacked)
    spreads = [None] * 3 if deviations is None else deviations.tolist()
    rows = zip(("weights", "prior", "uniform"), means, spreads, strict=True)
    return {name: Predicted(mean=mean, standard_deviation=sd) for name, mean, sd in rows}


def _unsure(gain: Gain, direction: Direction) -> str:
    """Returns in words that an improvement is not sure, and why."""
    what, better = DIFFERENCES[direction]
    if gain.probability is not None and gain.probability >= SURE:
        return (
            f"The regression predicts a {what} that is {gain.mean:.4g} {better} than the prior's, "
            "but the runs do not confirm it."
        )
    probability = "unknown" if gain.probability is None else f"{gain.probability:.0%}"
    return (
        f"No sure improvement on the prior: the predicted {what} is {gain.mean:.4g} {better}; the "
        f"probability that it is better is {probability}."
    )


def _notes(
    mixture: Mixture, gain: Gain, distance: Distance, runs: int, direction: Direction
) -> list[str]:
    notes, domains = [], len(mixture.names)
    if runs < domains:
        notes.append(
            f"Fitted to {runs} runs of {domains} domains, fewer runs than domains: what a domain "
            "is worth is mostly the regression's assumption."
        )
    if gain.mean is not None and gain.mean <= 0:
        notes.append("No mixture is predicted to be better than the prior: this is no improvement.")
    elif gain.sure is False:
        notes.append(_unsure(gain, direction))
    if distance.far or distance.held:
        notes.append(distance.words)
    return notes
