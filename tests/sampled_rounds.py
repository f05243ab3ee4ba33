"""Rounds of evidence from gradients that are drawn: known means, noise by sequence and document."""

from __future__ import annotations

import torch
from torch import Tensor

from bydore_pyro.core.matching import RoundEvidence, Sample, round_evidence

SIZE = 24
SHARES = torch.tensor([0.5, 0.3, 0.2, 0.0], dtype=torch.float64)


def normal(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def sample(mean: Tensor, count: int, seed: int, *, effect: float = 0.0, each: int = 1) -> Sample:
    """Sequences with noise of their own and, `each` to a document, noise of their document's."""
    documents = torch.arange(count) // each
    own = normal(count, len(mean), seed=2 * seed)
    shared = effect * normal(count, len(mean), seed=2 * seed + 1)[documents]
    return Sample((mean + own + shared).float(), documents)


def a_round(
    means: Tensor, shares: Tensor, seed: int, *, count: int = 12, effect: float = 0.0, each: int = 1
) -> RoundEvidence:
    options = {"effect": effect, "each": each}
    domains = [sample(m, count, 100 * seed + k, **options) for k, m in enumerate(means)]
    return round_evidence(domains, sample(shares @ means, 4 * count, 100 * seed + 99, **options))
