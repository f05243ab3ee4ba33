"""What ArviZ gets of a model and its posterior: against closed forms, and that ArviZ takes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import arviz
import numpy as np
import pyro
import pytest
import torch
import xarray
from matplotlib import pyplot
from pyro.distributions import Dirichlet, LogNormal, Multinomial
from pyro.infer import MCMC, NUTS
from torch import Tensor

from bydore_pyro.core.guide import MixtureGuide
from bydore_pyro.core.importance import corrected_draws
from bydore_pyro.core.inference_data import as_inference_data, to_inference_data
from bydore_pyro.core.model import mixture_model
from bydore_pyro.core.network import FreeConcentrations

COUNTS = torch.tensor([12.0, 5.0, 3.0])
ROWS = torch.stack([COUNTS, COUNTS.flip(0)])
PARTS = ["web", "code", "legal"]
NAMED: dict[str, Any] = {
    "coords": {"part": PARTS},
    "dims": {"shares": ["part"], "counts": ["part"]},
}
DRAWS = ("chain", "draw")


@pytest.fixture(autouse=True)
def _fresh_store() -> None:
    pyro.clear_param_store()
    pyro.set_rng_seed(0)


def model(counts: Tensor) -> None:
    shares = pyro.sample("shares", Dirichlet(torch.ones(3)))
    pyro.sample("counts", Multinomial(20, shares), obs=counts)


def grouped(counts: Tensor) -> None:
    with pyro.plate("groups", len(counts)):
        shares = pyro.sample("shares", Dirichlet(torch.ones(3)))
        pyro.sample("counts", Multinomial(20, shares), obs=counts)


def near(beta: Tensor) -> MixtureGuide:
    """A guide whose draws are those of a Dirichlet."""
    guide = MixtureGuide(FreeConcentrations(3, batch_shape=beta.shape[:-1]), name="shares")
    guide.network.start_at(torch.full_like(beta, 1e4), 1e4 / beta)
    return guide


def in_plate(guide: MixtureGuide) -> Callable[[Tensor], None]:
    def of_groups(counts: Tensor) -> None:
        with pyro.plate("groups", len(counts)):
            guide(counts)

    return of_groups


def values_of(data: Any, group: str, name: str) -> np.ndarray:
    """Draws ``(D, ...)``."""
    values = data[group][name].values
    return values.reshape(-1, *values.shape[2:])


def test_numbers_are_those_of_the_closed_forms_and_names_are_coordinates() -> None:
    guide, exact = near(0.8 * (1 + COUNTS)), Dirichlet(1 + COUNTS)
    before, state = dict(pyro.get_param_store()), torch.get_rng_state()
    data = guide.to_inference_data(model, COUNTS, num_draws=4000, **NAMED)
    assert dict(pyro.get_param_store()) == before
    assert torch.equal(torch.get_rng_state(), state)
    shares = data["posterior"]["shares"]
    assert shares.dims == (*DRAWS, "part")
    assert list(shares["part"].values) == PARTS
    np.testing.assert_allclose(shares.mean(DRAWS), exact.mean, atol=0.01)
    np.testing.assert_allclose(shares.std(DRAWS), exact.stddev, rtol=0.06)
    prior = data["prior"]["shares"]
    np.testing.assert_allclose(prior.mean(DRAWS), 1 / 3, atol=0.02)
    np.testing.assert_allclose(prior.std(DRAWS), Dirichlet(torch.ones(3)).stddev, rtol=0.05)
    # Means, and variances of Dirichlet-multinomial counts of n = 20.
    for group, beta in (("posterior_predictive", 1 + COUNTS), ("prior_predictive", torch.ones(3))):
        found, mean, total = values_of(data, group, "counts"), beta / beta.sum(), beta.sum()
        assert (found.sum(1) == 20).all()
        variance = 20 * mean * (1 - mean) * (20 + total) / (1 + total)
        error = (variance / len(found)).sqrt().numpy()
        assert (np.abs(found.mean(0) - 20 * mean.numpy()) < 5 * error).all()
        np.testing.assert_allclose(found.var(0), variance, rtol=0.15)
    np.testing.assert_array_equal(data["observed_data"]["counts"], COUNTS)
    np.testing.assert_array_equal(data["constant_data"]["counts"], COUNTS)
    assert data["observed_data"]["counts"].dims == ("part",)


def test_attributes_are_those_of_the_guides_fit() -> None:
    guide = near(0.8 * (1 + COUNTS))
    found = to_inference_data(model, guide, COUNTS)["posterior"].attrs
    fit = corrected_draws(model, guide, COUNTS).fit
    assert found["corrected"] == 1
    assert found["khat"] == fit.khat
    assert found["effective_draws"] == fit.effective_draws
    assert found["width"] == fit.width > 1.05, "before the correction"
    beyond = near(200.0 * torch.tensor([1.0, 2.0, 3.0]))
    lost = to_inference_data(model, beyond, COUNTS)["posterior"].attrs
    assert lost["corrected"] == 0
    assert lost["khat"] >= 0.7


def test_a_plate_names_its_dimension_and_the_draws_are_the_guides() -> None:
    guide = in_plate(near(1 + ROWS))
    coords = {"groups": ["north", "south"], **NAMED["coords"]}
    data = to_inference_data(grouped, guide, ROWS, coords=coords, dims=NAMED["dims"], num_draws=500)
    for group in ("posterior", "prior"):
        assert data[group]["shares"].dims == (*DRAWS, "groups", "part")
    assert data["posterior_predictive"]["counts"].dims == (*DRAWS, "groups", "part")
    assert data["observed_data"]["counts"].dims == ("groups", "part")
    south = data["posterior"]["shares"].sel(groups="south", part="legal")
    assert float(south.mean()) == pytest.approx(13 / 23, abs=0.02)
    assert data["posterior"].attrs["corrected"] == 0
    assert "khat" not in data["posterior"].attrs


def test_what_is_beside_a_plate_keeps_its_shape() -> None:
    """Predictive gives a site outside of a plate the plate's dimension, of size 1."""

    def partly(counts: Tensor) -> None:
        strength = pyro.sample("strength", LogNormal(0.0, 1.0))
        with pyro.plate("groups", len(counts)):
            shares = pyro.sample("shares", Dirichlet(strength.expand(3)))
            pyro.sample("counts", Multinomial(20, shares), obs=counts)

    of_groups = in_plate(near(1 + ROWS))

    def guide(counts: Tensor) -> None:
        pyro.sample("strength", LogNormal(0.0, 0.1))
        of_groups(counts)

    data = to_inference_data(partly, guide, ROWS, num_draws=20)
    for group in ("posterior", "prior"):
        assert data[group]["strength"].dims == DRAWS
        assert data[group]["shares"].dims == (*DRAWS, "groups", "shares_dim_1")


def test_the_evidence_is_constant_data_and_no_observation() -> None:
    linear, precision = torch.tensor([0.5, 0.0, -0.5]), torch.eye(3)
    guide = MixtureGuide(FreeConcentrations(3), scale=True)
    dims = {"weights": ["part"], "linear": ["part"]}
    arguments = (None, linear, 2.0, precision)
    data = guide.to_inference_data(
        mixture_model, *arguments, coords={"part": PARTS}, dims=dims, num_draws=200
    )
    groups = {"posterior", "prior", "constant_data"}
    assert {
        name
        for name in (*groups, "observed_data", "posterior_predictive", "log_likelihood")
        if name in data
    } == groups
    assert set(data["posterior"].data_vars) == {"weights", "scale"}
    np.testing.assert_array_equal(data["constant_data"]["linear"].sel(part="legal"), -0.5)
    np.testing.assert_array_equal(data["constant_data"]["precision"], precision)
    assert data["constant_data"]["kl_weight"].item() == 2


def test_a_samplers_draws_get_the_same_groups_and_names() -> None:
    mcmc = MCMC(NUTS(model), num_samples=300, warmup_steps=100, disable_progbar=True)
    mcmc.run(COUNTS)
    drawn = mcmc.get_samples(group_by_chain=True)
    data = to_inference_data(model, drawn, COUNTS, num_draws=50, **NAMED)
    np.testing.assert_array_equal(data["posterior"]["shares"], drawn["shares"])
    assert data["posterior_predictive"]["counts"].shape == (1, 300, 3)
    assert data["prior"]["shares"].shape == (1, 50, 3)
    exact = Dirichlet(1 + COUNTS).mean.numpy()
    np.testing.assert_allclose(values_of(data, "posterior", "shares").mean(0), exact, atol=0.03)


@pytest.fixture
def small() -> Any:
    return near(1 + COUNTS).to_inference_data(model, COUNTS, num_draws=200, **NAMED)


# ArviZ 0.23 calls what Matplotlib 3.11 has deprecated.
@pytest.mark.filterwarnings("ignore:Passing a dict or None as alias_mapping")
def test_arviz_summarises_and_draws_it(small: Any) -> None:
    table = arviz.summary(small, kind="stats")
    assert list(table.index) == [f"shares[{part}]" for part in PARTS]
    shares = small["posterior"]["shares"]
    np.testing.assert_allclose(table["mean"].astype(float), shares.mean(DRAWS), atol=0.006)
    with pytest.raises((TypeError, ValueError, KeyError), match=r"log_likelihood|log likelihood"):
        arviz.loo(small)
    for plot in (arviz.plot_forest, arviz.plot_trace):
        plot(small)
        assert pyplot.get_fignums()
        pyplot.close("all")


def test_the_file_is_the_data_again(small: Any, tmp_path: Path) -> None:
    small.to_netcdf(str(tmp_path / "guide.nc"))
    again = arviz.from_netcdf(str(tmp_path / "guide.nc"))
    for group in ("posterior", "prior", "posterior_predictive", "observed_data", "constant_data"):
        assert again[group].equals(small[group]), group
    assert again["posterior"].attrs["khat"] == small["posterior"].attrs["khat"]


def test_so_is_the_zarr_store(small: Any, tmp_path: Path) -> None:
    """ArviZ 0.23 itself writes the second version of zarr alone; a tree of xarray is written by
    any. Names as fixed-width text have no specification in the third format."""
    pytest.importorskip("zarr")
    tree = small if isinstance(small, xarray.DataTree) else small.to_datatree()
    tree.to_zarr(tmp_path / "guide.zarr", zarr_format=2)
    again = xarray.open_datatree(tmp_path / "guide.zarr", engine="zarr")
    for group in tree.children:
        assert again[group].dataset.equals(tree[group].dataset), group
    assert again["posterior"].attrs["khat"] == small["posterior"].attrs["khat"]


def test_groups_of_arrays_become_arvizs_data() -> None:
    draws = np.random.default_rng(0).dirichlet(np.ones(3), (4, 10))
    data = as_inference_data(
        {"posterior": {"w": draws}, "prior": {}, "constant_data": {"linear": torch.ones(3)}},
        coords={"part": PARTS},
        dims={"w": ["part"], "linear": ["part"]},
        attributes={"khat": 0.25},
    )
    np.testing.assert_array_equal(data["posterior"]["w"], draws)
    assert data["posterior"].attrs["khat"] == 0.25
    assert "prior" not in data
    assert list(data["constant_data"]["part"].values) == PARTS


def subsampled(counts: Tensor) -> None:
    with pyro.plate("groups", len(counts), subsample_size=1) as index:
        shares = pyro.sample("shares", Dirichlet(torch.ones(3)))
        pyro.sample("counts", Multinomial(20, shares), obs=counts[index])


def test_what_it_refuses() -> None:
    guide = near(1 + COUNTS)
    with pytest.raises(ValueError, match="num_draws >= 1, actual 0"):
        to_inference_data(model, guide, COUNTS, num_draws=0)
    with pytest.raises(ValueError, match="whole plate 'groups', actual a subsample of 1 of 2"):
        to_inference_data(subsampled, in_plate(near(1 + ROWS)), ROWS)
    with pytest.raises(ValueError, match=r"all latent sites, actual none of \['shares'\]"):
        to_inference_data(model, {"weights": torch.ones(1, 5, 3) / 3}, COUNTS)
    with pytest.raises(ValueError, match=r"shape \(chains, draws, 3\), actual \(5, 3\)"):
        to_inference_data(model, {"shares": torch.ones(5, 3) / 3}, COUNTS)
    with pytest.raises(ValueError, match=r"1 dims of 'shares' at most, actual \['a', 'b'\]"):
        to_inference_data(model, guide, COUNTS, dims={"shares": ["a", "b"]}, num_draws=5)
