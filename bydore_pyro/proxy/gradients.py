"""Gradients of single sequences, as random sign sketches of a few thousand numbers.

A gradient has as many numbers as the model has parameters ``P``. Inner products are all that the
matching evidence needs of it, and a random projection keeps them::

    z = fold(sign * grad ell(x)),    fold: coordinate p is added to number p mod S

``E[z . z'] = <grad, grad'>`` over the signs, with a relative error of about ``1 / sqrt(S)``. So
memory is sequences times ``S``, at any number of domains and any size of the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from bydore_pyro import core, terminal
from bydore_pyro.proxy.measured_model import MeasuredModel

# Of the gradients that are held at once in float32: 32 MiB on a processor, 1 GiB on a GPU.
MAX_VALUES = {"cpu": 2**23, "cuda": 2**28}
TRIM_EVERY = 64  # sequences, after which freed memory, which is scattered, is given back


def random_signs(count: int, seed: int) -> Tensor:
    """Returns signs ``(count,)``, int8, on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randint(0, 2, (count,), generator=generator, dtype=torch.int8) - 1


class GradientSketch:
    """Sketches the gradient of each sequence's loss at the model's parameters.

    The parameters are only read. Gradients are computed in float32, whatever the precision of the
    training. Where several processes share a batch's rows, each sketches its own.

    Args:
        model: The language model.
        size: ``S >= 1``, numbers of a sketch.
        seed: Of the signs.
    """

    _untrimmed = 0  # sequences of this process since freed memory was given back

    def __init__(self, model: MeasuredModel, size: int = 4096, seed: int = 0) -> None:
        parameters = model.parameters.values()
        self.model = model
        self.count = sum(p.numel() for p in parameters)  # P
        self.size = min(size, self.count)
        self._signs = random_signs(self.count, seed).to(next(iter(parameters)).device)

    @property
    def chunk(self) -> int:
        """Sequences whose gradients are computed at once in each process."""
        most = MAX_VALUES.get(self._signs.device.type, MAX_VALUES["cpu"])
        return max(1, most // self.count)

    def __call__(
        self,
        batch: Tensor,
        part: str,
        done: Callable[[int], object] = lambda count: None,
        weights: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Returns sketches ``(B, S)`` and losses ``(B,)``, float32, on the CPU, of token ids
        ``(B, T)``; charges a part of the cost counter, and says how many are `done`.

        A loss is the mean of its tokens', nats per token; with weights ``(B, T - 1)`` their sum by
        these.

        Raises:
            Interrupted: See `stop_if_asked`; it is asked after every chunk.
        """
        pieces = []
        size = self.chunk * self.model.parallel.count
        for start in range(0, len(batch), size):
            rows = batch[start : start + size]
            own = None if weights is None else weights[start : start + size]
            pieces.append(self._sketch(rows, part, own))
            done(len(rows))
            terminal.stop_if_asked(self.model.parallel.largest)
            GradientSketch._untrimmed += len(rows)
            if self._untrimmed >= TRIM_EVERY:
                GradientSketch._untrimmed = 0
                terminal.return_freed_memory()
        sketches, losses = zip(*pieces, strict=True)
        return torch.cat(sketches), torch.cat(losses)

    def _sketch(self, rows: Tensor, part: str, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        # (b, P), of own rows
        gradients, losses = self.model.sequence_gradients(rows, part, weights)
        gradients *= self._signs  # in place: a copy would be a third of the peak memory
        whole = self.count // self.size * self.size
        folded = gradients[:, :whole].unflatten(1, (-1, self.size)).sum(1)  # (b, S)
        folded[:, : self.count - whole] += gradients[:, whole:]
        gather, count = self.model.parallel.gather, len(rows)
        return gather(folded, count).cpu(), gather(losses, count).cpu()

    def unfolded(self, sketch: Tensor) -> core.Parameters:
        """Returns the direction ``D`` with ``<grad, D> = z . sketch``, for a sketch ``(S,)``."""
        parameters = self.model.parameters
        times = math.ceil(self.count / self.size)
        flat = sketch.float().to(self._signs.device).repeat(times)[: self.count] * self._signs
        parts = flat.split([p.numel() for p in parameters.values()])
        return {n: d.view_as(p) for (n, p), d in zip(parameters.items(), parts, strict=True)}
