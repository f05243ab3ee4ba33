"""R, the repetition constant of a proxy: how soon text that is read again teaches nothing more.

A fresh proxy is trained on U tokens of a domain, read e times, and another on as many tokens that
are all different. Both losses on held-out text of the domain lie on one curve over effective tokens

    loss = f(D),      D = U                                    read once
                      D = U (1 + R (1 - exp(-(e - 1) / R)))    read e times

with a curve f of each domain and one R for all. A power law would be too stiff a curve: trainings
as short as these first learn how often each token is, and level off before they learn more. So f is
a cubic spline in ``log D`` through the sizes that were read once. It is linear in its values there,
and for each R of a grid they follow from linear least squares: no starting point, no local minimum.

References:
    Muennighoff et al. (2023), Scaling Data-Constrained Language Models, arXiv 2305.16264.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from bydore_pyro.baselines.problem import Problem
from bydore_pyro.baselines.proxy_runs import PlannedRun, train_runs
from bydore_pyro.mixture import HDI_PROBABILITY, effective_shares
from bydore_pyro.utils import DataError, option, require_fields

if TYPE_CHECKING:
    import pandas

__all__ = ["ReadingsConfig", "RepetitionLaw", "fit_repetition", "measure_readings", "up_to"]

COLUMNS = ("domain", "text", "epochs", "loss")
CONSTANTS = np.geomspace(0.05, 200, 420)  # R, in epochs; neighbours differ by 2 %
FEWEST_HELD_OUT = 16  # sequences


@dataclass(frozen=True, kw_only=True)
class ReadingsConfig:
    """Which short trainings measure the repetition constant.

    Raises:
        ValueError: When an option is out of its range, or the readings are fewer than four, do not
            increase from 1, or end above 1000.
    """

    readings: list[int] = option(
        [1, 2, 4, 8, 16],
        "Numbers of epochs. The run with the most epochs trains for --steps; the others are "
        "shorter. Each run of more than one epoch is paired with a run of equal length on text "
        "without repetition.",
    )
    reading_domains: int = option(
        3,
        "Number of domains if --domains is not given; those with the most text are used.",
        least=1,
        most=100,
    )
    reading_seeds: int = option(
        2, "Number of fresh models per training, with seeds from --seed on.", least=1, most=100
    )

    def __post_init__(self) -> None:
        require_fields(self)
        given = self.readings
        if given[:1] != [1] or len(given) < 4 or sorted(set(given)) != given or given[-1] > 1000:
            raise ValueError(
                "Expected at least four readings that increase from 1 to at most 1000, actual "
                f"{' '.join(map(str, given)) or 'none'}"
            )


@dataclass(frozen=True, kw_only=True)
class RepetitionLaw:
    """R and what else the losses tell.

    Args:
        constant: R, in epochs, the most likely one.
        interval: Of R, by its profile likelihood, with `HDI_PROBABILITY`; None where the losses do
            not bound it.
        curves: By domain, the losses of text read once, nats per token, by its tokens.
        of_domains: R as each domain alone tells it.
        best_epochs: By domain, the number of readings with the least loss. Below the most that were
            tried, more made the model worse, which no R says.
        misfit: Root mean square difference of losses and law, nats per token.
        noise: The same among models that differ in the seed alone, nats per token; None where
            there is one a training.
    """

    constant: float
    interval: tuple[float | None, float | None]
    curves: dict[str, dict[float, float]]
    of_domains: dict[str, float]
    best_epochs: dict[str, float]
    misfit: float
    noise: float | None

    def loss(self, domain: str, text: np.ndarray, epochs: np.ndarray) -> np.ndarray:
        """Returns the law's losses ``(n,)``, nats per token, for tokens and epochs ``(n,)``."""
        sizes, values = np.array([*self.curves[domain].items()]).T
        (tokens,) = text * _effective(epochs, np.array([self.constant]))
        return _spline(sizes, tokens) @ values


def measure_readings(
    problem: Problem, config: ReadingsConfig, domains: Sequence[str] | None = None
) -> pandas.DataFrame:
    """Trains proxies on text read again and on as much that is all different.

    Args:
        problem: The text, the proxy and its batches; `steps` is the longest training. Its cost
            counter is charged.
        config: How often what is read.
        domains: On whose text; those of most text when None.

    Returns:
        A row a training: `domain`, whose text it is and whose held-out text measures; `text`, its
        tokens that are different; `epochs`, how often they were read, >= 1; `loss`, nats per token.

    Raises:
        DataError: When the steps are too few for the readings, or a domain has too little text.
        NonFiniteError: When a loss is NaN or infinite.
    """
    import pandas

    most = config.readings[-1]
    unit = problem.steps // most  # steps of one reading
    if unit < 1:
        raise DataError(
            f"Expected --steps >= {most}, at least one step per reading, found {problem.steps}"
        )
    batch = problem.batch_sequences * problem.sequence_length
    names = _checked(problem, unit * most, config, domains)
    # (steps, tokens that are different); of one reading both kinds are the same.
    sizes = [(unit * e, unit * e * batch) for e in config.readings]
    sizes += [(unit * e, unit * batch) for e in config.readings[1:]]
    seeds = range(problem.seed, problem.seed + config.reading_seeds)
    rows = []
    for name in names:
        own = dataclasses.replace(problem, target={name: 1.0}, held_out=())
        planned = [
            PlannedRun(weights={name: 1.0}, steps=steps, seed=seed, text={name: text})
            for steps, text in sizes
            for seed in seeds
        ]
        for run, done in zip(planned, train_runs(own, planned, f"readings: {name}"), strict=True):
            text = (run.text or {})[name]
            rows.append((name, float(text), run.steps * batch / text, done.losses[name]))
    return pandas.DataFrame(rows, columns=COLUMNS)


def up_to(readings: pandas.DataFrame, most: int) -> pandas.DataFrame:
    """Returns the trainings that read no more than `most` times a domain's least text."""
    unit = readings.groupby("domain")["text"].transform("min")
    return readings[readings["text"] * readings["epochs"] <= most * unit * (1 + 1e-9)]


def _checked(
    problem: Problem, steps: int, config: ReadingsConfig, given: Sequence[str] | None
) -> Sequence[str]:
    """The domains to measure on, whose text so many steps do not read twice."""
    need = steps * problem.batch_sequences * problem.sequence_length
    held_out = FEWEST_HELD_OUT * problem.sequence_length
    train, validation = problem.corpus.train, problem.corpus.validation
    if given is not None and len(set(given)) < len(given):
        raise DataError(f"Expected every domain once, found {' '.join(given)}")
    enough = [
        n
        for n in given or problem.names
        if n in train and len(train[n]) >= need and len(validation[n]) >= held_out
    ]
    wrong = sorted({*(given or ())} - {*enough})
    if wrong or not enough:
        found = {n: (len(train[n]), len(validation[n])) for n in wrong if n in train}
        most = max(len(train[n]) for n in problem.names)
        told = f"{most} at most"
        if wrong:
            told = f"{wrong[0]}: {found.get(wrong[0], 'no such domain')}"
        raise DataError(
            f"Expected domains of at least {need} tokens, so that {steps} steps repeat none, "
            f"and {held_out} held-out tokens, found {told}; fewer --steps need less"
        )
    return given or sorted(enough, key=lambda n: -len(train[n]))[: config.reading_domains]


def fit_repetition(readings: pandas.DataFrame) -> RepetitionLaw:
    """Fits R and every domain's curve to losses by least squares; R's interval is a profile.

    It holds the R whose least squares are at most ``1 + F / (n - p)`` times the best, with F of
    ``(1, n - p)`` degrees of freedom and p parameters. What the law misses counts as noise.

    Args:
        readings: Of `measure_readings`; of each domain three sizes at least were read once.
    """
    from scipy.stats import f

    squares, values, known, best_epochs, parameters = {}, {}, {}, {}, 1
    for domain, own in readings.groupby("domain", sort=False):
        name = str(domain)
        text, epochs, losses = (np.array(own[column], float) for column in COLUMNS[1:])
        sizes = np.unique(text[epochs == 1])
        tokens = text * _effective(epochs, CONSTANTS)  # (R, n)
        basis = _spline(sizes, tokens)  # (R, n, m)
        values[name] = np.linalg.pinv(basis) @ losses  # (R, m)
        missed = (basis @ values[name][..., None])[..., 0] - losses
        squares[name] = (missed**2).sum(1)  # (R,)
        known[name] = sizes
        least = own[own["text"] == own["text"].min()]
        best_epochs[name] = float(least.groupby("epochs")["loss"].mean().idxmin())
        parameters += len(sizes)
    total = np.sum([*squares.values()], 0)
    best, count = int(total.argmin()), len(readings)
    freedom = count - parameters
    inside = np.full(len(CONSTANTS), True)
    if freedom > 0:
        inside = total <= total[best] * (1 + f.ppf(HDI_PROBABILITY, 1, freedom) / freedom)
    low, high = np.flatnonzero(inside)[[0, -1]] + [-1, 1]  # the next R on the grid, outside
    return RepetitionLaw(
        constant=float(CONSTANTS[best]),
        interval=(
            float(CONSTANTS[low]) if low >= 0 else None,
            float(CONSTANTS[high]) if high < len(CONSTANTS) else None,
        ),
        curves={
            name: dict(zip(known[name].tolist(), values[name][best].tolist(), strict=True))
            for name in known
        },
        of_domains={name: float(CONSTANTS[own.argmin()]) for name, own in squares.items()},
        best_epochs=best_epochs,
        misfit=float(np.sqrt(total[best] / count)),
        noise=_noise(readings),
    )


def _effective(epochs: np.ndarray, constants: np.ndarray) -> np.ndarray:
    """Effective epochs ``(R, n)``: readings of different text that teach as much."""
    once = torch.ones(len(constants), len(epochs), dtype=torch.float64)
    fading = torch.from_numpy(constants)[:, None]
    return effective_shares(once, torch.from_numpy(epochs), fading).numpy() * epochs


def _spline(sizes: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """What the values at the sizes ``(m,)`` add to a natural spline in log tokens ``(..., m)``."""
    from scipy.interpolate import CubicSpline

    basis = CubicSpline(np.log(sizes), np.eye(len(sizes)), bc_type="natural")
    return basis(np.log(tokens))


def _noise(readings: pandas.DataFrame) -> float | None:
    """The standard deviation of models that differ in the seed alone, nats per token."""
    groups = readings.groupby(list(COLUMNS[:3]), sort=False)["loss"]
    freedom = len(readings) - groups.ngroups
    if not freedom:
        return None
    return float(np.sqrt(sum(np.var(own.to_numpy()) * len(own) for _, own in groups) / freedom))
