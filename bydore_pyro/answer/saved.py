"""Compute saved: how much longer a run on another mixture must train for the same expected loss.

With ``L(w, r)`` the expected loss of a run on weights ``w`` that is ``r`` times as long as the runs
that were read, each draw of the forecast has the ``r`` that solves ::

    L(other, r) = L(mixture, 1)

``L`` falls in ``r``, so there is one ``r`` at most. The law is not asked about runs more than four
times as long or short as those that it was fitted to: from there on the ``r`` of a draw is the
limit, which stands for all beyond.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from bydore_pyro import files
from bydore_pyro.answer.forecast import Forecast, ends
from bydore_pyro.law import FAR

POINTS = 17  # lengths between which logarithms are interpolated: ``r`` is exact to about 1e-3


@dataclass(frozen=True, kw_only=True)
class Saved:
    """How many times as long a run on another mixture trains for the same expected loss: the median
    over draws, and their 94 % interval. 4 stands for 4 or more, 0.25 for 0.25 or less."""

    times: files.Number
    low: files.Number
    high: files.Number


def compute_saved(
    forecast: Forecast, mixture: Tensor, others: Mapping[str, Tensor]
) -> dict[str, dict[str, Saved]]:
    """Returns how many times as long runs on other mixtures train for the loss of a mixture, by
    other mixture and by target; of several targets also for what they lose together.

    Args:
        forecast: Of the losses.
        mixture: Weights ``(K,)``, of a run as long as those that were read.
        others: Likewise, by name.
    """
    if not others:
        return {}
    places = [k for k, text in enumerate(forecast.texts) if text not in forecast.of_domains]
    grid = torch.linspace(-math.log(FAR), math.log(FAR), POINTS).double()
    rows = torch.stack([*others.values()])
    own = forecast.losses(mixture[None])[..., places]  # (S, 1, texts)
    losses = torch.stack([forecast.losses(rows, math.exp(x))[..., places] for x in grid.tolist()])
    after = (losses > own).sum(0, keepdim=True).clamp(1, POINTS - 1)  # first length that is enough
    before = losses.gather(0, after - 1)  # (1, S, M, texts)
    way = ((before - own) / (before - losses.gather(0, after))).clamp(0, 1)
    times = torch.lerp(grid[after - 1], grid[after], way)[0].exp()
    names = [forecast.texts[place] for place in places]
    middle, (low, high) = times.quantile(0.5, 0), ends(times)
    return {
        other: {
            name: Saved(times=float(middle[m, t]), low=float(low[m, t]), high=float(high[m, t]))
            for t, name in enumerate(names)
        }
        for m, other in enumerate(others)
    }
