"""The picture of a mixture shows its numbers."""

from __future__ import annotations

import numpy as np
import pytest

from bydore_pyro.analysis.plots import plot_weights
from bydore_pyro.mixture.mixture import Mixture


@pytest.mark.parametrize("hdi", [None, ((0.1, 0.4), (0.5, 0.9), (0.0, 0.0))])
def test_every_weight_and_interval_is_drawn(hdi: tuple[tuple[float, float], ...] | None) -> None:
    mixture = Mixture(names=("a", "b$", "c"), weights=(0.25, 0.75, 0.0), hdi=hdi)
    (axes,) = plot_weights(mixture).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["c", "a", r"b\$"]
    lines = [line for line in axes.lines if line.get_linestyle() != ":"]
    points = [line.get_xdata() for line in lines if len(line.get_xdata()) == 1]
    np.testing.assert_array_equal(np.ravel(points), [0.0, 0.25, 0.75])
    spans = [list(line.get_xdata()) for line in lines if len(line.get_xdata()) == 2]
    assert spans == ([] if hdi is None else [[0.0, 0.0], [0.1, 0.4], [0.5, 0.9]])
