"""What a fit to a table of finished runs predicts, as the record of a run keeps it.

Losses and values are in the table's own unit. Intervals are of the value that one run will have,
and hold 94 % of the highest density; of differences, of those between two runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bydore_pyro import answer, files
from bydore_pyro.tables.columns import Columns
from bydore_pyro.tables.tables import Asked, Direction


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """How well runs are predicted by a fit to others, each fifth of them by one to the rest.

    Args:
        spearman_x100: Rank correlation with what was measured, times 100; higher is better.
        rmse: Root of the mean squared error.
        coverage: Share of the runs inside their intervals.
    """

    spearman_x100: files.Number | None = None
    rmse: files.Number | None = None
    coverage: files.Number | None = None


@dataclass(frozen=True, kw_only=True)
class MetricRecord:
    """A metric, or the mean of those that were asked for.

    Args:
        left_out: How well left-out runs are predicted; empty of too few runs.
        expected: Of a run on the answer and on the references, by their names.
        differences: Of the answer less each reference; `better` is the probability that the answer
            is: that its loss is lower, or its value higher where the metric is maximised.
    """

    left_out: LeftOut = LeftOut()
    expected: Mapping[str, answer.Expected] = field(default_factory=dict)
    differences: Mapping[str, answer.Difference] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A given mixture: what is expected of a run on it, with its interval; whether that is
    minimised or maximised; the probability that it is better than the prior, and the share of
    tokens that the nearest run has in other domains."""

    mixture: str = ""
    rank: files.Number = 0
    expected: files.Number = 0.0
    low: files.Number = 0.0
    high: files.Number = 0.0
    direction: Direction = ""
    better_than_prior: files.Number = 0.0
    nearest_run: files.Number = 0.0


@dataclass(frozen=True, kw_only=True)
class Nearness:
    """How near the answer is to the runs.

    Distances are total variations, the share of tokens that lies in other domains.

    Args:
        run: The nearest one.
        distance: To it.
        usual: The median of the runs' distances to the nearest other mixture.
        reach: What 94 % of these are below.
        held: The domains whose weights are at a bound that the runs set.
    """

    run: str = ""
    distance: files.Number = 0.0
    usual: files.Number = 0.0
    reach: files.Number = 0.0
    held: tuple[str, ...] = ()

    @property
    def far(self) -> bool:
        """Whether it is farther from every run than is usual among the runs."""
        return self.distance > self.reach * (1 + 1e-6) + 1e-9


@dataclass(frozen=True, kw_only=True)
class TableRecord:
    """What a fit to a table of runs found.

    Args:
        runs: How many there are.
        columns: How the columns of the table were taken.
        reading: What else was done with the table, a line each.
        asked: The metrics that were asked for, by name.
        direction: Of their mean.
        prior: Weights that the answer is compared with, by domain.
        mean: Of the metrics.
        metrics: Each by itself, where there are several.
        nearness: Of the answer.
        predictions: Given mixtures, the best first.
    """

    runs: files.Number | None = None
    columns: Columns = field(default_factory=Columns)
    reading: tuple[str, ...] = ()
    asked: Mapping[str, Asked] = field(default_factory=dict)
    direction: Direction = ""
    prior: Mapping[str, files.Number] = field(default_factory=dict)
    mean: MetricRecord = MetricRecord()
    metrics: Mapping[str, MetricRecord] = field(default_factory=dict)
    nearness: Nearness = Nearness()
    predictions: tuple[Scored, ...] = ()
