"""The results of regressions on a table of finished runs, as the record of a run keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from bydore_pyro.files import Number
from bydore_pyro.tables.columns import Columns

#: Whether less or more is better: of one metric, or of the mean of several. A mean of metrics of
#: both directions is minimised, and those that are maximised count negatively in it.
Direction = Literal["minimised", "maximised", "both", ""]


@dataclass(frozen=True, kw_only=True)
class Regressed:
    """How well a regression predicts left-out runs; for one metric, also what it predicts.

    Args:
        regression: Its kind.
        spearman_x100: Rank correlation with what was measured, times 100; higher is better.
        rmse: Root of the mean squared error, in the metric's unit.
        coverage: Share of the runs inside their 94 % intervals, whose width comes from the other
            folds' errors.
        width: Of the intervals of a fit to all runs: a factor of its standard deviations.
        seconds: Of one fit.
        weights: Predicted for the proposal, in the metric's own unit and direction.
        prior: Predicted for the prior, in the metric's own unit and direction.
        better_than_prior: Probability that the proposal is better than the prior.
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
class Predicted:
    """A prediction in the metric's unit; the deviation is None where the regression knows none."""

    mean: Number
    standard_deviation: Number | None = None


@dataclass(frozen=True, kw_only=True)
class Gain:
    """How much better a prediction is than the prior's, in the metric's unit; > 0 is better: a
    lower loss, or a higher value of a metric that is maximised.

    `sure` is None if the regression knows no deviation; `probability` is, too, far from all runs.
    `prior` has its shares by domain. `predicted_loss` is that of these weights ("weights"), of the
    prior ("prior") and of equal shares ("uniform"); of a metric that is maximised, its value.
    """

    mean: Number | None = None
    probability: Number | None = None
    sure: bool | None = None
    prior: Mapping[str, Number] = field(default_factory=dict)
    predicted_loss: Mapping[str, Predicted] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Distance:
    """Whether the mixture is `far` from every run, and whether it was `held` near the runs."""

    far: bool | None = None
    held: bool | None = None
    words: str = ""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A given mixture: the value predicted for it, the 94 % interval of a run's, whether that value
    is minimised or maximised, the probability that it is better than the prior's, and the share of
    tokens that the nearest run has elsewhere."""

    mixture: str = ""
    rank: Number | None = None
    predicted: Number | None = None
    low: Number | None = None
    high: Number | None = None
    direction: Direction = ""
    better_than_prior: Number | None = None
    nearest_run: Number | None = None


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A metric that was asked for: its `direction`, its `best` value in the table's unit, and the
    `run` that has it."""

    direction: Direction = ""
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
        direction: Of their mean, which is what is predicted.
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
    direction: Direction = ""
    regression: str = ""
    regressions: Mapping[str, Regressed] = field(default_factory=dict)
    each_metric: Mapping[str, Regressed] = field(default_factory=dict)
    gain_over_prior: Gain = Gain()
    distance: Distance = Distance()
    predictions: tuple[Scored, ...] = ()
