"""Looks, traces and layout of the report's figures."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

from bydore_pyro.analysis.colours import domain_colours
from bydore_pyro.report.drawing import (
    MOST_POINTS,
    Look,
    domain_looks,
    escaped,
    figure_of,
    mark,
    plain_numbers,
    thinned,
    trace,
    word_trace,
)


def test_domains_look_as_in_the_pictures_and_differ() -> None:
    names = [f"domain {i:02d}" for i in range(22)]
    looks = domain_looks(names[::-1])
    assert len({(look.colour, look.dash) for look in looks.values()}) == 22
    assert len({look.key for look in looks.values()}) == 22
    assert looks["domain 03"].colour == domain_colours(names)["domain 03"]
    assert isinstance(looks["domain 03"], Look)


def test_without_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(ImportError, match="plotly"):
        figure_of([], height=100, xaxis={}, yaxis={})


@pytest.mark.parametrize("steps", [1, 2, MOST_POINTS, MOST_POINTS + 1, 12_345])
def test_lines_are_thinned_and_end_where_they_end(steps: int) -> None:
    chosen = thinned(steps)
    assert chosen[-1] == steps - 1
    assert len(chosen) <= MOST_POINTS
    assert (np.diff(chosen) > 0).all()
    assert len(chosen) == steps or steps > MOST_POINTS


def test_numbers_are_plain_and_names_harmless() -> None:
    assert plain_numbers([1, 0.123456789, math.nan, math.inf]) == [1.0, 0.12346, None, None]
    assert escaped("<b>&</b>") == "&lt;b&gt;&amp;&lt;/b&gt;"
    assert "$" not in escaped("$x$")
    assert word_trace(0, 0, Look(name="<i>", colour="black"))["text"] == ["&lt;i&gt;"]


def test_traces_know_what_they_belong_to() -> None:
    look = Look(key="d1", name="<law>", colour="#000000")
    line = trace([0, 1], [1, 2], look, width=2)
    assert line["meta"] == {"keys": ["d1"], "width": 2, "told": "&lt;law&gt;"}
    assert trace([0], [1], Look(name="all", colour="black"), told="x")["meta"]["keys"] == []
    figure = figure_of([line], height=123, xaxis={"type": "log"}, yaxis={})
    mark(figure, 1.0, "here")
    assert (figure.layout.height, figure.layout.xaxis.type) == (123, "log")
    assert (figure.layout.annotations[0].text, figure.layout.shapes[0].x0) == ("here", 1.0)
    assert "%{meta.told}" in figure.data[0].hovertemplate
