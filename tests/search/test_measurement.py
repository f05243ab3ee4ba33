"""What rounds measured comes back, nearly as it was, to whom it belongs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bydore_pyro.core.matching import Sample
from bydore_pyro.search.measurement import Measurement, keep_measurement, read_measurements
from bydore_pyro.utils.errors import DataError


def measurement(scale: float) -> Measurement:
    generator = torch.Generator().manual_seed(0)
    sketches = scale * torch.randn(2, 6, 8, generator=generator)
    return Measurement(
        step=7,
        parameters={"a.b": torch.randn(3, 2, generator=generator)},
        samples=tuple(Sample(one, torch.arange(6) // 2) for one in sketches),
        losses=torch.tensor([1.0, 2.0]),
    )


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_it_comes_back_within_float16_at_any_scale(tmp_path: Path, scale: float) -> None:
    before = measurement(scale)
    keep_measurement(tmp_path, 1, before, {"seed": 1})
    keep_measurement(tmp_path, 1, measurement(5.0), {"seed": 1})  # what is there stays
    (after,) = read_measurements(tmp_path, {"seed": 1})
    assert after.step == 7
    assert torch.equal(after.parameters["a.b"], before.parameters["a.b"])
    assert torch.equal(after.losses, before.losses)
    for left, right in zip(after.samples, before.samples, strict=True):
        assert torch.equal(left.documents, right.documents)
        assert float((left.gradients - right.gradients).abs().max()) < 5e-4 * 4 * scale
    with pytest.raises(DataError, match="Expected seed 2 in"):
        read_measurements(tmp_path, {"seed": 2})
    with pytest.raises(DataError, match="found none in"):
        read_measurements(tmp_path / "elsewhere", {"seed": 1})
