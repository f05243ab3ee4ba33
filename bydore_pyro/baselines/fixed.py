"""Weights that nobody has to search: uniform, natural, one domain, someone else's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bydore_pyro.baselines.problem import Fit, Problem
from bydore_pyro.mixture import Mixture, mixture_from
from bydore_pyro.utils import DataError, option

__all__ = ["HumanConfig", "SingleConfig", "fit_human", "fit_natural", "fit_single", "fit_uniform"]


@dataclass(frozen=True, kw_only=True)
class SingleConfig:
    """The domain of the method 'single'."""

    single: str | None = option(
        None,
        "Domain of the method 'single'. Default: the training domain with the largest share of "
        "the target.",
    )


@dataclass(frozen=True, kw_only=True)
class HumanConfig:
    """The weights of the method 'human'."""

    human: str = option(
        "published:human",
        "Weights of the method 'human': a mixture file, a RegMix YAML, DoReMi JSON or CSV file,"
        " or the Pile's 'published:human', 'published:doremi' or 'published:regmix'.",
    )


def fit_uniform(problem: Problem) -> Fit:
    """Returns ``1 / K`` for every domain."""
    return Fit(mixture=problem.mixture(np.ones(len(problem.names))))


def fit_natural(problem: Problem) -> Fit:
    """Returns every domain's share of the training text's tokens."""
    return Fit(mixture=problem.mixture(problem.token_shares))


def fit_single(problem: Problem, config: SingleConfig) -> Fit:
    """Returns all weight on one domain.

    Raises:
        DataError: When it is not one of the domains, or is not given and the target has none of
            them.
    """
    name = config.single
    if name is None:
        shares = {n: s for n, s in problem.target.items() if n in problem.names}
        if not shares:
            raise DataError(
                "Expected --single NAME or a target that is a training domain, found neither"
            )
        name = max(shares, key=lambda n: shares[n])
    if name not in problem.names:
        raise DataError(f"Expected one of the domains {', '.join(problem.names)}, found '{name}'")
    return Fit(mixture=problem.mixture(np.array([n == name for n in problem.names], float)))


def fit_human(problem: Problem, config: HumanConfig) -> Fit:
    """Returns the weights of a file, for those of its domains that are trained on.

    Raises:
        DataError: When the file gives weight to a domain that the data does not have.
    """
    given: Mixture = mixture_from(config.human)
    given.check(problem.names, problem.corpus.tokenizer_sha256, config.human)
    weights = given.as_dict()
    return Fit(mixture=problem.mixture(np.array([weights.get(n, 0.0) for n in problem.names])))
