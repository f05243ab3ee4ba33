"""The options decide which kind of search it is."""

from __future__ import annotations

from searches import LINEAR, MATCHING, state_of
from tiny import Bigram

from bydore_pyro.data.domains import Domains
from bydore_pyro.data.store import TokenStore
from bydore_pyro.proxy.proxy import Proxy, ProxyConfig
from bydore_pyro.search.kinds import init_search
from bydore_pyro.search.linear import LinearSearch
from bydore_pyro.search.matching import MatchingSearch


def test_the_options_decide_which_search_it_is(corpus: TokenStore) -> None:
    for config, kind in ((LINEAR, LinearSearch), (MATCHING, MatchingSearch)):
        domains = state_of(corpus, config).domains
        proxy = Proxy(Bigram(corpus.vocabulary), ProxyConfig())
        assert type(init_search(domains, proxy, config)) is kind
    assert isinstance(domains, Domains)
