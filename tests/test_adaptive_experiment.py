"""The experiment on adaptive designs: its arithmetic, and a run on generated tables."""

from __future__ import annotations

import itertools
import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("botorch")

SCRIPT = Path(__file__).parents[1] / "experiments" / "adaptive.py"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Runs the script in this process with arguments; returns its names."""

    def run(*arguments: str) -> dict[str, Any]:
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
        monkeypatch.syspath_prepend(str(SCRIPT.parent))
        return runpy.run_path(str(SCRIPT), run_name="__main__" if arguments else "names")

    return run


def write_tables(folder: Path) -> str:
    """Writes tables whose loss of law falls with its weight; returns the folder."""
    rng = np.random.default_rng(0)
    for split, count in (("train", 30), ("test", 20)):
        weights = rng.dirichlet(np.ones(3), count)
        losses = 5 - weights[:, 1] + 0.01 * rng.standard_normal(count)
        rows = [",".join(map(repr, [n, *row])) for n, row in enumerate(weights.tolist())]
        table = "\n".join(["index,train_web,train_law,train_code", *rows])
        (folder / f"{split}_mixture_1m.csv").write_text(table + "\n")
        rows = [f"{n},{loss}" for n, loss in enumerate(losses)]
        table = "\n".join(["index,metric/law_val_loss", *rows])
        (folder / f"{split}_pile_loss_1m.csv").write_text(table + "\n")
    return str(folder)


def test_smoke(
    tmp_path: Path, script: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--tables", write_tables(tmp_path), "--smoke", "--targets", "law"]
    script(*given, "--out", str(tmp_path / "out"))
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    found = results["targets"]["law"]
    assert {"seed", "config", "versions", "commit"} <= set(results)
    assert results["cost"]["parts"]["law"]["seconds"] > 0
    assert "tables" not in results["config"]["run"], "it tells no places"
    assert results["pool"] == 50
    assert found["curves"]["adaptive"]["runs"] == [8, 12]
    assert [rows[0]["regret"] for rows in found["adaptive"]] == [
        rows[0]["regret"] for rows in found["fixed"]
    ], "both begin with the same runs"
    assert found["curves"]["adaptive, best measured"]["mean"][1] < 0.1
    assert found["curves"]["fixed, best measured"]["mean"][-1] == 0
    assert (tmp_path / "out" / "table.md").read_text() in capsys.readouterr().out
    for wrong, told in (
        (["--targets", "books"], "Expected one of the targets law, found 'books'"),
        (["--most", "47"], "Expected most <= 46, the pool, actual 47"),
        (["--first", "1"], "Expected first in [2, 12], actual 1"),
    ):
        with pytest.raises(SystemExit):
            script(*given, *wrong, "--out", str(tmp_path / "wrong"))
        assert told in capsys.readouterr().err.splitlines()[-1]
        assert not (tmp_path / "wrong").exists()


def test_the_regret_of_random_runs_is_the_mean_over_all_subsets(
    script: Callable[..., dict[str, Any]],
) -> None:
    losses = np.array([3.1, 2.0, 2.5, 4.0, 2.2])
    expected = [
        np.mean([min(part) for part in itertools.combinations(losses, n)]) - 2.0
        for n in range(1, 6)
    ]
    names = script()
    np.testing.assert_allclose(names["regret_of_best"](losses, 5), expected, atol=1e-12)
    needed = names["runs_needed"]
    assert needed([4, 8, 12, 16], [0.5, 0.1, 0.3, 0.2], 0.3) == 8
    assert needed([4, 8, 12, 16], [0.5, 0.1, 0.3, 0.2], 0.2) == 16, "it has to stay there"
    assert needed([4, 8], [0.5, 0.3], 0.2) is None
