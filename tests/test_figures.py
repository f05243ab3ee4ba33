"""The study's figures, drawn from the results that lie beside them, and what they refuse."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from PIL import Image
from processes import Run

from bydore_pyro.mixture.mixture import Mixture

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "figures"
RESULTS = FIGURES / "results"
SCRIPTS = sorted(p.stem for p in FIGURES.glob("*.py") if p.stem != "study_figure")


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n == "posterior" else pytest.mark.slow) for n in SCRIPTS],
)
def test_a_figure_is_drawn_as_pdf_and_png_and_fits_its_page(
    name: str, run_here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dots = 72
    shutil.copytree(RESULTS, tmp_path / "results")
    monkeypatch.syspath_prepend(FIGURES)
    monkeypatch.setattr("study_figure.DOTS_PER_INCH", dots)
    done = run_here(name, "--folder", str(tmp_path), top="figures")
    assert done.returncode == 0
    assert done.stdout.split() == [str(tmp_path / f"{name}.pdf"), str(tmp_path / f"{name}.png")]
    assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    picture = np.asarray(Image.open(tmp_path / f"{name}.png").convert("L"))
    height, width = picture.shape
    assert width <= 7.0 * dots + 1, "no wider than a page, 7 inches"
    assert height <= 9 * dots
    assert 0.005 < (picture < 200).mean() < 0.5, "neither blank nor black"
    assert all((FIGURES / f"{name}.{kind}").is_file() for kind in ("pdf", "png"))
    edge = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
    assert (edge > 200).all(), "nothing is cut off at the edge"


def test_the_study_draws_every_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "experiments"))
    drawn = runpy.run_path(str(ROOT / "experiments" / "study.py"))["FIGURES"]
    assert sorted(drawn) == sorted(SCRIPTS)


def test_the_posterior_shows_the_mixture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FIGURES))
    mixture = Mixture.from_json(RESULTS / "case1" / "mixture.json")
    right = runpy.run_path(str(FIGURES / "posterior.py"))["draw"](RESULTS / "case1").axes[1]
    order = [label.get_text() for label in right.get_yticklabels()]
    weights = mixture.as_dict()
    means = [line.get_xdata()[0] for line in right.lines if line.get_marker() == "D"]
    assert order[-1] == max(weights, key=weights.__getitem__)
    np.testing.assert_allclose(means, [weights[name] for name in order], atol=0.01)
    plt.close("all")


def test_results_are_small_and_name_no_folder() -> None:
    for path in RESULTS.rglob("*"):
        if path.is_file():
            assert path.stat().st_size < 400_000, path
            assert b"/tmp/" not in path.read_bytes(), path


def origin(path: Path) -> dict[str, Any]:
    """What a file says of how it was made; of a run's folder, what its files say together."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if (path.parent / "config.json").exists():
        content = json.loads((path.parent / "metrics.json").read_text(encoding="utf-8"))
        config = json.loads((path.parent / "config.json").read_text(encoding="utf-8"))
        content |= {"config": config, "cost": content["search"]}
    return content


def test_results_carry_config_seed_versions_commit_and_cost() -> None:
    for path in RESULTS.rglob("*.json"):
        content = origin(path)
        for found in content.get("runs", {"": content}).values():  # one file may hold several runs
            assert {"config", "cost", "seed", "versions", "commit"} <= set(found), path
            assert found["config"], found["versions"]
            assert found["seed"] == found["config"].get("run", {}).get("seed", 0), path
            cost = found["cost"]
            assert cost["seconds"] > 0
            for unit in ("tokens", "flops", "seconds"):
                total = sum(part[unit] for part in cost["parts"].values())
                assert cost[unit] == pytest.approx(total, rel=1e-4), path


def test_results_name_commits_of_this_history() -> None:
    def git(*arguments: str) -> str:
        told = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
        return told.stdout if told.returncode == 0 else ""

    if shutil.which("git") is None or git("rev-parse", "--is-shallow-repository") != "false\n":
        pytest.skip("there is no git history here, or only the end of one")
    history = set(git("rev-list", "HEAD").split())
    named = {
        path: re.findall(r'"commit": ?"([0-9a-f]+)\+?"', path.read_text(encoding="utf-8"))
        for path in RESULTS.rglob("*.json")
    }
    assert sum(map(len, named.values())) >= 9
    assert {str(p): c for p, c in named.items() if not history.issuperset(c)} == {}
