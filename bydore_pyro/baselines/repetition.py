"""R, the repetition constant of a proxy: how soon text that is read again teaches nothing more.

A fresh proxy is trained on U tokens of a domain, read e times, and another on as many tokens that
are all different. Both losses on held-out text of the domain lie on one curve over effective tokens

    L = E + A D^-alpha,      D = U                                    read once
                             D = U (1 + R (1 - exp(-(e - 1) / R)))    read e times

with E, A and alpha of each domain and one R. For a given R and alpha the curve is a line in
``D^-alpha``, so that least squares over a grid of both find all of it, with no starting point.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from bydore_pyro.baselines.problem import Problem
from bydore_pyro.baselines.proxy_runs import PlannedRun, train_runs
from bydore_pyro.mixture import HDI_PROBABILITY, effective_shares
from bydore_pyro.utils import DataError

__all__ = [
    "Readings",
    "ReadingsConfig",
    "RepetitionLaw",
    "fit_repetition",
    "measure_readings",
    "with_most_text",
]

CONSTANTS = np.geomspace(0.05, 200, 600)  # R, in epochs; neighbours differ by 1.4 %
EXPONENTS = np.geomspace(0.03, 4, 80)  # alpha; between neighbours a parabola finds the least
FEWEST_HELD_OUT = 16  # sequences


@dataclass(frozen=True, kw_only=True)
class ReadingsConfig:
    """Which short trainings measure the repetition constant."""

    readings: list[int] = field(
        default_factory=lambda: [1, 2, 4, 8, 16],
        metadata={
            "help": "How often text is read. The most frequent reading is a training of --steps, "
            "the others are shorter; each but one reading has its twin on text that is all "
            "different."
        },
    )
    reading_domains: int = field(
        default=3, metadata={"help": "Without --domains: so many domains, those of most text."}
    )
    reading_seeds: int = field(
        default=2, metadata={"help": "Fresh models a training, from --seed on."}
    )

    def __post_init__(self) -> None:
        given = self.readings
        if given[:1] != [1] or len(given) < 4 or sorted(set(given)) != given or given[-1] > 1000:
            raise ValueError(
                "Expected at least four readings, rising from 1 to at most 1000, actual "
                f"{' '.join(map(str, given)) or 'none'}"
            )
        for name in ("reading_domains", "reading_seeds"):
            if not 1 <= getattr(self, name) <= 100:
                raise ValueError(f"Expected {name} in [1, 100], actual {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Readings:
    """The losses of ``n`` trainings.

    Args:
        domains: Whose text it is, and whose held-out text measures ``(n,)``.
        text: Tokens that are different ``(n,)``.
        epochs: How often they were read ``(n,)``, >= 1.
        losses: Nats per token ``(n,)``.
    """

    domains: Sequence[str]
    text: np.ndarray
    epochs: np.ndarray
    losses: np.ndarray


@dataclass(frozen=True, kw_only=True)
class RepetitionLaw:
    """R and what else the losses tell.

    Args:
        constant: R, in epochs, the most likely one.
        interval: Of R, by its profile likelihood, with `HDI_PROBABILITY`; None where the losses do
            not bound it.
        curves: By domain, `E` (nats per token), `A` (nats per token at `text`), `alpha`, and
            `text`, the tokens that D is counted in.
        of_domains: R as each domain alone tells it.
        misfit: Root mean square difference of losses and law, nats per token.
        noise: The same among models that differ in the seed alone, nats per token; None where
            there is one a training.
    """

    constant: float
    interval: tuple[float | None, float | None]
    curves: dict[str, dict[str, float]]
    of_domains: dict[str, float]
    misfit: float
    noise: float | None

    def loss(self, domain: str, text: np.ndarray, epochs: np.ndarray) -> np.ndarray:
        """Returns the law's losses ``(n,)``, nats per token, for tokens and epochs ``(n,)``."""
        curve = self.curves[domain]
        tokens = text / curve["text"] * _effective(epochs, np.array([self.constant]))[0]
        return curve["E"] + curve["A"] * tokens ** -curve["alpha"]


def with_most_text(problem: Problem, steps: int, count: int) -> tuple[str, ...]:
    """Returns the domains of most training text, as far as `steps` do not read it twice.

    Raises:
        DataError: When there is none.
    """
    need = steps * problem.batch_sequences * problem.sequence_length
    size = {n: len(problem.corpus.train[n]) for n in problem.names}
    held_out = FEWEST_HELD_OUT * problem.sequence_length
    enough = [
        n for n in size if size[n] >= need and len(problem.corpus.validation[n]) >= held_out
    ]
    if not enough:
        raise DataError(
            f"Expected a domain of at least {need} tokens, which {steps} steps do not read twice, "
            f"found {max(size.values())} at most; --steps makes the trainings shorter"
        )
    return tuple(sorted(enough, key=lambda n: -size[n])[:count])


def measure_readings(
    problem: Problem, config: ReadingsConfig, domains: Sequence[str] | None = None
) -> Readings:
    """Trains proxies on text read again and on as much that is all different.

    Args:
        problem: The text, the proxy and its batches; `steps` is the longest training. Its cost
            counter is charged.
        config: How often what is read.
        domains: On whose text; those `with_most_text` when None.

    Raises:
        DataError: When the steps are too few for the readings, or a domain has too little text.
        NonFiniteError: When a loss is NaN or infinite.
    """
    most = config.readings[-1]
    unit = problem.steps // most  # steps of one reading
    if unit < 1:
        raise DataError(
            f"Expected --steps >= {most}, one for each of the readings, found {problem.steps}"
        )
    batch = problem.batch_sequences * problem.sequence_length
    names = domains or with_most_text(problem, unit * most, config.reading_domains)
    for name in names:
        found = len(problem.corpus.train[name])
        if found < unit * most * batch:
            raise DataError(
                f"Expected at least {unit * most * batch} tokens in '{name}', which "
                f"{unit * most} steps do not read twice, found {found}; --steps makes the "
                "trainings shorter"
            )
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
            rows.append((name, text, run.steps * batch / text, done.losses[name]))
    columns = list(zip(*rows, strict=True))
    return Readings(
        domains=columns[0],
        text=np.array(columns[1], float),
        epochs=np.array(columns[2], float),
        losses=np.array(columns[3], float),
    )


def fit_repetition(readings: Readings) -> RepetitionLaw:
    """Fits R, and every domain's curve, to losses by least squares; the interval of R is a profile.

    The interval holds the R whose least squares are at most ``1 + F / (n - p)`` times the best, with
    F of ``(1, n - p)`` degrees of freedom and p parameters. What the law misses counts as noise.

    Raises:
        ValueError: When a domain has fewer than four different trainings, or none that reads again.
    """
    from scipy.stats import f

    domains = np.array(readings.domains)
    names = list(dict.fromkeys(readings.domains))
    squares, fits = {}, {}
    for name in names:
        own = domains == name
        text, epochs = readings.text[own], readings.epochs[own]
        if len({*zip(text, epochs, strict=True)}) < 4 or not (epochs > 1).any():
            raise ValueError(f"Expected four different trainings of '{name}', some with repetition")
        unit = text.min()
        fits[name] = _lines(text / unit, epochs, readings.losses[own])
        squares[name] = _least(fits[name]["squares"])  # (R,)
    total = np.sum([*squares.values()], 0)
    best, count = int(total.argmin()), len(domains)
    freedom = count - (1 + 3 * len(names))
    inside = np.full(len(CONSTANTS), True)
    if freedom > 0:
        inside = total <= total[best] * (1 + f.ppf(HDI_PROBABILITY, 1, freedom) / freedom)
    low, high = np.flatnonzero(inside)[[0, -1]] + [-1, 1]  # the next R on the grid, outside
    curves = {}
    for name in names:
        place = best, int(fits[name]["squares"][best].argmin())
        curves[name] = {
            "E": float(fits[name]["E"][place]),
            "A": float(fits[name]["A"][place]),
            "alpha": float(EXPONENTS[place[1]]),
            "text": float(readings.text[domains == name].min()),
        }
    return RepetitionLaw(
        constant=float(CONSTANTS[best]),
        interval=(
            float(CONSTANTS[low]) if low >= 0 else None,
            float(CONSTANTS[high]) if high < len(CONSTANTS) else None,
        ),
        curves=curves,
        of_domains={name: float(CONSTANTS[own.argmin()]) for name, own in squares.items()},
        misfit=float(np.sqrt(total[best] / count)),
        noise=_noise(readings),
    )


def _effective(epochs: np.ndarray, constants: np.ndarray) -> np.ndarray:
    """Effective epochs ``(R, n)``: readings of different text that teach as much."""
    once = torch.ones(len(constants), len(epochs), dtype=torch.float64)
    fading = torch.from_numpy(constants)[:, None]
    return effective_shares(once, torch.from_numpy(epochs), fading).numpy() * epochs


def _lines(text: np.ndarray, epochs: np.ndarray, losses: np.ndarray) -> dict[str, Any]:
    """The least squares of ``L = E + A D^-alpha`` with E, A >= 0 at every R and alpha ``(R, a)``."""
    tokens = text * _effective(epochs, CONSTANTS)  # (R, n)
    x = tokens[:, None, :] ** -EXPONENTS[:, None]  # (R, a, n)
    mean = x.mean(-1)
    apart = x - mean[..., None]
    slope = (apart @ losses) / (apart**2).sum(-1)
    constant = losses.mean() - slope * mean
    # Where the best line has E < 0 the best one allowed goes through 0.
    through = (x @ losses) / (x**2).sum(-1)
    slope, constant = np.where(constant < 0, through, slope), np.maximum(constant, 0)
    flat = slope < 0
    slope, constant = np.where(flat, 0, slope), np.where(flat, losses.mean(), constant)
    squares = ((constant[..., None] + slope[..., None] * x - losses) ** 2).sum(-1)
    return {"squares": squares, "E": constant, "A": slope}


def _least(squares: np.ndarray) -> np.ndarray:
    """The least of each row ``(R, a)``, by a parabola through the least and its neighbours."""
    rows = np.arange(len(squares))
    place = squares.argmin(1).clip(1, squares.shape[1] - 2)
    left, least, right = (squares[rows, place + step] for step in (-1, 0, 1))
    bend = left - 2 * least + right
    inside = (bend > 0) & (least <= np.minimum(left, right))
    below = np.where(inside, (right - left) ** 2 / np.where(inside, 8 * bend, 1), 0)
    return np.minimum(squares.min(1), np.maximum(least - below, 0))


def _noise(readings: Readings) -> float | None:
    """The standard deviation of models that differ in the seed alone, nats per token."""
    groups: dict[tuple[str, float, float], list[float]] = {}
    keys = zip(readings.domains, readings.text, readings.epochs, strict=True)
    for key, loss in zip(keys, readings.losses, strict=True):
        groups.setdefault(key, []).append(loss)
    freedom = len(readings.losses) - len(groups)
    if not freedom:
        return None
    return float(np.sqrt(sum(np.var(g) * len(g) for g in groups.values()) / freedom))
