"""UniMax: as uniform as a cap of epochs allows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bydore_pyro.baselines.problem import Fit, Problem, by_name
from bydore_pyro.utils import option, require_fields

__all__ = ["UniMaxConfig", "fit_unimax", "unimax_tokens"]


@dataclass(frozen=True, kw_only=True)
class UniMaxConfig:
    """UniMax's setting."""

    unimax_epochs: float = option(
        4.0,
        "Maximum number of times that UniMax reads a domain in a run of --target_tokens.",
        above=0,
    )

    def __post_init__(self) -> None:
        require_fields(self)


def unimax_tokens(sizes: np.ndarray, budget: float, epochs: float) -> np.ndarray:
    """Returns how many tokens of each domain are read ``(K,)``: equally many, as far as they reach.

    From the smallest domain on, each takes an equal share of what is left of the budget, or
    `epochs` times its text where that is less.

    Args:
        sizes: Tokens of the domains ``(K,)``.
        budget: Tokens of the run.
        epochs: Most times that a domain is read.

    References:
        Chung et al., UniMax, arXiv 2304.09151, Algorithm 1.
    """
    found, left = np.zeros(len(sizes)), float(budget)
    for place, k in enumerate(np.argsort(sizes, kind="stable")):
        found[k] = min(left / (len(sizes) - place), epochs * sizes[k])
        left -= found[k]
    return found


def fit_unimax(problem: Problem, config: UniMaxConfig, tokens: float) -> Fit:
    """Returns UniMax's mixture for a run of so many tokens; no domain's text is looked at.

    Where all text together is too little for the run, the mixture is the natural one.
    """
    sizes = np.array([len(problem.corpus.train[name]) for name in problem.names], float)
    read = unimax_tokens(sizes, tokens, config.unimax_epochs)
    return Fit(
        mixture=problem.mixture(read),
        details={"epochs": by_name(problem.names, read / sizes)},
    )
