"""The picture of domains by targets."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from bydore_pyro.analysis.target_map import plot_map


def test_the_map_has_a_column_a_target_and_the_largest_domain_on_top() -> None:
    columns = {"law": [0.2, 0.8, 0.0], "code": [0.1, 0.001, 0.899]}
    figure = plot_map(("web", "books", "source"), columns)
    (axes,) = figure.axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["law", "code"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["source", "books", "web"]
    np.testing.assert_allclose(axes.images[0].get_array(), [[0, 0.899], [0.8, 0.001], [0.2, 0.1]])
    assert sorted(t.get_text() for t in axes.texts) == ["0.10", "0.20", "0.80", "0.90"]
    plt.close(figure)
