"""Searches the weights, by gradient matching in rounds or by the paper's Algorithm 1."""

from __future__ import annotations

from collections.abc import Iterator

from bydore_pyro.core import PriorNetworkConfig
from bydore_pyro.data import Domains
from bydore_pyro.proxy import Proxy
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.linear import LinearSearch
from bydore_pyro.search.matching import MatchingSearch
from bydore_pyro.search.state import SearchState, StepRecord
from bydore_pyro.utils import return_freed_memory

__all__ = ["init_search", "run_search", "search_step"]

TRIM_EVERY = 20  # steps


def init_search(
    domains: Domains,
    proxy: Proxy,
    config: SearchConfig,
    network: PriorNetworkConfig | None = None,
    *,
    seed: int = 0,
) -> SearchState:
    """Returns a search before its first step, with the evidence that `config` names.

    For gradient matching, `domains` should keep sequences for measuring
    (`config.measured_sequences` of each domain).
    """
    kind = MatchingSearch if config.evidence == "matching" else LinearSearch
    return kind.begin(domains, proxy, config, network, seed)


def run_search(state: SearchState) -> Iterator[StepRecord]:
    """Yields a record a step until the search is done.

    Raises:
        DataError: When the files of the domains' tokens change while they are read.
        NonFiniteError: See `search_step`; `state.records` holds every step before it.
    """
    while not state.is_done:
        record = search_step(state)
        # What a step reads is looked at before; this also finds what changed since.
        if state.is_done or len(state.records) % TRIM_EVERY == 0:
            state.domains.corpus.require_unchanged()
        yield record
        if len(state.records) % TRIM_EVERY == 0:
            return_freed_memory()


def search_step(state: SearchState) -> StepRecord:
    """Takes one step of the proxy, with what is measured and learned after it.

    Raises:
        NonFiniteError: When a loss, a gradient or the posterior is NaN or infinite; it names the
            step and the domain.
    """
    return state.step()
