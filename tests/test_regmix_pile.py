"""The experiment on RegMix's runs, in smoke size on a generated table, and what it refuses."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_tables import planted
from processes import Run

from bydore_pyro.baselines.simulated import simulated_optimum
from bydore_pyro.baselines.tables import read_runs

pytest.importorskip("botorch")

from bydore_pyro.baselines import fit_gaussian_process, fit_regression, interval_of_run
from bydore_pyro.baselines.regression import PointRegression, spearman_x100
from bydore_pyro.mixture.published import pile_weights

sys.path.insert(0, str(Path(__file__).parents[1] / "experiments"))
import regmix_pile

SHARED = Path(__file__).parents[2] / "shared" / "regmix"
DOMAINS = ("arxiv", "github", "pile_cc")
PRIOR = "domain,weight\ngithub,0.3\narxiv,0.2\npile_cc,0.5\n"


def write_runs(folder: Path, train: int = 50, test: int = 20, scale: str = "1m") -> Path:
    """Writes tables whose losses of a domain fall with the log of its weight; returns the folder.

    The test's columns come in another order.
    """
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for split, count in (("train", train), ("test", test)):
        weights = rng.dirichlet(np.ones(len(DOMAINS)), count).round(3)
        losses = 5 - 0.3 * np.log(weights + 0.01) + 0.02 * rng.standard_normal(weights.shape)
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


@pytest.mark.slow
def test_smoke(tmp_path: Path, run_here: Run) -> None:
    out = tmp_path / "run"
    arguments = ("--runs", str(write_runs(tmp_path / "runs")), "--smoke", "--out", str(out))
    done = run_here("regmix_pile", *arguments)
    assert done.returncode == 0, done.stderr
    assert "arning" not in done.stderr
    assert (out / "table.md").read_text() in done.stdout
    results = json.loads((out / "results.json").read_text())
    assert results["runs"] == {"train": 50, "test": 20}
    assert list(results["targets"]) == ["pile_cc"]
    found = results["targets"]["pile_cc"]
    assert found["Gaussian process"]["spearman_x100"] > 95
    assert found["LightGBM, 1000 trees"]["trees"] == 1000
    assert found["linear"]["spearman_x100"] > 80
    assert results["prior"]["source"].startswith("the mean of the runs' mixtures")
    for name in ("linear", "LightGBM, stopped on test", "LightGBM, stopped on train"):
        assert sum(results["optimum"][name]["weights"].values()) == pytest.approx(1)
    optimum = results["optimum"]["Gaussian process"]
    assert optimum["weights"]["pile_cc"] > 0.9
    low, high = optimum["weights_intervals"]["pile_cc"]
    assert 0.8 < low < high <= 1
    low, high = optimum["loss_interval_nats_per_token"]
    assert low < optimum["predicted_loss_nats_per_token"] < high
    assert results["versions"]["lightgbm"]
    config = json.loads((out / "config.json").read_text())
    assert config["run"]["draws"] == 100_000
    again = run_here("regmix_pile", *arguments)
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    assert "Expected a new output folder" in again.stderr


def test_one_target_a_prior_and_other_scales(tmp_path: Path, run_here: Run) -> None:
    write_runs(tmp_path, scale="60m")
    prior = tmp_path / "prior.csv"
    prior.write_text(PRIOR)
    write_runs(tmp_path, scale="1B", train=3)
    for name in ("train_mixture_1B.csv", "train_pile_loss_1B.csv"):
        (tmp_path / name).unlink()  # the scale of 1B has test runs alone
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # as for a user: shown, not raised
        done = run_here(
            "regmix_pile",
            *("--runs", str(tmp_path), "--prior", str(prior)),
            *("--draws", "500", "--best", "16", "--normalise", "--target", "arxiv"),
            *("--out", str(tmp_path / "run")),
        )
    assert done.returncode == 0, done.stderr
    told = [line for line in done.stderr.splitlines() if line.startswith("regmix_pile: warning: ")]
    assert len(told) == 3, "all tables have rounded weights, and nothing else is warned of"
    assert all("normalised" in line for line in told)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert (results["seed"], results["config"]["run"]["target"]) == (42, "arxiv")
    assert set(results["cost"]["parts"]) == {"correlations", "optima"}
    assert set(results["targets"]) == {"arxiv"}, "one target, where one is named"
    assert results["scale"] == "60m"
    (other,) = results["other_scales"].values()
    assert other["arxiv"]["Gaussian process"]["spearman_x100"] > 95
    assert "20 runs of scale 1B, fitted to 50 of 60m, whose test runs stop the trees" in done.stdout
    assert results["prior"]["shares"] == {"arxiv": 0.2, "github": 0.3, "pile_cc": 0.5}
    assert results["optimum"]["Gaussian process"]["weights"]["arxiv"] > 0.8
    assert "the mean of the best 16 of 500 mixtures" in done.stdout


def test_coverage_of_subsets(tmp_path: Path, run_here: Run) -> None:
    runs = write_runs(tmp_path / "runs", train=50, test=10)
    given = ("--runs", str(runs), "--smoke", "--subsets", "2", "--draws", "500", "--best", "16")
    done = run_here("regmix_pile", *given, "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    found = results["subsets"]["sizes"]["24"]
    assert found["held"] >= 0.5
    assert set(found["held_by_domain"]) == set(DOMAINS)
    assert "hold the optimum of all 60 runs" in done.stdout


def test_early_stopping_ends_at_the_least_error() -> None:
    """Its trees are a beginning of the 1000: one more raises an error on what it stops on."""
    weights, losses = planted(200, noise=0.3)
    test, expected = planted(100, noise=0.3, seed=1)
    whole = fit_regression("lightgbm", weights, losses)
    stopped = regmix_pile.stopped_trees((weights, losses), (test, expected))
    assert isinstance(whole, PointRegression)
    trees = regmix_pile.details(stopped)["trees"]
    assert 1 < trees < 1000

    def errors(trees: int) -> tuple[float, float]:
        off = whole.estimator.predict(test, num_iteration=trees) - expected
        return float(np.abs(off).mean()), float((off**2).mean())

    part = whole.estimator.predict(test, num_iteration=trees)
    np.testing.assert_allclose(stopped.predict(test), part, rtol=1e-12)
    ahead = np.array([errors(trees + more) for more in range(1, 4)])
    assert (ahead >= np.array(errors(trees))).all(0).any()


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the runs of RegMix are not in {SHARED}")
def test_the_figures_of_the_authors() -> None:
    """On the tables as they stand, with rounded weights."""
    train, test = (
        read_runs(SHARED, split, scale="1m", normalise=False) for split in ("train", "test")
    )
    losses, measured = train.losses_of("pile_cc"), test.losses_of("pile_cc")

    def score(model: Any, measured: np.ndarray = measured) -> float:
        return round(spearman_x100(model.predict(test.weights), measured) or 0.0, 2)

    assert score(fit_regression("linear", train.weights, losses)) == 90.21
    assert score(fit_regression("lightgbm", train.weights, losses)) == 99.04
    scores = []
    for target in train.targets:
        expected = test.losses_of(target)
        runs = (train.weights, train.losses_of(target))
        model = regmix_pile.stopped_trees(runs, (test.weights, expected))
        scores.append(score(model, expected))
        if target == "pile_cc":
            stopped = model
    assert scores == [99.60, 99.71, 99.08, 99.45, 97.20, 99.77, 99.73, 99.18, 98.92, 96.87, 98.51,
                      99.19, 99.12]  # fmt: skip
    prior = np.array([pile_weights()["token_share"][name] for name in train.domains])
    weights = dict(zip(train.domains, simulated_optimum(stopped, prior).weights, strict=True))
    assert round(weights["pile_cc"], 4) == 0.8909
    assert round(weights["ubuntu_irc"], 4) == 0.0614
    process = fit_gaussian_process(train.weights, losses)
    assert score(process) > 99.4
    low, high = interval_of_run(process, test.weights).T
    assert ((low < measured) & (measured < high)).mean() > 0.94


@pytest.mark.parametrize(
    ("arguments", "prior", "message"),
    [
        (["--runs", "nowhere"], "", "found no nowhere"),
        (["--target", "books"], "", "targets arxiv, github, pile_cc, found 'books'"),
        (["--scale", "60m"], "", "Expected train_mixture_60m.csv and train_pile_loss_60m.csv"),
        (["--best", "0"], "", "Expected best in [1, draws]"),
        ([], PRIOR.replace("0.2", "much"), "prior.csv"),
        ([], PRIOR.replace("arxiv", "books"), "found 'arxiv' only in the runs"),
        ([], PRIOR + "books,0\n", "found 'books' only in"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str],
    prior: str,
    message: str,
    tmp_path: Path,
    run_here: Run,
) -> None:
    given = {"--runs": str(write_runs(tmp_path / "runs")), "--out": str(tmp_path / "run")}
    if prior:
        given["--prior"] = str(tmp_path / "prior.csv")
        (tmp_path / "prior.csv").write_text(prior)
    defaults = [x for option, v in given.items() if option not in arguments for x in (option, v)]
    done = run_here("regmix_pile", "--smoke", *defaults, *arguments)
    assert done.returncode == 2
    errors = done.stderr.strip().splitlines()
    assert len(errors) == 1, done.stderr
    assert errors[0].startswith("regmix_pile: error: ")
    assert message in errors[0]
    assert not (tmp_path / "run").exists(), "refused before anything was written"


def test_too_few_runs_leave_nothing(tmp_path: Path, run_here: Run) -> None:
    runs = write_runs(tmp_path / "runs", train=49)
    done = run_here("regmix_pile", "--runs", str(runs), "--smoke", "--out", str(tmp_path / "run"))
    assert done.returncode == 2
    assert "regmix_pile: error: Expected at least 40 runs for" in done.stderr
    assert not (tmp_path / "run").exists()
    constant = runs / "train_pile_loss_1m.csv"
    header, *rows = constant.read_text().splitlines()
    constant.write_text("\n".join([header, *(f"{row.split(',')[0]},3,3,3" for row in rows)]))
    done = run_here("regmix_pile", "--runs", str(runs), "--smoke", "--out", str(tmp_path / "run"))
    assert done.returncode == 2
    assert "regmix_pile: error: Expected runs that differ in loss, found 3 in all" in done.stderr
