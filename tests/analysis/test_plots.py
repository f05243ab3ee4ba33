"""The pictures: what they show is what the data say. (How they look was looked at by people.)"""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib
import numpy as np
import pytest
import xarray

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from report_runs import NAMES, mixture_with_intervals
from searches import state_of

from bydore_pyro.analysis.colours import domain_colours
from bydore_pyro.analysis.diagnostics import posterior_of, trajectory_of
from bydore_pyro.analysis.plots import (
    MOST_BANDS,
    plain,
    plot_lengths,
    plot_posterior,
    plot_trajectory,
)
from bydore_pyro.data.store import TokenStore
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
    for figure in (plot_posterior(posterior), plot_trajectory(trajectory)):
        figure.canvas.draw()


def test_dollar_signs_are_no_mathematics() -> None:
    assert plain("a$b$") == r"a\$b\$"
    assert plain("law") == "law"


def test_weights_stand_over_the_lengths_and_epochs_beside_them() -> None:
    mixture = mixture_with_intervals()
    runs = [(tokens, mixture, dict.fromkeys(NAMES, tokens / 1e9)) for tokens in (1e10, 1e9)]
    figure = plot_lengths(runs)
    left, right = figure.axes
    lines = [line for line in left.lines if line.get_label() in NAMES]
    assert [line.get_label() for line in lines] == list(NAMES)
    assert lines[0].get_xdata().tolist() == [1e9, 1e10]
    assert lines[0].get_ydata().tolist() == [mixture.weights[0]] * 2
    assert len(left.collections) == min(len(NAMES), MOST_BANDS), "of the largest weights"
    assert right.lines[0].get_ydata().tolist() == [1, 10]
    assert (left.get_xscale(), right.get_yscale()) == ("log", "log")
    plt.close(figure)
