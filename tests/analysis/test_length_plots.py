"""The picture of the weights over the lengths of runs."""

from __future__ import annotations

import matplotlib.pyplot as plt
from report_runs import NAMES, mixture_with_intervals

from bydore_pyro.analysis.length_plots import MOST_BANDS, plot_lengths


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
