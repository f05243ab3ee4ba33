"""The experiment on RegMix's runs, in smoke size on a generated table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_tables import planted

pytest.importorskip("botorch")

import regmix_pile
from regressions import Rival, fit_regression, intervals_of

from bydore_pyro.methods.regmix import simulated_optimum
from bydore_pyro.mixture.published import pile_weights
from bydore_pyro.tables.left_out import spearman_x100
from bydore_pyro.tables.tables import read_runs

SHARED = Path(__file__).parents[2] / "shared" / "regmix"
DOMAINS = ("arxiv", "github", "pile_cc")


def write_runs(folder: Path) -> Path:
    """Writes tables whose losses of a domain fall with the log of its weight; returns the folder.

    The tests' columns come in another order; those of 60m have losses of their own.
    """
    rng = np.random.default_rng(0)
    for split, scale, count in (("train", "1m", 50), ("test", "1m", 20), ("test", "60m", 20)):
        weights = rng.dirichlet(np.ones(len(DOMAINS)), count).round(3)
        losses = 5 - 0.3 * np.log(weights + 0.01) + 0.02 * rng.standard_normal(weights.shape)
        losses /= 1 if scale == "1m" else 2
        order = (0, 1, 2) if split == "train" else (2, 0, 1)
        for name, values, form in (
            ("mixture", weights, "train_the_pile_{}"),
            ("pile_loss", losses, "metric/the_pile_{}_val_loss"),
        ):
            header = ["index", *(form.format(DOMAINS[k]) for k in order)]
            rows = [[str(n), *map(str, row[list(order)])] for n, row in enumerate(values)]
            text = "".join(",".join(line) + "\n" for line in (header, *rows))
            (folder / f"{split}_{name}_{scale}.csv").write_text(text)
    return folder


def test_one_target_on_two_scales(tmp_path: Path, experiment: Callable[..., dict]) -> None:
    given = ("--runs", str(write_runs(tmp_path)), "--target", "arxiv", "--draws", "2000")
    results = experiment("regmix_pile", *given)
    assert set(results["cost"]["parts"]) == {"correlations", "optima"}
    assert results["versions"]["lightgbm"]
    assert [*results["scores"]] == ["1m", "60m"]
    for scale in results["scores"].values():
        (found,) = scale.values()
        assert found["Gaussian process"] > 95
        assert found["linear"] > 80
    assert results["scores"]["1m"]["arxiv"]["% in its 94 % intervals"] > 80
    assert results["optimum"]["Gaussian process"]["arxiv"] > 0.8
    for weights in results["optimum"].values():
        assert sum(weights.values()) == pytest.approx(1)


def test_early_stopping_ends_at_the_least_error() -> None:
    """Its trees are a beginning of the 1000: one more raises an error on what it stops on."""
    weights, losses = planted(200, noise=0.3)
    test, expected = planted(100, noise=0.3, seed=1)
    rival = fit_regression("lightgbm", weights, losses)
    assert isinstance(rival, Rival)
    (whole,) = rival.models
    (stopped,) = regmix_pile.stopped_trees((weights, losses), (test, expected)).models
    trees = stopped.best_iteration
    assert 1 < trees < 1000

    def errors(trees: int) -> tuple[float, float]:
        off = whole.predict(test, num_iteration=trees) - expected
        return float(np.abs(off).mean()), float((off**2).mean())

    part = whole.predict(test, num_iteration=trees)
    np.testing.assert_allclose(stopped.predict(test), part, rtol=1e-12)
    ahead = np.array([errors(trees + more) for more in range(1, 4)])
    assert (ahead >= np.array(errors(trees))).all(0).any()


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the runs of RegMix are not in {SHARED}")
def test_the_figures_of_the_authors() -> None:
    """On the tables as they stand, with rounded weights."""
    names = ("train_mixture_1m.csv", "test_mixture_1m.csv")
    train, test = (read_runs(SHARED / name, normalise=False) for name in names)
    losses, measured = train.losses_of("pile_cc"), test.losses_of("pile_cc")

    def score(model: Any, measured: np.ndarray = measured) -> float:
        return round(spearman_x100(model.predict(test.weights)[:, 0], measured) or 0.0, 2)

    assert score(fit_regression("linear", train.weights, losses)) == 90.21
    assert score(fit_regression("lightgbm", train.weights, losses)) == 99.04
    stopped = {}
    for target, figure in (("arxiv", 99.60), ("pile_cc", 98.92)):
        expected = test.losses_of(target)
        runs = (train.weights, train.losses_of(target))
        stopped[target] = regmix_pile.stopped_trees(runs, (test.weights, expected))
        assert score(stopped[target], expected) == figure
    prior = np.array([pile_weights()["token_share"][name] for name in train.domains])
    optimum = simulated_optimum(lambda w: stopped["pile_cc"].predict(w)[:, 0], prior)
    weights = dict(zip(train.domains, optimum, strict=True))
    assert round(weights["pile_cc"], 4) == 0.8909
    assert round(weights["ubuntu_irc"], 4) == 0.0614
    process = fit_regression("gaussian_process", train.weights, losses)
    assert score(process) > 99.3, "its kernel is found from half of the runs"
    low, high = intervals_of(process, test.weights)[:, 0].T
    assert ((low < measured) & (measured < high)).mean() > 0.94
    assert score(fit_regression("gaussian_process", train.weights[:24], losses[:24])) > 90
