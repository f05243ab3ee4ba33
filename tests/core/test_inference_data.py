"""A guide's InferenceData: groups, names, attributes, against closed forms."""

from __future__ import annotations

from pathlib import Path

import arviz
import numpy as np
import pyro
import pytest
import torch
from pyro.distributions import Dirichlet, Multinomial
from torch import Tensor

from bydore_pyro.core.guide import MixtureGuide
from bydore_pyro.core.inference_data import to_inference_data
from bydore_pyro.core.model import mixture_model
from bydore_pyro.core.network import FreeConcentrations

COUNTS = torch.tensor([12.0, 5.0, 3.0])
PARTS = ["web", "code", "legal"]


@pytest.fixture(autouse=True)
def _fresh_store() -> None:
    pyro.clear_param_store()
    pyro.set_rng_seed(0)


def model(counts: Tensor) -> None:
    shares = pyro.sample("shares", Dirichlet(torch.ones(3)))
    pyro.sample("counts", Multinomial(20, shares), obs=counts)


def near(beta: Tensor) -> MixtureGuide:
    """A guide whose draws are those of a Dirichlet, but a little wider."""
    guide = MixtureGuide(FreeConcentrations(len(beta)), name="shares")
    guide.network.start_at(torch.full_like(beta, 1e4), 1e4 / beta)
    return guide


def test_groups_names_and_attributes(tmp_path: Path) -> None:
    guide, exact = near(0.8 * (1 + COUNTS)), Dirichlet(1 + COUNTS)
    given = {"coords": {"part": PARTS}, "dims": {"shares": ["part"], "counts": ["part"]}}
    before, state = dict(pyro.get_param_store()), torch.get_rng_state()
    data = to_inference_data(model, guide, COUNTS, num_draws=4000, **given)
    assert dict(pyro.get_param_store()) == before
    assert torch.equal(torch.get_rng_state(), state)
    shares = data.posterior["shares"]
    assert shares.dims == ("chain", "draw", "part")
    assert list(shares["part"].values) == PARTS
    np.testing.assert_allclose(shares.mean(("chain", "draw")), exact.mean, atol=0.01)
    np.testing.assert_allclose(shares.std(("chain", "draw")), exact.stddev, rtol=0.06)
    assert data.posterior.attrs["corrected"] == 1
    assert data.posterior.attrs["width"] > 1.05, "of the guide, before the correction"
    np.testing.assert_allclose(data.prior["shares"].mean(("chain", "draw")), 1 / 3, atol=0.02)
    predicted = data.posterior_predictive["counts"]
    np.testing.assert_allclose(predicted.mean(("chain", "draw")), 20 * exact.mean, atol=0.3)
    np.testing.assert_array_equal(data.observed_data["counts"], COUNTS)
    np.testing.assert_array_equal(data.constant_data["counts"], COUNTS)
    assert set(arviz.summary(data).index) == {f"shares[{part}]" for part in PARTS}
    data.to_netcdf(str(tmp_path / "guide.nc"))
    again = arviz.from_netcdf(str(tmp_path / "guide.nc"))
    assert again.posterior.attrs["khat"] == data.posterior.attrs["khat"]


def test_in_plates_the_draws_are_the_guides_and_an_evidence_is_constant_data() -> None:
    rows = torch.stack([COUNTS, COUNTS.flip(0)])

    def grouped(counts: Tensor) -> None:
        with pyro.plate("groups", len(counts)):
            shares = pyro.sample("shares", Dirichlet(torch.ones(3)))
            pyro.sample("counts", Multinomial(20, shares), obs=counts)

    guide = MixtureGuide(FreeConcentrations(3, batch_shape=(2,)), name="shares")
    guide.network.start_at(torch.full((2, 3), 1e4), 1e4 / (1 + rows))

    def in_plate(counts: Tensor) -> None:
        with pyro.plate("groups", len(counts)):
            guide(counts)

    data = to_inference_data(grouped, in_plate, rows, num_draws=500)
    assert data.posterior["shares"].shape == (1, 500, 2, 3)
    assert data.posterior.attrs["corrected"] == 0
    expected = (1 + rows) / 23
    np.testing.assert_allclose(
        data.posterior["shares"].mean(("chain", "draw")), expected, atol=0.03
    )
    linear = torch.tensor([0.5, 0.0, -0.5])
    of_evidence = MixtureGuide(FreeConcentrations(3))
    data = to_inference_data(mixture_model, of_evidence, linear, linear, num_draws=200)
    assert set(data.groups()) == {"posterior", "prior", "constant_data"}
    np.testing.assert_array_equal(data.constant_data["linear"], linear)
    with pytest.raises(ValueError, match="num_draws >= 1"):
        to_inference_data(model, near(1 + COUNTS), COUNTS, num_draws=0)
