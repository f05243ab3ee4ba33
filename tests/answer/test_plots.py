"""The picture of a mixture shows its numbers; its colours are told apart and seen on white."""

from __future__ import annotations

import numpy as np
import pytest

from bydore_pyro.answer.plots import PALETTE, domain_colours, plot_triangle, plot_weights
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


def test_three_weights_lie_in_a_triangle() -> None:
    """The corners are right, points are linear in the weights, and a mark says its numbers."""
    rng = np.random.default_rng(0)
    draws = {"guide": rng.dirichlet([3, 2, 1], 1200), "NUTS": np.eye(3)}
    marks = {"truth": (0.5, 0.25, 0.25)}
    figure = plot_triangle(draws, ("a", "b$", "c"), marks)
    (axes,) = figure.axes
    guide, corners = (np.asarray(one.get_offsets()) for one in axes.collections)
    assert len(guide) == 400, "every third"
    np.testing.assert_allclose(guide, draws["guide"][::3] @ corners)
    sides = np.linalg.norm(corners - np.roll(corners, 1, axis=0), axis=1)
    np.testing.assert_allclose(sides, 1)
    (mark,) = (line for line in axes.lines if line.get_gid())
    assert mark.get_gid() == "truth: a 0.5000, b$ 0.2500, c 0.2500"
    np.testing.assert_allclose(np.ravel(mark.get_data()), np.array([0.5, 0.25, 0.25]) @ corners)
    labels = [text.get_text() for text in axes.texts]
    assert labels.count("0.2") == 3
    assert {"a", r"b\$", "c"} < set(labels)
    for text in axes.texts:  # a tick is the weight of the domain of its colour, at its place
        if text.get_text().startswith("0."):
            own = [
                domain_colours(("a", "b$", "c"))[n] == text.get_color() for n in ("a", "b$", "c")
            ]
            there = np.linalg.solve(np.vstack([corners.T, np.ones(3)]), [*text.xy, 1])
            assert there[own.index(True)] == pytest.approx(float(text.get_text()))
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["guide", "NUTS", "truth"]
    with pytest.raises(ValueError, match="three names, actual 2"):
        plot_triangle(draws, ("a", "b"))
