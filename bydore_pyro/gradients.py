"""Gradients of single sequences, as random sign sketches of a few thousand numbers.

A gradient has as many numbers as the model has parameters ``P``. Inner products are all that the
matching evidence needs of it, and a random projection keeps them::

    z = fold(sign * W^(1/2) grad ell(x)),    fold: coordinate p to number p mod S

``E[z . z'] = <grad, W grad'>`` over the signs, with a relative error of about ``1 / sqrt(S)``. So
memory is sequences times ``S``, at any number of domains and any size of the model.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bydore_pyro.proxy import Proxy

__all__ = ["GradientSketch", "inverse_variance"]

MOST_VALUES = 2**23  # of the gradients that are held at once; 32 MiB in float32


class GradientSketch:
    """Sketches the gradient of each sequence's mean next-token loss at the proxy's parameters.

    The parameters are only read. Gradients are computed in float32, whatever the precision of the
    training. Where several processes share a batch's rows, each sketches its own.

    Args:
        proxy: The language model.
        size: ``S``, numbers of a sketch.
        seed: Of the signs.

    Attributes:
        metric: Square root of the diagonal metric ``W`` by parameter ``(P,)``; None for ``W = I``.

    Raises:
        ValueError: When `size` is below 1.
    """

    def __init__(self, proxy: Proxy, size: int = 4096, seed: int = 0) -> None:
        if size < 1:
            raise ValueError(f"Expected size >= 1, actual {size}")
        self.proxy, self.size = proxy, size
        parameters = proxy.parameters.values()
        self.count = sum(p.numel() for p in parameters)  # P
        self.folded = min(size, self.count)
        generator = torch.Generator().manual_seed(seed)
        signs = torch.randint(0, 2, (self._padded,), generator=generator, dtype=torch.int8)
        self._signs = (2 * signs - 1).to(next(iter(parameters)).device)
        self.metric: Tensor | None = None

    @property
    def _padded(self) -> int:
        """``P``, rounded up to a multiple of the size."""
        return math.ceil(self.count / self.folded) * self.folded

    @property
    def chunk(self) -> int:
        """Sequences whose gradients are computed at once in each process."""
        return max(1, MOST_VALUES // self.count)

    def __call__(self, batch: Tensor, part: str) -> Tensor:
        """Returns the sketches ``(B, S)`` of sequences ``(B, T)``, float32, on the CPU.

        Args:
            batch: Token ids.
            part: The part of the cost counter to charge.
        """
        each = self.chunk * self.proxy.parallel.count
        return torch.cat([self._sketch(rows, part) for rows in batch.split(each)])

    def _sketch(self, rows: Tensor, part: str) -> Tensor:
        gradients = self.proxy.sequence_gradients(rows, part)  # (b, P), of this process's rows
        if self.metric is not None:
            gradients = gradients * self.metric
        padded = torch.nn.functional.pad(gradients, (0, self._padded - self.count))
        folded = (padded * self._signs).view(len(gradients), -1, self.folded).sum(1)
        return self.proxy.parallel.gather(folded, len(rows)).cpu()


def inverse_variance(variance: Tensor, floor: float) -> Tensor:
    """Returns ``1 / sqrt(v + floor mean(v))`` for a variance by parameter ``(P,)``."""
    return (variance + floor * variance.mean()).rsqrt()
