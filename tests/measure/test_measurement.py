"""Measurements: what is measured comes back as it was, to whom it belongs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from searches import MATCHING, MatchingRun, domains_of
from tiny import Bigram

from bydore_pyro.core.matching import Sample
from bydore_pyro.data.store import TokenStore
from bydore_pyro.errors import DataError, NonFiniteError, RunFolderError
from bydore_pyro.measure.measurement import (
    Measurement,
    frozen,
    keep_measurement,
    measure,
    read_measurements,
    sample_of,
    sampled,
    set_parameters,
    thawed,
)
from bydore_pyro.proxy.config import ProxyConfig
from bydore_pyro.proxy.gradients import GradientSketch
from bydore_pyro.proxy.proxy import Proxy


def measurement(scale: float) -> Measurement:
    generator = torch.Generator().manual_seed(0)
    sketches = scale * torch.randn(2, 6, 8, generator=generator)
    return Measurement(
        step=7,
        parameters={"a.b": torch.randn(3, 2, generator=generator)},
        samples={n: Sample(z, torch.arange(6) // 2) for n, z in zip("ba", sketches, strict=True)},
    )


def test_a_sample_is_the_sketches_and_what_is_not_finite_is_named(corpus: TokenStore) -> None:
    proxy = Proxy(Bigram(corpus.vocabulary), ProxyConfig())
    sketch = GradientSketch(proxy, 64)
    batch = torch.arange(40).reshape(4, 10) % corpus.vocabulary
    sample = sample_of(sketch, batch, np.array([0, 0, 1, 1]), 7, "birds")
    expected, _ = sketch(batch, "gradients")
    assert torch.equal(sample.gradients, expected)
    assert sample.documents.tolist() == [0, 0, 1, 1]
    cost = proxy.cost.tokens["gradients"]
    again, _ = sampled(sketch, 2 * [("birds", batch, np.array([0, 0, 1, 1]))], 7)
    rounded = (again.gradients - expected).abs().max() / expected.abs().max()
    assert 0 < float(rounded) < 2**-11, "as float16 keeps it"
    assert proxy.cost.tokens["gradients"] == 2 * cost
    with torch.no_grad():
        proxy.model.table[3] = float("nan")
    with pytest.raises(NonFiniteError, match="Step 7: the loss of domain 'birds' is nan"):
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
    assert list(after.samples) == list(before.samples)
    for left, right in zip(after.samples.values(), before.samples.values(), strict=True):
        assert torch.equal(left.documents, right.documents)
        assert float((left.gradients - right.gradients).abs().max()) < 5e-4 * 4 * scale
        again = thawed(*frozen(left))
        assert torch.equal(again.gradients, left.gradients), "kept once more it stays the same"
    with pytest.raises(RunFolderError, match=r"Expected seed 1, with which .* found 2"):
        read_measurements(tmp_path, {"seed": 2, "domains": {}})
    assert read_measurements(tmp_path / "elsewhere", run) == []
    (tmp_path / "measured-1" / "tree.json").write_text("{")
    assert read_measurements(tmp_path, run) == [], "a damaged one is none"
    keep_measurement(tmp_path, 1, before, run)
    assert len(read_measurements(tmp_path, run)) == 1
    assert (tmp_path / "refused-measured-1").is_dir()


@pytest.fixture
def run(corpus: TokenStore) -> MatchingRun:
    return MatchingRun(domains_of(corpus, measured=MATCHING.measured_sequences(4)))


def test_what_is_in_memory_is_what_is_read_back(run: MatchingRun, tmp_path: Path) -> None:
    """To the last bit: who goes on from the folder finds the same."""
    before = measure(run.sketch, run.domains, 16, 3)
    belongs = {"domains": dict.fromkeys(run.domains.names, "")}
    keep_measurement(tmp_path, 1, before, belongs)
    (after,) = read_measurements(tmp_path, belongs)
    assert tuple(after.samples) == run.domains.names
    for name, sample in before.samples.items():
        assert torch.equal(sample.gradients, after.samples[name].gradients)
        assert torch.equal(sample.documents, after.samples[name].documents)
    with torch.no_grad():
        run.proxy.model.table += 1
    set_parameters(run.proxy, after)
    assert torch.equal(run.proxy.model.table, before.parameters["table"])
    with pytest.raises(DataError, match=r"the model that was measured, found another: its table"):
        set_parameters(Proxy(Bigram(7), ProxyConfig()), after)
