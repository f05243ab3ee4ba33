"""What is asked of ArviZ."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest

from bydore_pyro.utils.arviz_import import (
    hdi,
    import_arviz,
    inference_data,
    plot_forest,
    smooth_log_weights,
    summary,
)

DRAWS = np.random.default_rng(0).dirichlet([6, 3, 1], size=(4, 1000))
POSTERIOR = inference_data({"w": DRAWS}, {"w": ["domain"]}, {"domain": ["a", "b", "c"]})


def test_draws_keep_their_labels() -> None:
    w = POSTERIOR["posterior"]["w"]
    assert w.dims == ("chain", "draw", "domain")
    np.testing.assert_array_equal(w.sel(domain="b").values, DRAWS[..., 1])


def test_summary_and_interval_agree() -> None:
    interval = hdi(POSTERIOR, "w", 0.94).values
    frame = summary(POSTERIOR, "w", 0.94)
    np.testing.assert_allclose(frame.filter(like="hdi_"), interval)
    np.testing.assert_allclose(frame["mean"], DRAWS.mean((0, 1)))
    inside = (interval[:, 0] < DRAWS) & (interval[:, 1] > DRAWS)
    np.testing.assert_allclose(inside.mean((0, 1)), 0.94, atol=0.002)


def test_smoothing_finds_the_shape_of_the_tail() -> None:
    # Weights with a Pareto tail of shape 0.4: uniform ** -0.4.
    log_weights = -0.4 * np.log(np.random.default_rng(0).uniform(size=20_000))
    smoothed, khat = smooth_log_weights(log_weights)
    assert khat == pytest.approx(0.4, abs=0.1)
    assert np.exp(smoothed).sum() == pytest.approx(1)


def test_forest_names_posteriors_and_rows() -> None:
    for posteriors, texts in (
        ({"": POSTERIOR}, ["<a>", "<b>"]),
        ({"one": POSTERIOR, "two": POSTERIOR}, ["one: <a>", "two: <b>"]),
    ):
        axes = plot_forest(
            posteriors, "w", 0.94, coords={"domain": ["a", "b"]}, label=lambda s: f"<{s['domain']}>"
        )
        found = [t.get_text() for t in axes.get_yticklabels()]
        assert set(texts) <= set(found), found
        assert not any("c" in text for text in found)
        plt.close("all")


def test_a_later_arviz_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "arviz", SimpleNamespace(__version__="1.0.0"))
    with pytest.raises(ImportError, match=r"arviz < 1, found 1\.0\.0"):
        import_arviz()
