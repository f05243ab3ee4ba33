"""Gradients of sequences by domain, the metric they are compared in, and domains pooled as one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Metric", "Sample", "members_of", "pooled"]

RIDGE = 3.0  # of the metric, in means of the eigenvalues


@dataclass(frozen=True)
class Sample:
    """Gradients of sequences, and the documents that these lie in.

    Attributes:
        gradients: Or sketches of them ``(n, S)``.
        documents: Number of each one's document ``(n,)``, integers; equal numbers, one witness.
    """

    gradients: Tensor
    documents: Tensor


class Metric:
    """``W^(1/2)`` with ``W = (Sigma + tau I)^-1 tau``: gradients that vary most count least.

    ``Sigma`` is the covariance of gradients within domains, pooled: how sequences of one kind
    differ tells no kinds apart. Few sequences leave most of it unknown; the ridge ``tau``, a
    multiple of the mean of the eigenvalues that are known, keeps ``W`` near ``I`` there.

    Args:
        domains: Samples; one of each domain.
        ridge: The multiple.

    References:
        Hansen (1982), Large sample properties of generalized method of moments estimators,
        Econometrica 50: the weights that are efficient.
    """

    def __init__(self, domains: Sequence[Sample], ridge: float = RIDGE) -> None:
        centred = [s.gradients - s.gradients.mean(0) for s in domains]
        deviations = torch.cat(centred)  # (n, S)
        count, size = deviations.shape
        deviations = deviations / math.sqrt(max(count - len(domains), 1))
        if count <= size:  # of the two products of the same eigenvalues, the smaller
            values, vectors = torch.linalg.eigh((deviations @ deviations.T).double())
            values = values.clamp(min=1e-12 * float(values[-1]) + 1e-300)
            directions = deviations.double().T @ (vectors / values.sqrt())  # (S, n)
        else:
            values, directions = torch.linalg.eigh((deviations.T @ deviations).double())
        tau = ridge * values.clamp(min=0).mean()
        self._shrinkage = (1 - (tau / (values.clamp(min=0) + tau)).sqrt()).to(deviations.dtype)
        self._directions = directions.to(deviations.dtype)

    def __call__(self, gradients: Tensor) -> Tensor:
        """Returns ``W^(1/2) z`` for gradients ``(..., S)``."""
        return gradients - ((gradients @ self._directions) * self._shrinkage) @ self._directions.T

    def of(self, sample: Sample) -> Sample:
        """Returns a sample in the metric."""
        return Sample(self(sample.gradients), sample.documents)


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
