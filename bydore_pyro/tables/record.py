"""The results of regressions on a table of finished runs, as the record of a run keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bydore_pyro.tables.columns import Columns
from bydore_pyro.utils import Number


@dataclass(frozen=True, kw_only=True)
class Regressed:
    """How well a regression predicts left-out runs; for one metric, also what it predicts.

    Args:
        regression: Its kind.
        spearman_x100: Rank correlation with what was measured, times 100; higher is better.
        rmse: Root of the mean squared error, in the losses' unit.
        coverage: Share of the runs inside their 94 % intervals, whose width comes from the other
            folds' errors.
        width: Of the intervals of a fit to all runs: a factor of its standard deviations.
        seconds: Of one fit.
        weights: Predicted for the proposal, in the losses' unit.
        prior: Predicted for the prior, in the losses' unit.
        better_than_prior: Probability that the proposal's loss is the lower one.
    """

    regression: str = ""
    spearman_x100: Number | None = None
    rmse: Number | None = None
    coverage: Number | None = None
    width: Number | None = None
    seconds: Number | None = None
    weights: Number | None = None
    prior: Number | None = None
    better_than_prior: Number | None = None


@dataclass(frozen=True, kw_only=True)
class Gain:
    """How much lower a predicted loss is than the prior's, in the losses' unit; > 0 is better.

    `sure` is None if the regression knows no deviation; `probability` is, too, far from all runs.
    """

    mean: Number | None = None
    probability: Number | None = None
    sure: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Distance:
    """Whether the mixture is `far` from every run, and whether it was `held` near the runs."""

    far: bool | None = None
    held: bool | None = None
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A given mixture: its predicted loss, the 94 % interval of a run's, the probability that it is
    lower than the prior's, and the share of tokens that the nearest run has elsewhere."""

    mixture: str = ""
    rank: Number | None = None
    predicted: Number | None = None
    low: Number | None = None
    high: Number | None = None
    better_than_prior: Number | None = None
    nearest_run: Number | None = None


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A metric that was asked for: its `direction` ("minimised" or "maximised"), its `best` value
    in the table's unit, and the `run` that has it."""

    direction: str = ""
    best: Number | None = None
    run: str = ""


@dataclass(frozen=True, kw_only=True)
class Details:
    """What is worth knowing of how a mixture was found; most of it is a regression's.

    Args:
        steps: Training steps of a method's proxies; of different lengths, of the shortest.
        runs: How many runs a regression was fitted to.
        columns: How the columns of the table were taken.
        reading: What else was done with the table, a line each.
        asked: The metrics that were asked for, by name.
        regression: Its kind.
        regressions: Those that were compared on left-out runs, best first.
        each_metric: Every metric regressed on its own.
        gain_over_prior: Of the proposal.
        distance: Of the proposal from the runs.
        predictions: Given mixtures, best first.
    """

    steps: Number | None = None
    runs: Number | None = None
    columns: Columns = field(default_factory=Columns)
    reading: tuple[str, ...] = ()
    asked: Mapping[str, Asked] = field(default_factory=dict)
    regression: str = ""
    regressions: Mapping[str, Regressed] = field(default_factory=dict)
    each_metric: Mapping[str, Regressed] = field(default_factory=dict)
    gain_over_prior: Gain = Gain()
    distance: Distance = Distance()
    predictions: tuple[Scored, ...] = ()
