"""What rounds measured comes back, nearly as it was, to whom it belongs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import Bigram

from bydore_pyro.core.samples import Sample
from bydore_pyro.data.store import TokenStore
from bydore_pyro.proxy.gradients import GradientSketch
from bydore_pyro.proxy.proxy import Proxy, ProxyConfig
from bydore_pyro.search.measurement import (
    Measurement,
    keep_measurement,
    read_measurements,
    sample_of,
)
from bydore_pyro.utils.errors import DataError, NonFiniteError


def measurement(scale: float) -> Measurement:
    generator = torch.Generator().manual_seed(0)
    sketches = scale * torch.randn(2, 6, 8, generator=generator)
    return Measurement(
        step=7,
        parameters={"a.b": torch.randn(3, 2, generator=generator)},
        samples=tuple(Sample(one, torch.arange(6) // 2) for one in sketches),
        losses=torch.tensor([1.0, 2.0]),
    )


def test_a_sample_is_the_sketches_and_what_is_not_finite_is_named(corpus: TokenStore) -> None:
    proxy = Proxy(Bigram(corpus.vocabulary), ProxyConfig())
    sketch = GradientSketch(proxy, 64)
    batch = torch.arange(40).reshape(4, 10) % corpus.vocabulary
    sample, loss = sample_of(sketch, batch, np.array([0, 0, 1, 1]), 7, "birds")
    expected, losses = sketch(batch, "gradients")
    assert torch.equal(sample.gradients, expected)
    assert sample.documents.tolist() == [0, 0, 1, 1]
    assert loss == pytest.approx(float(losses.mean()))
    with torch.no_grad():
        proxy.model.table[3] = float("nan")
    with pytest.raises(NonFiniteError, match="Step 7: the signal of domain 'birds' is nan"):
        sample_of(sketch, batch, np.zeros(4, int), 7, "birds")


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_it_comes_back_within_float16_at_any_scale(tmp_path: Path, scale: float) -> None:
    before = measurement(scale)
    run = {"seed": 1, "domains": {"b": "2", "a": "1"}}
    keep_measurement(tmp_path, 1, before, run)
    keep_measurement(tmp_path, 1, measurement(5.0), run)  # what is there stays
    (after,) = read_measurements(tmp_path, run)
    assert after.step == 7
    assert list(after.hashes.items()) == [("b", "2"), ("a", "1")], "in the order of the samples"
    assert torch.equal(after.parameters["a.b"], before.parameters["a.b"])
    assert torch.equal(after.losses, before.losses)
    for left, right in zip(after.samples, before.samples, strict=True):
        assert torch.equal(left.documents, right.documents)
        assert float((left.gradients - right.gradients).abs().max()) < 5e-4 * 4 * scale
    with pytest.raises(DataError, match="Expected seed 2 in"):
        read_measurements(tmp_path, {"seed": 2, "domains": {}})
    with pytest.raises(DataError, match="found none in"):
        read_measurements(tmp_path / "elsewhere", run)
