"""Gradients of a model that FSDP2 shards among processes, sketched shard by shard.

No process holds a whole gradient. Each computes a sequence of a micro-batch; FSDP leaves it its
shard of the mean gradient; it folds that shard as `GradientSketch` folds a whole gradient. The
folds are added up: a sketch of ``S`` numbers is all that the processes exchange beside FSDP's own.

A micro-batch of fewer sequences than processes is computed several times. That costs more and
leaves more micro-batches, whose scatter shows how surely the mean is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor, nn

from bydore_pyro.proxy.gradients import random_signs
from bydore_pyro.proxy.measured_model import MeasuredModel
from bydore_pyro.utils import stop_if_asked

FEWEST = 8  # micro-batches of a batch, where it has as many sequences


def is_sharded(model: nn.Module) -> bool:
    """Whether the processes share a model's parameters (FSDP)."""
    return any(
        hasattr(p, "device_mesh") or hasattr(p, "_is_flat_param") for p in model.parameters()
    )


def micro_batch(sequences: int, processes: int) -> int:
    """Returns how many of a batch's sequences are one micro-batch: as many as there are processes,
    or fewer, where this leaves less than 8 micro-batches or some process idle."""
    fitting = [m for m in range(1, processes + 1) if not (processes % m or sequences % m)]
    return max((m for m in fitting if sequences // m >= FEWEST), default=1)


class ShardedSketch:
    """Sketches the mean gradients of micro-batches, in the precision of the training.

    Args:
        model: The language model, whose `parallel` are all the processes that share it.
        size: ``S >= 1``, numbers of a sketch.
        seed: Of the signs; with the same one, sketches are those of `GradientSketch`.

    Raises:
        ValueError: When a parameter is not sharded by FSDP2 along its first dimension.
    """

    def __init__(self, model: MeasuredModel, size: int = 4096, seed: int = 0) -> None:
        self.model = model
        count = sum(p.numel() for p in model.parameters.values())
        self.size = min(size, count)
        signs = random_signs(count, seed)
        self._shards: list[tuple[nn.Parameter, int, Tensor]] = []  # place in the sketch, signs
        begins = self._replicas = 0
        for name, parameter in model.model.named_parameters():
            if not parameter.requires_grad:
                continue
            first, length, self._replicas = _shard(name, parameter)
            first += begins
            own = signs[first : first + length].to(parameter.device)
            self._shards.append((parameter, first % self.size, own))
            begins += parameter.numel()

    def __call__(
        self, batch: Tensor, part: str, done: Callable[[int], object] = lambda count: None
    ) -> tuple[Tensor, Tensor]:
        """Returns sketches ``(M, S)`` and losses ``(M,)``, nats per token, float32, on the CPU, of
        the ``M`` micro-batches of token ids ``(B, T)``; charges a part of the cost counter, and
        says how many sequences are `done`.

        Raises:
            Interrupted: See `stop_if_asked`; it is asked after every micro-batch.
        """
        parallel = self.model.parallel
        together = micro_batch(len(batch), parallel.count)
        before = [parameter.grad for parameter, *_ in self._shards]
        sketches, losses = [], []
        try:
            for rows in batch.split(together):
                for parameter, *_ in self._shards:
                    parameter.grad = None
                own = rows.repeat(parallel.count // together, 1)
                loss = self.model.own_losses(own, part).mean()
                loss.backward()
                sketches.append(self._folded())
                losses.append(loss.detach())
                done(len(rows))
                stop_if_asked(parallel.largest)
        finally:
            for (parameter, *_), gradient in zip(self._shards, before, strict=True):
                parameter.grad = gradient
        added, mean = parallel.sum([torch.stack(sketches), torch.stack(losses)])
        return (added / self._replicas).cpu(), (mean / parallel.count).float().cpu()

    def witnesses(self, documents: np.ndarray) -> np.ndarray:
        """Returns the numbers ``(M,)`` of micro-batches, given their sequences' documents ``(B,)``:
        micro-batches that share a document have one number."""
        groups = np.arange(len(documents)) // micro_batch(len(documents), self.model.parallel.count)
        _, numbers = np.unique(documents, return_inverse=True)
        count = int(groups[-1]) + 1
        ends, size = (groups, count + numbers), count + len(documents)
        shared = coo_array((np.ones(len(documents)), ends), shape=(size, size))
        return connected_components(shared, directed=False)[1][:count]

    def _folded(self) -> Tensor:
        """The fold ``(S,)`` of this process's shards."""
        folded = torch.zeros(self.size, device=self._shards[0][0].device)
        for parameter, place, signs in self._shards:
            gradient: Any = parameter.grad
            if not len(signs) or gradient is None:
                continue
            values = gradient.to_local().flatten().float() * signs
            ends = -(place + len(values)) % self.size
            padded = nn.functional.pad(values, (place, ends))
            folded += padded.view(-1, self.size).sum(0)
        return folded


def _shard(name: str, parameter: Any) -> tuple[int, int, int]:
    """Returns where this process's shard of a flat parameter begins, its length, and how many
    processes hold the same."""
    sharded = [i for i, p in enumerate(getattr(parameter, "placements", ())) if p.is_shard(0)]
    others = [p for p in getattr(parameter, "placements", ()) if not p.is_shard(0)]
    if len(sharded) != 1 or not all(p.is_replicate() for p in others):
        raise ValueError(
            f"Expected parameters that FSDP2 shards along their first dimension, found '{name}' "
            f"{getattr(parameter, 'placements', 'whole or flat')}"
        )
    mesh, rows = parameter.device_mesh, len(parameter)
    index, count = mesh.get_local_rank(sharded[0]), mesh.size(sharded[0])
    row = math.prod(parameter.shape[1:])
    first = min(index * -(-rows // count), rows) * row
    return first, parameter.to_local().numel(), mesh.size() // count
