"""`bydore fit` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import write_domains

from bydore_pyro.commands.fit_command import FitConfig, FitOptions, fit_command
from bydore_pyro.mixture import Mixture
from bydore_pyro.resuming import resumed_options


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fit")
    return write_domains(folder / "text", {"a": "abcde", "b": "vwxyz", "c": "klmno"}, files=30)


def arguments(text: Path, out: Path, method: str, *more: str) -> list[str]:
    given = ["--smoke", "--data", str(text), "--cache", str(text.parent / "cache")]
    return ["--method", method, *given, "--validation", "a", "--out", str(out), *more]


def test_a_method_leaves_a_run_and_reports_it(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    fit_command(arguments(text, out, "doremi", "--budget", "20"))
    shown = capsys.readouterr().out
    mixture = Mixture.from_json(out / "mixture.json")
    assert f"{max(mixture.weights):.3f}" in shown
    metrics = json.loads((out / "metrics.json").read_text())
    assert f"{metrics['search']['flops']:.2e} FLOPs" in shown
    assert metrics["method"] == "doremi"
    assert metrics["details"]["steps"] > 10
    assert {"versions", "commit", "peak_memory_megabytes"} <= set(metrics)
    assert (out / "trajectory.nc").is_file()
    assert resumed_options(out, "fit", FitOptions).fit.method == "doremi"


def test_a_run_is_continued_without_training_finished_proxies(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    fit_command(arguments(text, out, "regmix", "--budget", "20"))
    (out / "metrics.json").unlink()
    stamps = {p: p.stat().st_mtime_ns for p in (out / "proxies").rglob("run.json")}
    assert len(stamps) == 4
    before = (out / "mixture.json").read_bytes()
    capsys.readouterr()
    fit_command(["--resume", str(out)])
    assert {p: p.stat().st_mtime_ns for p in (out / "proxies").rglob("run.json")} == stamps
    assert (out / "mixture.json").read_bytes() == before


def test_tables_of_runs_need_no_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(3), size=30)
    losses = 5 - 2 * weights[:, 1] + 0.01 * rng.normal(size=30)
    rows = [f"r{i},{','.join(f'{x:.12f}' for x in w)}" for i, w in enumerate(weights)]
    (tmp_path / "ratios.csv").write_text("run,web,law,code\n" + "\n".join(rows) + "\n")
    rows = [f"r{i},{loss}" for i, loss in enumerate(losses)]
    (tmp_path / "metrics.csv").write_text("run,exam\n" + "\n".join(rows) + "\n")
    out = tmp_path / "out"
    given = ["--method", "regmix", "--runs", str(tmp_path), "--target", "exam"]
    fit_command([*given, "--regmix_draws", "2000", "--out", str(out)])
    mixture = Mixture.from_json(out / "mixture.json")
    assert mixture.as_dict()["law"] > 0.8
    assert mixture.hdi is not None, "the Gaussian process knows how sure it is"
    captured = capsys.readouterr()
    assert "30 runs of 3 domains; prior: the mean of the runs' mixtures" in captured.err
    assert "law" in captured.out
    with pytest.raises(SystemExit):
        fit_command([*given[:-1], "essay", "--out", str(tmp_path / "other")])
    assert "Expected one of the targets exam, found 'essay'" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--method", "magic"], "Expected a method (uniform, natural,"),
        (["--method", "mde", "--runs", "x", "--target", "y"], "Expected --method regmix with"),
        (["--method", "regmix", "--runs", "x"], "Expected --runs and --target together"),
        (["--method", "regmix", "--prior", "x"], "Expected --prior with --runs"),
        (["--method", "regmix", "--runs", "nowhere", "--target", "y"], "nowhere"),
        (["--method", "mde", "--smoke", "--budget", "0.1"], "Expected a budget of at least"),
    ],
)
def test_mistakes(
    wrong: list[str],
    message: str,
    text: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = ["--data", str(text), "--cache", str(text.parent / "cache"), "--validation", "a"]
    with pytest.raises(SystemExit) as exit_:
        fit_command([*wrong, *given, "--out", str(tmp_path / "out")])
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_the_options_name_the_method() -> None:
    assert FitConfig(method="mde").runs is None
    with pytest.raises(ValueError, match="Expected a method"):
        FitConfig(method="")
