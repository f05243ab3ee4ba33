"""The expectation of the evidence, held against its mean over samples."""

from __future__ import annotations

import math

import pyro
import pytest
import torch
from gaussian_evidence import gaussian_evidence

from bydore_pyro.core.distribution import GammaDirichlet
from bydore_pyro.core.evidence import expected_evidence

H, PRECISION = gaussian_evidence(4, 0.2, alike=1)


@pytest.fixture(autouse=True)
def _seed() -> None:
    pyro.set_rng_seed(0)


def test_expected_evidence_equals_its_mean_over_samples() -> None:
    scale = pyro.distributions.LogNormal(torch.tensor(0.1).double(), 0.2)
    a, b = torch.tensor([2.0, 0.7, 3.0, 1.0]).double(), torch.tensor([0.3, 1.0, 2.0, 0.1]).double()
    for q in (GammaDirichlet(a, b), torch.distributions.Dirichlet(a)):
        u = scale.sample((400_000,)).unsqueeze(-1) * q.sample((400_000,))
        first, second = u @ H, ((u @ PRECISION) * u).sum(-1) / 2
        for precision, values in ((PRECISION, first - second), (None, first)):
            error = float(values.std() / math.sqrt(len(values)))
            expected = expected_evidence(q, H, precision, scale)
            assert expected.item() == pytest.approx(values.mean().item(), abs=5 * error)
        with_curvature = expected_evidence(q, H, PRECISION) - expected_evidence(q, H)
        assert with_curvature < 0
    with pytest.raises(ValueError, match="covariance_matrix"):
        expected_evidence(torch.distributions.Exponential(a), H, PRECISION)
