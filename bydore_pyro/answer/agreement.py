"""Do searches with other seeds find the same?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bydore_pyro.mixture import Mixture

if TYPE_CHECKING:
    import pandas

# An interval that is this much narrower than the spread over seeds claims too much; differences
# between seeds that are smaller than this are of no matter.
TOO_NARROW, SMALLEST_SPREAD = 0.5, 0.005


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
