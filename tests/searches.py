"""Small searches of both kinds, without a folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tiny import Bigram

from bydore_pyro.algorithm1.config import LinearConfig
from bydore_pyro.algorithm1.search import LinearSearch, StepRecord
from bydore_pyro.data.domains import Domains
from bydore_pyro.data.store import TokenStore
from bydore_pyro.measure.config import MatchingConfig
from bydore_pyro.measure.measured_steps import measured_training
from bydore_pyro.measure.measurement import Measurement
from bydore_pyro.proxy.config import ProxyConfig
from bydore_pyro.proxy.gradients import GradientSketch
from bydore_pyro.proxy.proxy import Proxy

LINEAR = LinearConfig(validation_batch=8, guide_warmup=2)
MATCHING = MatchingConfig(
    steps=10, rounds=2, round_sequences=16, sketch_size=512, check_sequences=4, batch_sequences=8
)


def domains_of(
    corpus: TokenStore, *, measured: int = 0, seed: int = 0, **validation: float
) -> Domains:
    return Domains(
        corpus,
        validation or {"birds": 1.0},
        sequence_length=32,
        validation_sequences=64,
        measured=measured,
        seed=seed,
    )


def linear_search(
    corpus: TokenStore,
    config: LinearConfig = LINEAR,
    *,
    seed: int = 0,
    proxy: Proxy | None = None,
    validation: dict[str, float] | None = None,
    **given: Any,
) -> LinearSearch:
    """Before its first of twelve steps."""
    return LinearSearch.begin(
        domains_of(corpus, seed=seed, **validation or {}),
        proxy or Proxy(Bigram(corpus.vocabulary, seed), ProxyConfig()),
        config,
        seed=seed,
        **{"steps": 12, "batch_sequences": 8, **given},
    )


def all_steps(state: LinearSearch) -> list[StepRecord]:
    """Takes the steps that are left."""
    return [state.step() for _ in range(state.steps - len(state.records))]


@dataclass
class MatchingRun:
    """A proxy that is trained and measured."""

    domains: Domains
    config: MatchingConfig = MATCHING
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    measured: list[Measurement] = field(default_factory=list)

    def __post_init__(self) -> None:
        model = Bigram(self.domains.corpus.vocabulary, self.seed)
        self.proxy = Proxy(model, ProxyConfig(**self.options))
        self.sketch = GradientSketch(self.proxy, self.config.sketch_size, self.seed)

    def run(self) -> MatchingRun:
        """Takes the steps that are left."""
        given = (self.domains, self.proxy, self.sketch, self.config)
        steps = measured_training(*given, seed=self.seed)
        self.measured += [one.measured for one in steps if one.measured is not None]
        return self
