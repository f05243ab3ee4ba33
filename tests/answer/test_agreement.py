"""Whether searches with other seeds agree: by hand, and where posteriors are too narrow."""

from __future__ import annotations

import numpy as np
import pytest

from bydore_pyro.answer.agreement import agreement
from bydore_pyro.mixture.mixture import Mixture


def of_seed(first: float, width: float, **options: tuple) -> Mixture:
    weights = (first, 1 - first)
    return Mixture(
        names=("a", "b"),
        weights=weights,
        standard_deviation=(width / 4, width / 4),
        hdi=tuple((w - width / 2, w + width / 2) for w in weights),
        **options,
    )


def test_two_seeds_by_hand() -> None:
    frame = agreement([of_seed(0.6, 0.1), of_seed(0.7, 0.3)])
    assert list(frame.index) == ["a", "b"]
    row = frame.loc["a"]
    assert row["mean"] == pytest.approx(0.65)
    assert row["sd_over_seeds"] == pytest.approx(0.1 / 2**0.5)
    assert row["posterior_sd"] == pytest.approx(0.05)
    assert row["coverage"] == 0.5, "the wide interval holds 0.6, the narrow one not 0.7"
    assert not row["overconfident"]


def test_narrow_posteriors_are_called_overconfident() -> None:
    rng = np.random.default_rng(0)
    weights = 0.5 + 0.1 * rng.standard_normal(6)
    narrow = agreement([of_seed(w, 0.02) for w in weights])
    assert narrow["overconfident"].all()
    assert narrow["coverage"].max() < 0.5
    honest = agreement([of_seed(w, 0.4) for w in weights])
    assert not honest["overconfident"].any()
    assert honest["coverage"].min() > 0.8
    equal = agreement([of_seed(0.5, 1e-6) for _ in weights])
    assert not equal["overconfident"].any(), "where seeds agree, nothing is too narrow"


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="at least two"):
        agreement([of_seed(0.5, 0.1)])
    other = Mixture(names=("a", "c"), weights=(0.5, 0.5))
    with pytest.raises(ValueError, match="Expected the domains"):
        agreement([of_seed(0.5, 0.1), other])
    with pytest.raises(ValueError, match="without"):
        agreement([of_seed(0.5, 0.1), Mixture(names=("a", "b"), weights=(0.5, 0.5))])
