"""What is wanted of a table of runs: metrics, their shares, and the prior to compare with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bydore_pyro import mixture
from bydore_pyro.errors import DataError, listed
from bydore_pyro.tables.regression import ROUNDED, check_runs_differ
from bydore_pyro.tables.tables import Direction, RunsTable

UNLIKE = 40  # times as much one metric differs as another: no one unit; olmix's 110 reach 25


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What is wanted of a table: T metrics that differ between its N runs.

    Args:
        names: Of the metrics.
        losses: Of the runs ``(N, T)``, lower is better.
        shares: Of the metrics in the mean that is to fall ``(T,)``.
        own: The domain that each metric is held-out text of, by its place; -1 for none.
        signs: -1 for each metric that is maximised, else 1 ``(T,)``.
        direction: Of the mean.
    """

    names: tuple[str, ...]
    losses: np.ndarray
    shares: np.ndarray
    own: tuple[int, ...]
    signs: np.ndarray
    direction: Direction

    @classmethod
    def of(cls, table: RunsTable, metrics: Mapping[str, float]) -> Wanted:
        """Takes the metrics, whose shares are given, out of a table that `directed` returned.

        Raises:
            DataError: When the runs are all alike in the metrics, or on one mixture.
        """
        if len(table.runs) < 2:
            raise DataError("Expected runs on several mixtures, found one run")
        names = [n for n in metrics if np.ptp(v := table.losses_of(n)) > ROUNDED * np.abs(v).max()]
        if not names:
            raise DataError(
                f"Expected runs that differ in {listed(metrics, 3)}, found one value in all"
            )
        shares = np.array([metrics[name] for name in names])
        directions: list[Direction] = [
            table.asked[name].direction if name in table.asked else "minimised" for name in names
        ]
        losses = np.stack([table.losses_of(name) for name in names], 1)
        check_runs_differ(table.weights, losses)
        return cls(
            names=tuple(names),
            losses=losses,
            shares=shares / shares.sum(),
            own=tuple(table.domains.index(n) if n in table.domains else -1 for n in names),
            signs=np.where([one == "maximised" for one in directions], -1.0, 1.0),
            direction=directions[0] if len({*directions}) == 1 else "both",
        )

    @property
    def sign(self) -> float:
        """Of the mean: -1 where it is maximised, else 1; no unit."""
        return -1.0 if self.direction == "maximised" else 1.0

    def notes(self) -> list[str]:
        """Returns a note where one of metrics that nobody weighted decides the mean alone."""
        spread = self.losses.std(0)
        most, least = int(spread.argmax()), int(spread.argmin())
        if len({*self.shares.tolist()}) > 1 or spread[most] < UNLIKE * spread[least]:
            return []
        return [
            f"Are the metrics in one unit? Between runs '{self.names[most]}' differs "
            f"{spread[most] / spread[least]:.0f} times as much as '{self.names[least]}' and "
            "decides alone; NAME=WEIGHT sets what each counts."
        ]


def prior_of(table: RunsTable, source: str | None = None) -> tuple[np.ndarray, str]:
    """Returns the prior ``(K,)`` of a table's domains, and where it comes from.

    The source is a mixture file or `published:NAME`. If not given, it is the Pile's token shares
    where the domains are the Pile's, else the mean of the runs' mixtures.

    Raises:
        DataError: When a source is given whose domains are not the table's.
    """
    names = () if source is None else table.domains
    shares = mixture.mixture_from(source or "published:token_share", names=names).as_dict()
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
