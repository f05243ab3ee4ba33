"""The kinds of search: by gradient matching in rounds, or by the paper's Algorithm 1."""

from __future__ import annotations

from bydore_pyro.core import PriorNetworkConfig
from bydore_pyro.data import Domains
from bydore_pyro.proxy import Proxy
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.linear import LinearSearch
from bydore_pyro.search.matching import MatchingSearch
from bydore_pyro.search.search import SearchState

__all__ = ["init_search"]


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
