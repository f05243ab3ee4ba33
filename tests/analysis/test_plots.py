"""The pictures: what they show is what the data say. (How they look was looked at by people.)"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import matplotlib
import numpy as np
import pytest
import xarray

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import to_rgb
from searches import state_of

from bydore_pyro.analysis.diagnostics import posterior_of, trajectory_of
from bydore_pyro.analysis.plots import (
    PALETTE,
    domain_colours,
    plain,
    plot_map,
    plot_posterior,
    plot_trajectory,
)
from bydore_pyro.data.environment import KINDS
from bydore_pyro.data.store import TokenStore
from bydore_pyro.mixture.pile import PILE_DOMAINS
from bydore_pyro.search.search import SearchState, run_search


@pytest.fixture
def state(corpus: TokenStore) -> Iterator[SearchState]:
    state = state_of(corpus)
    list(run_search(state))
    yield state
    plt.close("all")


def test_posterior_lists_the_domains_largest_first(state: SearchState) -> None:
    posterior = posterior_of(state)
    figure = plot_posterior(posterior)
    axes = figure.axes[0]
    by_height = sorted(
        zip(axes.get_yticks(), axes.get_yticklabels(), strict=True), key=lambda t: -t[0]
    )
    labels = [label.get_text() for _, label in by_height]
    means = posterior["posterior"]["w"].mean(("chain", "draw"))
    assert labels == [str(n) for n in means["domain"].values[np.argsort(-means.values)]]
    assert "share of training tokens" in axes.get_xlabel()
    heights = dict(zip(labels, sorted(axes.get_yticks(), reverse=True), strict=True))
    marks = next(line for line in axes.lines if "mean" in str(line.get_label()))
    drawn = dict(zip(marks.get_ydata(), marks.get_xdata(), strict=True))
    for name in labels:
        assert drawn[heights[name]] == pytest.approx(float(means.sel(domain=name)))


def test_trajectory_draws_every_domain_in_its_colour(state: SearchState) -> None:
    trajectory = trajectory_of(state)
    axes = plot_trajectory(trajectory, average_from=6).axes[0]
    colours = domain_colours(state.domains.names)
    drawn = {line.get_label().split()[0]: line for line in axes.lines if len(line.get_xdata()) > 2}
    assert set(drawn) == set(state.domains.names)
    for index, name in enumerate(state.domains.names):
        np.testing.assert_array_equal(drawn[name].get_ydata(), trajectory["mean"].values[:, index])
        assert drawn[name].get_color() == colours[name]
    assert len(axes.collections) == len(state.domains.names), "one band a domain"


def test_rounds_are_marked_where_they_were_measured() -> None:
    losses = np.full((6, 2), np.nan)
    losses[2:] = [4.0, 5.0]
    losses[5:] = [3.0, 4.5]
    means = np.full((6, 2), 0.5)
    means[2:], means[5:] = [0.7, 0.3], [0.8, 0.2]
    trajectory = xarray.Dataset(
        {
            "mean": (("step", "domain"), means),
            "standard_deviation": (("step", "domain"), means / 10),
            "losses": (("step", "domain"), losses),
            "train_loss": (("step",), np.linspace(6, 5, 6)),
            "validation_loss": (("step",), losses[:, 0]),
        },
        coords={"step": np.arange(6), "domain": ["law", "web"]},
    )
    figure = plot_trajectory(trajectory, 5, rounds=[2, 5])
    assert {text.get_text() for text in figure.axes[0].texts} == {"round 1", "round 2"}
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["law 0.800", "web 0.200"]
    plt.close("all")


def test_the_result_is_marked_where_it_is_not_the_mean(state: SearchState) -> None:
    names = state.domains.names
    weights = dict(zip(names, np.linspace(0.1, 0.4, len(names)), strict=True))
    axes = plot_posterior(posterior_of(state), weights).axes[0]
    marks = next(line for line in axes.lines if line.get_label() == "the result")
    assert sorted(marks.get_xdata()) == pytest.approx(sorted(weights.values()))


def test_dollar_signs_in_names_are_no_mathematics(state: SearchState) -> None:
    renamed = {"domain": [r"$\foo$", "$$", "a$b", "plain"]}
    posterior = posterior_of(state).assign_coords(renamed)
    trajectory = trajectory_of(state).assign_coords(renamed)
    assert plain("a$b$") == r"a\$b\$"
    for figure in (plot_posterior(posterior), plot_trajectory(trajectory)):
        figure.canvas.draw()


def test_the_map_has_a_column_a_target_and_the_largest_domain_on_top() -> None:
    columns = {"law": [0.2, 0.8, 0.0], "code": [0.1, 0.001, 0.899]}
    figure = plot_map(("web", "books", "source"), columns)
    (axes,) = figure.axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["law", "code"]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["source", "books", "web"]
    np.testing.assert_allclose(axes.images[0].get_array(), [[0, 0.899], [0.8, 0.001], [0.2, 0.1]])
    assert sorted(t.get_text() for t in axes.texts) == ["0.10", "0.20", "0.80", "0.90"]
    plt.close(figure)


def oklab(colour: str) -> np.ndarray:
    """Returns lightness and two opponent colours (Ottosson 2020)."""
    c = np.array(to_rgb(colour))
    linear = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    cones = [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
    opponents = [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
    return np.array(opponents) @ np.cbrt(np.array(cones) @ linear)


def test_colours_can_be_told_apart_and_seen_on_white() -> None:
    values = [oklab(colour) for colour in PALETTE]
    distances = [float(np.linalg.norm(a - b)) for a, b in itertools.combinations(values, 2)]
    assert min(distances) > 0.1, "about twice what lies between Matplotlib's blue and a shade of it"
    assert all(lightness < 0.85 for lightness, _, _ in values)


@pytest.mark.parametrize("names", [list(KINDS), list(PILE_DOMAINS), list(PILE_DOMAINS.values())])
def test_known_domains_keep_their_colours_in_any_company(names: list[str]) -> None:
    whole = domain_colours(names)
    assert len(set(whole.values())) == len(names)
    for some in (names[:1], names[3:7], ["own", *names[::2], "another"]):
        colours = domain_colours(some)
        assert len(set(colours.values())) == len(some)
        for name in set(some) & set(names):
            assert colours[name] == whole[name]


def test_the_pile_has_the_same_colours_under_both_kinds_of_names() -> None:
    public = domain_colours(list(PILE_DOMAINS))
    short = domain_colours(list(PILE_DOMAINS.values()))
    assert all(public[name] == short[key] for name, key in PILE_DOMAINS.items())


def test_other_domains_take_what_is_left_whatever_their_order() -> None:
    names = [f"d{i:02}" for i in range(len(PALETTE))]
    colours = domain_colours(names)
    assert len(set(colours.values())) == len(PALETTE)
    assert domain_colours(names[::-1]) == colours
    mixed = domain_colours(["python", "arxiv", *names[:17]])
    assert len(set(mixed.values())) == 19
    many = domain_colours([f"d{i:03}" for i in range(70)])
    assert len(many) == 70
