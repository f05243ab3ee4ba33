"""Weights that nobody has to search: uniform, natural, one domain, someone else's, UniMax's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bydore_pyro import data, trials
from bydore_pyro.command_line import Checked, option
from bydore_pyro.errors import DataError
from bydore_pyro.methods.fit import Fit


@dataclass(frozen=True, kw_only=True)
class FixedConfig(Checked):
    """The domain of the method 'single', the weights of 'human', the limit of 'unimax'."""

    single: str | None = option(
        None,
        "Domain of the method 'single'. Default: the training domain with the largest share of "
        "the target.",
    )
    human: str = option(
        "published:human",
        "Weights of the method 'human': a file of weights of any kind, a run's folder, or the "
        "Pile's 'published:human', 'published:doremi' or 'published:regmix'.",
    )
    unimax_epochs: float = option(
        4.0,
        "Maximum number of times that UniMax reads a domain in a run of --target_tokens.",
        above=0,
    )


def fit_uniform(problem: trials.Problem) -> Fit:
    """Returns ``1 / K`` for every domain."""
    return Fit(mixture=problem.mixture(np.ones(len(problem.names))))


def fit_natural(problem: trials.Problem) -> Fit:
    """Returns the natural weights, see `bydore_pyro.data.TokenStore.natural`."""
    return Fit(mixture=problem.mixture(problem.token_shares))


def fit_single(problem: trials.Problem, config: FixedConfig) -> Fit:
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


def fit_human(problem: trials.Problem, config: FixedConfig) -> Fit:
    """Returns the weights of a file, by the names and counts of the data.

    Raises:
        DataError: When the file gives weight to a domain that the data does not have.
    """
    given = data.read_mixture(config.human, problem.corpus, problem.names)
    pools = {n: one for n, one in data.pools_of(problem.corpus).items() if n in problem.names}
    members = [name for own in pools.values() for name in own]
    given.check({*problem.names, *members}, problem.corpus.tokenizer_sha256, config.human)
    weights = data.gathered(given.as_dict(), pools)
    return Fit(mixture=problem.mixture(np.array([weights.get(n, 0.0) for n in problem.names])))


def unimax_tokens(sizes: np.ndarray, budget: float, epochs: float) -> np.ndarray:
    """Returns how many tokens of each domain are read ``(K,)``: equally many, as far as they reach.

    From the smallest domain on, each takes an equal share of what is left of the budget of tokens,
    or `epochs` times its text, of so many tokens ``(K,)``, where that is less.

    References:
        Chung et al., UniMax, arXiv 2304.09151, Algorithm 1.
    """
    found, left = np.zeros(len(sizes)), float(budget)
    for place, k in enumerate(np.argsort(sizes, kind="stable")):
        found[k] = min(left / (len(sizes) - place), epochs * sizes[k])
        left -= found[k]
    return found


def fit_unimax(problem: trials.Problem, config: FixedConfig, tokens: float) -> Fit:
    """Returns UniMax's mixture for a run of so many tokens; it reads no text.

    Where all text together is too little for the run, the mixture is the natural one.
    """
    sizes = np.array([problem.corpus.size(name) for name in problem.names], float)
    read = unimax_tokens(sizes, tokens, config.unimax_epochs)
    return Fit(mixture=problem.mixture(read))
