"""Sketches of a sharded model: those of the whole model's gradients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from processes import on_two_processes
from tiny import Bigram
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from training_runs import tiny_shape
from transformers import LlamaForCausalLM

from bydore_pyro.proxy.gradients import GradientSketch
from bydore_pyro.proxy.measured_model import MeasuredModel
from bydore_pyro.proxy.parallel import Parallel
from bydore_pyro.proxy.sharded import ShardedSketch, is_sharded, micro_batch

SIZE, SEED = 1000, 3


def model_and_batch() -> tuple[nn.Module, Tensor]:
    """A model whose first dimensions two processes do not share equally, and 16 sequences."""
    shape = tiny_shape()
    shape.vocab_size = 301
    torch.manual_seed(0)
    batch = torch.randint(0, 301, (16, 12), generator=torch.Generator().manual_seed(1))
    return LlamaForCausalLM(shape), batch


def test_two_processes_sketch_the_gradients_of_the_whole_model(tmp_path: Path) -> None:
    """8 sequences one by one, then 16 in pairs, of a model that is training meanwhile."""

    def work(rank: int) -> None:
        parallel, (model, batch) = Parallel(), model_and_batch()
        assert not is_sharded(model)
        for layer in model.model.layers:
            fully_shard(layer)
        fully_shard(model)
        assert is_sharded(model)
        model(input_ids=batch).logits.sum().backward()
        before = [p.grad.to_local().clone() for p in model.parameters()]
        sketch = ShardedSketch(MeasuredModel(model, parallel=parallel), SIZE, SEED)
        found = [*sketch(batch[:8], "gradients"), *sketch(batch, "gradients")]
        after = [p.grad.to_local() for p in model.parameters()]
        assert all(map(torch.equal, after, before))
        assert sketch.model.cost.tokens["gradients"] == (2 * 8 + 16) * 12
        assert sketch.witnesses(np.arange(16) // 5).tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
        torch.save(found, f"found-{rank}.pt")

    on_two_processes(work, tmp_path)
    first, second = (torch.load(tmp_path / f"found-{i}.pt", weights_only=True) for i in (0, 1))
    for mine, others in zip(first, second, strict=True):
        assert torch.equal(mine, others)
    model, batch = model_and_batch()
    sketches, losses = GradientSketch(MeasuredModel(model), SIZE, SEED)(batch, "gradients")
    pairs = sketches.view(8, 2, -1).mean(1), losses.view(8, 2).mean(1)
    for found, expected in zip(first, (sketches[:8], losses[:8], *pairs), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("sequences", "processes", "expected"),
    [(8, 4, 1), (64, 8, 8), (64, 64, 8), (16, 4, 2), (24, 8, 2), (15, 2, 1), (3, 8, 1)],
)
def test_micro_batches_are_whole_and_not_too_few(
    sequences: int, processes: int, expected: int
) -> None:
    assert micro_batch(sequences, processes) == expected


class Flat(nn.Module):
    """What FSDP's first version leaves: one flat parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.flat = nn.Parameter(torch.zeros(8))
        self.flat._is_flat_param = True


def test_other_shards_are_refused() -> None:
    assert is_sharded(Flat())
    assert not is_sharded(Bigram(8))
    with pytest.raises(ValueError, match=r"Expected parameters that FSDP2 shards .* found 'flat'"):
        ShardedSketch(MeasuredModel(Flat()))
    assert np.array_equal(
        GradientSketch(MeasuredModel(Bigram(8))).witnesses(np.arange(3)), [0, 1, 2]
    )
