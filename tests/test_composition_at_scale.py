"""The experiment on compositions at scale, on a table whose compositions are planted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("botorch")

import composition_at_scale as experiment_of
from processes import Run

DOMAINS = ("a", "b", "c", "d")
MADE = np.array([0.7, 0.3, 0.0])  # of what d is made, of a, b and c


def write_runs(folder: Path, large: np.ndarray) -> Path:
    """Writes tables whose losses of a, b and c fall with their weights, and whose d is made of
    them, in the large runs by other amounts."""
    rng = np.random.default_rng(0)
    for split, scale, count, made in (
        ("train", "1m", 200, MADE),
        ("test", "1m", 60, MADE),
        ("test", "60m", 60, large),
    ):
        weights = rng.dirichlet(np.ones(3), count)
        weights = np.concatenate([weights, np.zeros((count, 1))], 1)
        three = 5 - 0.3 * np.log(weights[:, :3] + 0.05)
        losses = np.concatenate([three, three @ made[:, None] + 2], 1)
        for name, values, form in (
            ("mixture", weights, "train_the_pile_{}"),
            ("pile_loss", losses, "metric/the_pile_{}_val_loss"),
        ):
            header = ["index", *map(form.format, DOMAINS)]
            rows = [[str(n), *map(repr, map(float, row))] for n, row in enumerate(values)]
            text = "".join(",".join(line) + "\n" for line in (header, *rows))
            (folder / f"{split}_{name}_{scale}.csv").write_text(text)
    return folder


def test_amounts_that_are_planted_are_found() -> None:
    others = np.random.default_rng(0).normal(size=(50, 3))
    np.testing.assert_allclose(experiment_of.amounts(others, others @ MADE + 4), MADE, atol=1e-9)
    negative = experiment_of.amounts(others, -others[:, 0])
    assert negative[0] == 0, "a text's loss does not fall because another's rises"


@pytest.mark.parametrize(("large", "apart"), [(MADE, 0.0), (np.array([0.0, 0.3, 0.7]), 0.7)])
def test_a_composition_that_carries_over_ranks_the_large_runs_and_another_does_not(
    tmp_path: Path, experiment: Callable[..., dict], large: np.ndarray, apart: float
) -> None:
    given = ("--runs", str(write_runs(tmp_path, large)), "--most", "1")
    found = experiment("composition_at_scale", *given)["targets"]
    own, there = found["1m"]["d"], found["60m"]["d"]
    assert own["composition"] == pytest.approx(1)
    assert own["slope"] == pytest.approx(1, abs=1e-3)
    assert there["its own composition"] == pytest.approx(1)
    assert there["total variation"] == pytest.approx(apart, abs=1e-3)
    assert (there["composition"] > 0.99) == (apart == 0)


def test_too_few_runs_without_the_domain_are_refused(tmp_path: Path, run_here: Run) -> None:
    given = ("--runs", str(write_runs(tmp_path, MADE)), "--most", "0", "--out", "run")
    done = run_here("composition_at_scale", *given, cwd=tmp_path)
    assert done.returncode == 2
    assert "Expected 10 training runs with at most 0 of a, found 0" in done.stderr
    assert not (tmp_path / "run").exists()
