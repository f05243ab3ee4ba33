"""Domains that share one weight, each in proportion to its text, as one domain."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from bydore_pyro.core.matching import Sample

__all__ = ["members_of", "pooled"]


def pooled(samples: Sequence[Sample], sizes: Sequence[float]) -> Sample:
    """Returns a sample of several domains together, as many sequences of each as its share.

    Args:
        samples: One of each domain.
        sizes: Of the domains' text, in any unit.
    """
    if len(samples) == 1:
        return samples[0]
    least = min(len(one.gradients) / size for one, size in zip(samples, sizes, strict=True))
    gradients, documents, before = [], [], 0
    for one, size in zip(samples, sizes, strict=True):
        count = max(1, int(least * size))
        gradients.append(one.gradients[:count])
        documents.append(before + one.documents[:count])
        before += int(one.documents.max()) + 1
    return Sample(torch.cat(gradients), torch.cat(documents))


def members_of(groups: Sequence[Sequence[int]], sizes: Sequence[float]) -> Tensor:
    """Returns which share of a group's weight each domain has, ``(G, K)``, rows summing to 1.

    Args:
        groups: The places of the domains in each group; every domain stands in one.
        sizes: Of the domains' text ``(K,)``.
    """
    members = torch.zeros(len(groups), len(sizes), dtype=torch.float64)
    for row, places in enumerate(groups):
        whole = sum(sizes[place] for place in places)
        for place in places:
            members[row, place] = sizes[place] / whole
    return members
