"""ByDoRe on Pyro: a posterior over the shares of text domains in a pre-training mixture.

Names are imported from their modules when they are first used, so that this import stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bydore_pyro.data.tokens import load_tokens
    from bydore_pyro.distribution import GammaDirichlet
    from bydore_pyro.domains import Domains
    from bydore_pyro.elbo import HypergradientELBO
    from bydore_pyro.guide import MixtureGuide, mixture_model
    from bydore_pyro.hypergradient import finite_difference
    from bydore_pyro.importance import corrected_draws
    from bydore_pyro.inference import InferenceConfig, infer
    from bydore_pyro.mixture import Mixture
    from bydore_pyro.prior_net import FreeConcentrations, PriorNetwork, PriorNetworkConfig
    from bydore_pyro.proxy import Proxy, ProxyConfig, build_language_model
    from bydore_pyro.search import init_search, run_search, search_step
    from bydore_pyro.search_config import SearchConfig

_MODULES = {
    "GammaDirichlet": "distribution",
    "Domains": "domains",
    "HypergradientELBO": "elbo",
    "MixtureGuide": "guide",
    "mixture_model": "guide",
    "finite_difference": "hypergradient",
    "corrected_draws": "importance",
    "InferenceConfig": "inference",
    "infer": "inference",
    "Mixture": "mixture",
    "FreeConcentrations": "prior_net",
    "PriorNetwork": "prior_net",
    "PriorNetworkConfig": "prior_net",
    "Proxy": "proxy",
    "ProxyConfig": "proxy",
    "build_language_model": "proxy",
    "SearchConfig": "search_config",
    "init_search": "search",
    "run_search": "search",
    "search_step": "search",
    "load_tokens": "data.tokens",
}
__all__ = [
    "Domains",
    "FreeConcentrations",
    "GammaDirichlet",
    "HypergradientELBO",
    "InferenceConfig",
    "Mixture",
    "MixtureGuide",
    "PriorNetwork",
    "PriorNetworkConfig",
    "Proxy",
    "ProxyConfig",
    "SearchConfig",
    "build_language_model",
    "corrected_draws",
    "finite_difference",
    "infer",
    "init_search",
    "load_tokens",
    "mixture_model",
    "run_search",
    "search_step",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
