"""RegMix: small proxies on random mixtures, a regression of their losses, a simulated optimum.

The proxies are trained here, or a table of finished runs stands in their place. The authors regress
with a linear model and with LightGBM. The Gaussian process is ours: it knows how sure it is.

References:
    Liu et al., RegMix: Data Mixture as Regression for Language Model Pre-training,
    arXiv 2407.01492.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bydore_pyro.baselines.fit import Details, Fit, Regressed, Scored
from bydore_pyro.baselines.problem import Problem
from bydore_pyro.baselines.proposal import BEST, TrustRegion, gain_over, proposed
from bydore_pyro.baselines.proxy_runs import train_mixtures
from bydore_pyro.baselines.regression import (
    AnyRegression,
    Choice,
    Kind,
    best_of,
    fit_regression,
    interval_of_run,
)
from bydore_pyro.baselines.tables import RunsTable, mean_of, read_mixtures
from bydore_pyro.mixture import Mixture, mixture_from
from bydore_pyro.utils import DataError, option, require_fields, tell

__all__ = ["RegMixConfig", "fit_regmix", "fit_table_of_runs", "prior_of", "sample_mixtures"]

# How the authors draw the mixtures of their proxies.
TEMPERATURE = 0.5  # exponent of the prior: below 1 small domains are drawn more often
STRENGTHS = np.geomspace(0.1, 5.0, 15)  # total concentrations of the Dirichlet distributions
MOST = 15.0  # no weight is above so many times its prior
LEAST = 2e-4  # smaller weights are set to 0


@dataclass(frozen=True, kw_only=True)
class RegMixConfig:
    """RegMix's settings. Its authors train 512 proxies and regress with LightGBM."""

    regmix_proxies: int = option(
        24, "Number of proxies that RegMix trains on random mixtures.", least=2
    )
    regmix_regression: Choice = option(
        "auto",
        "Regression from weights to losses. auto: with --runs the one that best ranks left-out "
        "runs, otherwise the Gaussian process. LightGBM needs 40 runs.",
    )
    regmix_kl: float = option(
        0.0,
        "Penalty in units of the loss for each nat of KL divergence from the prior (the natural"
        " mixture). olmix uses 0.05.",
        least=0,
    )
    regmix_draws: int = option(
        100_000, f"Simulated mixtures; the best {BEST} are averaged.", least=BEST
    )

    def __post_init__(self) -> None:
        require_fields(self)


def sample_mixtures(prior: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Draws the mixtures that the proxies are trained on.

        w ~ Dirichlet(c p),   p_k = sqrt(prior_k) / sum_j sqrt(prior_j),

    with a total concentration c chosen anew for each draw. Weights under `LEAST` become 0, the
    others are normalised, and draws with a weight above `MOST` times its prior are rejected.

    Args:
        prior: Shares of tokens ``(K,)``, not negative; 0 is a weight of 0 in every mixture.
        count: Number of mixtures ``N``, >= 1.
        seed: Of the draws.

    Returns:
        Weights ``(N, K)``, each row on the simplex.

    Raises:
        DataError: When fewer than one draw in 1,000 keeps within the limit.
    """
    prior = prior / prior.sum()
    rng, has = np.random.default_rng(seed), prior > 0
    tempered = prior[has] ** TEMPERATURE
    tempered /= tempered.sum()
    block = max(count, 1000)
    kept, tried = np.empty((0, len(prior))), 0
    while len(kept) < count:
        if tried > 10_000 + 1000 * count:
            raise DataError(
                f"Expected mixtures with no weight above {MOST:g} times its prior, found "
                f"{len(kept)} among {tried} draws"
            )
        chosen = rng.choice(len(STRENGTHS), size=block)
        drawn = np.zeros((block, len(prior)))
        for number, strength in enumerate(STRENGTHS):
            rows = np.flatnonzero(chosen == number)
            drawn[np.ix_(rows, has)] = rng.dirichlet(strength * tempered, size=len(rows))
        drawn[drawn < LEAST] = 0
        drawn /= drawn.sum(1, keepdims=True)
        kept = np.concatenate([kept, drawn[(drawn <= MOST * prior).all(1)]])
        tried += block
    return kept[:count]


def fit_regmix(problem: Problem, config: RegMixConfig) -> Fit:
    """Trains proxies on random mixtures, regresses their target losses, simulates the optimum.

    The prior is the text's own token shares.

    Raises:
        DataError: When the budget does not reach, or the proxies are too few for the regression.
        NonFiniteError: When a loss is NaN or infinite.
    """
    steps = problem.steps_for("regmix", config.regmix_proxies)
    drawn = sample_mixtures(problem.token_shares, config.regmix_proxies, problem.seed)
    runs = train_mixtures(problem, drawn, steps, "regmix: proxies")
    losses = np.array([run.target_loss(problem.target) for run in runs])
    choice = config.regmix_regression
    kind: Kind = "gaussian_process" if choice == "auto" else choice
    mixture, gain, distance = proposed(
        fit_regression(kind, drawn, losses),
        problem.mixture(problem.token_shares),
        TrustRegion(drawn, [f"proxy {number + 1}" for number in range(len(drawn))]),
        draws=config.regmix_draws,
        kl=config.regmix_kl,
    )
    details = Details(steps=steps, runs=len(drawn), gain_over_prior=gain, distance=distance)
    return Fit(mixture=mixture, details=details)


def prior_of(table: RunsTable, source: str | None = None) -> tuple[np.ndarray, str]:
    """Returns the prior ``(K,)`` of a table's domains, and where it comes from.

    The source is a mixture file or `published:NAME`. If not given, it is the Pile's token shares
    where the domains are the Pile's, else the mean of the runs' mixtures.

    Raises:
        DataError: When a source is given whose domains are not the table's.
    """
    shares = mixture_from(source or "published:token_share").as_dict()
    other = sorted(set(shares) ^ set(table.domains))
    if other and source is not None:
        where = source if other[0] in shares else "the runs"
        raise DataError(
            f"Expected the same domains in {source} and in the runs, found '{other[0]}' only in "
            f"{where}"
        )
    if other:
        mean = table.weights.mean(0)
        return mean / mean.sum(), "the mean of the runs' mixtures, which are not of the Pile"
    return np.array([shares[n] for n in table.domains]), source or "the Pile's token shares"


def fit_table_of_runs(
    table: RunsTable,
    metrics: Mapping[str, float],
    prior: np.ndarray,
    config: RegMixConfig,
    *,
    caps: np.ndarray | None = None,
    predict: Path | None = None,
    each: bool = False,
) -> Fit:
    """Regresses a mean of metrics of finished runs, and simulates the optimum; nothing is trained.

    Args:
        table: The runs.
        metrics: Shares of the metrics whose mean is to fall.
        prior: The natural mixture ``(K,)``.
        config: The regression.
        caps: Largest weights ``(K,)``.
        predict: File of mixtures to score.
        each: Whether every metric is regressed on its own, too.

    Raises:
        DataError: When the file cannot be read, the runs are fewer than the domains, or their
            losses are all equal.
    """
    from tqdm import tqdm

    if len(table.runs) < len(table.domains):
        raise DataError(
            f"Expected at least as many runs as domains ({len(table.domains)}), found "
            f"{len(table.runs)}"
        )
    # What can be wrong with the file is found before anything is fitted.
    given = None if predict is None else read_mixtures(predict, table.domains)
    prior, region = prior / prior.sum(), TrustRegion(table.weights, table.runs)
    choice, losses = config.regmix_regression, mean_of(table, metrics)
    with tqdm(desc="fit and optima", unit="step", mininterval=0.5) as bar:
        model, compared = best_of(choice, table.weights, losses, bar.update)
        mixture, gain, distance = proposed(
            model,
            Mixture(names=table.domains, weights=tuple(prior.tolist())),
            region,
            draws=config.regmix_draws,
            caps=caps,
            kl=config.regmix_kl,
        )
        bar.update()
    details = Details(
        runs=len(table.runs),
        regression=next(iter(compared), ""),
        regressions=compared,
        each_metric=_each_metric(table, choice, mixture, prior, region) if each else {},
        gain_over_prior=gain,
        distance=distance,
        predictions=() if given is None else _scored(model, *given, prior, region),
    )
    return Fit(mixture=mixture, details=details)


def _each_metric(
    table: RunsTable, choice: Choice, mixture: Mixture, prior: np.ndarray, region: TrustRegion
) -> dict[str, Regressed]:
    """Fits every metric on its own, and predicts it for the proposal and the prior; a metric that
    all runs share is left out."""
    from tqdm import tqdm

    proposal, found = np.array(mixture.weights), {}
    with tqdm(table.targets, desc="each metric", unit="metric", mininterval=0.5) as bar:
        for name in bar:
            bar.set_postfix_str(name[:20])
            try:
                model, compared = best_of(choice, table.weights, table.losses_of(name))
            except DataError as error:
                tell(f"{name}: {error}")
                continue
            own, others = model.predict(np.stack([proposal, prior])).tolist()
            found[name] = dataclasses.replace(
                next(iter(compared.values()), Regressed()),
                weights=own,
                prior=others,
                better_than_prior=gain_over(model, proposal, prior, region).probability,
            )
    return found


def _scored(
    model: AnyRegression,
    names: tuple[str, ...],
    weights: np.ndarray,
    prior: np.ndarray,
    region: TrustRegion,
) -> tuple[Scored, ...]:
    """Returns the mixtures ``(S, K)``, the least predicted loss first."""
    ends, distances = interval_of_run(model, weights).tolist(), region.nearest(weights)[1].tolist()
    predicted = model.predict(weights)
    return tuple(
        Scored(
            mixture=names[place],
            rank=rank + 1,
            predicted=float(predicted[place]),
            low=ends[place][0] if np.isfinite(ends[place][0]) else None,
            high=ends[place][1] if np.isfinite(ends[place][1]) else None,
            better_than_prior=gain_over(model, weights[place], prior, region).probability,
            nearest_run=distances[place],
        )
        for rank, place in enumerate(np.argsort(predicted, kind="stable").tolist())
    )
