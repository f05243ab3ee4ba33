"""Small searches of both kinds."""

from __future__ import annotations

import numpy as np
import pytest
from bydore_pyro.search.config import SearchConfig
from bydore_pyro.search.search import init_search
from bydore_pyro.search.state import SearchState
from tiny import Bigram

from bydore_pyro.data.domains import Domains
from bydore_pyro.data.store import TokenStore
from bydore_pyro.proxy.proxy import Proxy, ProxyConfig

LINEAR = SearchConfig(
    evidence="linear", steps=12, batch_sequences=8, validation_batch=8, guide_warmup=2
)


MATCHING = SearchConfig(
    steps=10,
    rounds=2,
    train_share=0.6,
    round_sequences=16,
    sketch_size=512,
    inference_steps=20,
    check_sequences=4,
    batch_sequences=8,
)


KINDS = pytest.mark.parametrize("config", [LINEAR, MATCHING], ids=["linear", "matching"])


def state_of(
    corpus: TokenStore,
    config: SearchConfig = LINEAR,
    *,
    seed: int = 0,
    proxy: ProxyConfig | None = None,
    validation: dict[str, float] | None = None,
) -> SearchState:
    domains = Domains(
        corpus,
        validation or {"birds": 1.0},
        sequence_length=32,
        validation_sequences=64,
        measured=config.measured_sequences(len(corpus.names)),
        seed=seed,
    )
    model = Bigram(corpus.vocabulary, seed)
    return init_search(domains, Proxy(model, proxy or ProxyConfig()), config, seed=seed)


def means(state: SearchState) -> np.ndarray:
    return np.stack([record.mean for record in state.records])
