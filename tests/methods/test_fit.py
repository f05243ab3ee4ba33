"""What a method found: the weights, and as much more as there is to tell."""

from __future__ import annotations

from bydore_pyro.methods.fit import Fit
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.utils import plain


def test_a_fit_of_weights_alone_tells_nothing_more() -> None:
    found = Fit(mixture=Mixture(names=("a",), weights=(1.0,)))
    assert plain(found.details) == {}
    assert found.trajectory is found.draws is None
