"""RegMix with proxies that are trained here."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("botorch")

from bydore_pyro.errors import DataError
from bydore_pyro.methods.regmix import sample_mixtures


def test_draws_keep_the_simplex_the_limit_and_the_seed() -> None:
    prior = np.array([0.5, 0.3, 0.15, 0.05, 0.0])
    drawn = sample_mixtures(prior, 400, 0)
    np.testing.assert_allclose(drawn.sum(1), 1)
    assert (drawn <= 15 * prior + 1e-12).all()
    assert ((drawn == 0) | (drawn >= 2e-4)).all()
    np.testing.assert_array_equal(drawn, sample_mixtures(prior, 400, 0))
    with pytest.raises(DataError, match="no weight above 15 times its prior"):
        sample_mixtures(np.full(400, 1 / 400), 5, 0)
