"""The picture of a mixture shows its numbers; its colours are told apart and seen on white."""

from __future__ import annotations

import numpy as np
import pytest

from bydore_pyro.answer.plots import PALETTE, domain_colours, plot_weights
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.mixture.tree import Sums


@pytest.mark.parametrize("hdi", [None, ((0.1, 0.4), (0.5, 0.9), (0.0, 0.0))])
def test_every_weight_and_interval_is_drawn(hdi: tuple[tuple[float, float], ...] | None) -> None:
    mixture = Mixture(names=("a", "b$", "c"), weights=(0.25, 0.75, 0.0), hdi=hdi)
    (axes,) = plot_weights(mixture).axes
    assert axes.yaxis_inverted()
    assert [label.get_text() for label in axes.get_yticklabels()] == [r"b\$", "a", "c"]
    lines = [line for line in axes.lines if line.get_linestyle() != ":"]
    points = [line.get_xdata() for line in lines if len(line.get_xdata()) == 1]
    np.testing.assert_array_equal(np.ravel(points), [0.75, 0.25, 0.0])
    spans = [list(line.get_xdata()) for line in lines if len(line.get_xdata()) == 2]
    assert spans == ([] if hdi is None else [[0.5, 0.9], [0.1, 0.4], [0.0, 0.0]])
    told = "b$: 0.7500" if hdi is None else "b$: 0.7500, 94 % interval 0.5000 to 0.9000"
    assert {lines[0].get_gid(), axes.get_yticklabels()[0].get_gid()} == {told}


def test_many_domains_are_drawn_as_their_tree() -> None:
    names = [f"{a}/{b}" for a in "xyz" for b in range(20)]
    weights = tuple((np.arange(60.0) / 1770).tolist())
    mixture = Mixture(names=tuple(names), weights=weights)
    (axes,) = plot_weights(mixture, Sums(branches={"x": (0.1, 0.2)})).axes
    rows = [label.get_text() for label in axes.get_yticklabels()]
    assert rows[:3] == ["z", "z/19", "z/18"]
    assert rows[-3:] == ["y", "x", "the rest (40 domains)"]
    squares = [line for line in axes.lines if line.get_marker() == "s"]
    sums = [sum(weights[40:]), sum(weights[:20]), sum(weights[20:40]), sum(weights[:40])]
    found = sorted(float(line.get_xdata()[0]) for line in squares)
    assert found == pytest.approx(sorted(sums))
    assert [list(line.get_xdata()) for line in axes.lines if line.get_linewidth() == 5] == [
        [0.1, 0.2]
    ], "of what is known"
    assert axes.get_xlim()[1] == pytest.approx(1.05 * max(sums))


def test_domains_have_colours_of_their_own_whatever_their_order() -> None:
    many = [f"d{number:02}" for number in range(25)]
    assert domain_colours(many[::-1]) == domain_colours(many)
    assert len({*domain_colours(many).values()}) == len(PALETTE)
