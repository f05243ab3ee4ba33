"""Sketches of a sharded model: those of the whole model's gradients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from processes import on_two_processes
from tiny import Bigram
from torch import Tensor, nn
from training_runs import tiny_shape
from transformers import LlamaForCausalLM

from bydore_pyro.proxy.gradients import GradientSketch
from bydore_pyro.proxy.measured_model import MeasuredModel
from bydore_pyro.proxy.sharded import ShardedSketch, is_sharded, micro_batch

SIZE, SEED = 1000, 3


def model_and_batch() -> tuple[nn.Module, Tensor]:
    """A model whose first dimensions two processes do not share equally, and 16 sequences."""
    shape = tiny_shape()
    shape.vocab_size = 301
    torch.manual_seed(0)
    batch = torch.randint(0, 301, (16, 12), generator=torch.Generator().manual_seed(1))
    return LlamaForCausalLM(shape), batch


# Two processes sketch 8 sequences one by one, then 16 in pairs; the model is training meanwhile.
# Then they train a model of their own on a live mixture.
SCRIPT = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[1:]
import torch
from test_live_mixture import live_of, trained
from tiny import Bigram
from torch.distributed.fsdp import fully_shard
from test_sharded import SEED, SIZE, model_and_batch
from bydore_pyro.proxy.measured_model import MeasuredModel
from bydore_pyro.proxy.parallel import Parallel
from bydore_pyro.proxy.sharded import ShardedSketch, is_sharded

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
assert all(torch.equal(p.grad.to_local(), g) for p, g in zip(model.parameters(), before))
assert sketch.model.cost.tokens["gradients"] == (2 * 8 + 16) * 12
assert sketch.witnesses(torch.arange(16).numpy() // 5).tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
live, model = live_of(parallel=parallel), fully_shard(Bigram(24, 0))
trained(live, model, range(1, 11))
found += [torch.from_numpy(one.weights) for one in live.rounds]
torch.save(found, f"found-{parallel.index}.pt")
"""


@pytest.mark.slow
def test_two_processes_sketch_the_gradients_of_the_whole_model(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    tests = Path(__file__).parent
    on_two_processes("script.py", tests, tests.parent, tests.parent / "live", cwd=tmp_path)
    first, second = (torch.load(tmp_path / f"found-{i}.pt", weights_only=True) for i in (0, 1))
    for mine, others in zip(first, second, strict=True):
        assert torch.equal(mine, others)
    model, batch = model_and_batch()
    sketches, losses = GradientSketch(MeasuredModel(model), SIZE, SEED)(batch, "gradients")
    pairs = sketches.view(8, 2, -1).mean(1), losses.view(8, 2).mean(1)
    for found, expected in zip(first[:4], (sketches[:8], losses[:8], *pairs), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    planted = torch.tensor([0.6, 0.4, 0, 0], dtype=torch.float64)
    assert 0.5 * float((first[-1] - planted).abs().sum()) < 0.1, "by rounds after 5 and 10 steps"


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
