"""The pairs of sites: found whatever their names, refused where guide and model do not match."""

from __future__ import annotations

import pyro
import pytest
import torch
from pyro.distributions import Dirichlet, Multinomial, Normal
from torch import Tensor

from bydore_pyro.core.guide import MixtureGuide, mixture_model
from bydore_pyro.core.prior_net import FreeConcentrations
from bydore_pyro.core.sites import paired_sites

SIGNALS, LINEAR = torch.full((4,), 2.0), torch.tensor([0.03, -0.01, 0.0, 0.02])
CURVED = (SIGNALS, LINEAR, 1.0, torch.eye(4))
BETA = torch.tensor([1.5, 0.8, 1.0, 2.0])


@pytest.fixture(autouse=True)
def _fresh_store() -> None:
    pyro.clear_param_store()
    pyro.set_rng_seed(0)


def shares_model(signals: Tensor, linear: Tensor) -> None:
    pyro.sample("shares", Dirichlet(torch.ones_like(linear)))


def test_the_weights_are_found_whatever_their_name() -> None:
    def plain_guide(*_: object) -> None:
        pyro.sample("shares", Dirichlet(BETA))

    def guide_with_another_site(*_: object) -> None:
        pyro.sample("x", Normal(0.0, 1.0))
        plain_guide()

    for guide in (plain_guide, guide_with_another_site):
        (q, p), scale = paired_sites(shares_model, guide, SIGNALS, LINEAR)
        assert torch.equal(q.concentration, BETA)
        assert torch.equal(p.concentration, torch.ones(4))
        assert scale is None
    named = MixtureGuide(FreeConcentrations(4), name="shares")
    (q, _), _ = paired_sites(shares_model, named, SIGNALS, LINEAR)
    assert torch.equal(q.mean, named.posterior(SIGNALS).mean)


def test_the_scale_is_paired_where_both_have_one() -> None:
    guide = MixtureGuide(FreeConcentrations(4), scale=True)
    _, scale = paired_sites(mixture_model, guide, *CURVED)
    assert scale is not None
    q, p = scale
    assert q.scale.item() == pytest.approx(0.1)
    assert p.scale.item() == 1.0


def test_a_guide_that_does_not_match_is_refused() -> None:
    def no_simplex(*_: object) -> None:
        pyro.sample("x", Normal(0.0, 1.0))

    def two_simplexes(*_: object) -> None:
        pyro.sample("one", Dirichlet(BETA))
        pyro.sample("two", Dirichlet(BETA))

    network = FreeConcentrations(4)
    for guide, actual in ((no_simplex, r"\[\]"), (two_simplexes, r"\['one', 'two'\]")):
        with pytest.raises(ValueError, match=f"one sample site on the simplex, actual {actual}"):
            paired_sites(guide, guide, SIGNALS, LINEAR)
    with pytest.raises(ValueError, match="in the model alone"):
        paired_sites(mixture_model, MixtureGuide(network), *CURVED)
    with pytest.raises(ValueError, match="in the guide alone"):
        paired_sites(mixture_model, MixtureGuide(network, scale=True), *CURVED[:3])


def test_a_model_of_data_is_refused() -> None:
    def counts_model(signals: Tensor, linear: Tensor) -> None:
        shares = pyro.sample("shares", Dirichlet(torch.ones_like(linear)))
        pyro.sample("counts", Multinomial(20, shares), obs=torch.tensor([20.0, 0, 0, 0]))

    guide = MixtureGuide(FreeConcentrations(4), name="shares")
    with pytest.raises(ValueError, match=r"pyro\.factor, actual observed site 'counts'"):
        paired_sites(counts_model, guide, SIGNALS, LINEAR)
