"""`bydore fit` as a user runs it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray

pytest.importorskip("botorch")

from bydore_pyro.cli.fit import FitConfig, FitOptions, fit_command
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.report.run import read_run
from bydore_pyro.report.verdicts import verdicts_of
from bydore_pyro.utils.options import resumed_options


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


def test_trials_leave_draws_of_their_weights(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    fit_command(arguments(text, out, "bydore", "--budget", "24"))
    mixture = Mixture.from_json(out / "mixture.json")
    posterior = xarray.load_dataset(out / "posterior.nc", engine="h5netcdf", group="posterior")
    drawn = posterior["w"]
    assert dict(drawn.sizes) == {"chain": 4, "draw": 250, "domain": 3}
    assert tuple(drawn["domain"].values) == mixture.names
    np.testing.assert_allclose(drawn.sum("domain"), 1)
    np.testing.assert_allclose(drawn.std(("chain", "draw")), mixture.standard_deviation)


def test_a_run_is_continued_without_training_finished_proxies(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The adaptive ones are proposed again, and found."""
    out = tmp_path / "run"
    fit_command(arguments(text, out, "regmix", "--budget", "20", "--adaptive", "5"))
    metrics = json.loads((out / "metrics.json").read_text())
    told = metrics["details"]["adaptive"]["told"]
    assert told in capsys.readouterr().err
    (out / "metrics.json").unlink()
    stamps = {p: p.stat().st_mtime_ns for p in (out / "proxies").rglob("tree.json")}
    assert len(stamps) == metrics["details"]["proxies"] > 4, told
    before = (out / "mixture.json").read_bytes()
    last = max(stamps, key=lambda path: stamps[path])
    shutil.rmtree(last.parent)
    fit_command(["--resume", str(out)])
    after = {p: p.stat().st_mtime_ns for p in (out / "proxies").rglob("tree.json")}
    assert after.keys() == stamps.keys()
    assert [path for path, stamp in after.items() if stamp != stamps[path]] == [last]
    assert (out / "mixture.json").read_bytes() == before
    again = json.loads((out / "metrics.json").read_text())
    assert again["search"]["flops"] == metrics["search"]["flops"]


def test_a_table_is_followed_by_what_to_train_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its rows continue the table; the same table is followed by the same rows."""
    given = write_table(tmp_path, runs=6)
    for out in ("first", "again"):
        fit_command([*given[:-1], str(tmp_path / out), "--adaptive", "3"])
    table = (tmp_path / "first" / "next_mixtures.csv").read_text()
    assert (tmp_path / "again" / "next_mixtures.csv").read_text() == table
    told = capsys.readouterr().err
    assert f"What to train next: {tmp_path / 'first' / 'next_mixtures.csv'}" in told
    header, *rows = table.splitlines()
    assert header == "run,web,law,code"
    assert [row.split(",")[0] for row in rows] == ["next-7", "next-8", "next-9"]
    with (tmp_path / "ratios.csv").open("a") as weights, (tmp_path / "metrics.csv").open("a") as m:
        weights.write("\n".join(rows) + "\n")
        m.writelines(f"{r.split(',')[0]},{5 - 2 * float(r.split(',')[2])}\n" for r in rows)
    law = [float(row.split(",")[2]) for row in rows]
    assert max(law) > 0.6, "the loss falls with law"
    fit_command([*given[:-1], str(tmp_path / "more"), "--adaptive", "1"])
    assert "9 runs of 3 domains" in capsys.readouterr().err


def write_table(folder: Path, runs: int = 30) -> list[str]:
    """Writes runs whose exam falls with the weight of law; returns the arguments that fit them."""
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(3), size=runs)
    losses = 5 - 2 * weights[:, 1] + 0.01 * rng.normal(size=runs)
    rows = [f"r{i},{','.join(f'{x:.12f}' for x in w)}" for i, w in enumerate(weights)]
    (folder / "ratios.csv").write_text("run,web,law,code\n" + "\n".join(rows) + "\n")
    rows = [f"r{i},{loss}" for i, loss in enumerate(losses)]
    (folder / "metrics.csv").write_text("run,exam\n" + "\n".join(rows) + "\n")
    return [
        *("--method", "regmix", "--runs", str(folder), "--target", "exam"),
        *("--regmix_draws", "500", "--out", str(folder / "out")),
    ]


def test_fewer_runs_than_domains_are_refused_or_told_everywhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = write_table(tmp_path, runs=2)
    with pytest.raises(SystemExit) as exit_:
        fit_command(given)
    assert exit_.value.code == 2
    assert "as many runs as domains (3), found 2; --few_runs" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    fit_command([*given, "--few_runs"])
    told = "Fitted to 2 runs of 3 domains, fewer runs than domains"
    captured = capsys.readouterr()
    assert told in captured.out
    assert f"warning: {told}" in captured.err
    assert told in (tmp_path / "out" / "mixture.json").read_text()
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert told in page
    assert "Are there enough runs?" in page
    (decided,) = (
        found for found in verdicts_of(read_run(tmp_path / "out"))
        if found.question == "How much is decided?"
    )  # fmt: skip
    assert decided.level == "bad"


def test_epochs_cap_what_tables_lead_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [*write_table(tmp_path), "--max_epochs", "2", "--target_tokens", "1000"]
    with pytest.raises(SystemExit):
        fit_command(given)
    last = capsys.readouterr().err.splitlines()[-1]
    assert "Expected --domain_tokens FILE or --data with --max_epochs and --target_tokens" in last
    tokens = tmp_path / "tokens.json"
    tokens.write_text('{"web": 1000, "law": 250, "code": 400}')
    with pytest.raises(SystemExit):
        fit_command([*given[:-2], "--domain_tokens", str(tokens)])
    assert "Expected --target_tokens with --max_epochs" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        fit_command([*given, "--target_tokens", "1000", "2000"])
    assert "Expected one --target_tokens, found 2" in capsys.readouterr().err
    fit_command([*given, "--domain_tokens", str(tokens)])
    mixture = Mixture.from_json(tmp_path / "out" / "mixture.json")
    assert mixture.as_dict()["law"] == pytest.approx(0.5, abs=0.1), "two epochs of 250 in 1000"
    assert mixture.as_dict()["law"] <= 0.5 + 1e-9
    assert mixture.free_weights is not None
    assert mixture.free_weights[1] > 0.5
    assert mixture.prior == pytest.approx((1000 / 1650, 250 / 1650, 400 / 1650))
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["run_epochs"]["law"] == pytest.approx(2, abs=0.4)
    tokens.write_text('{"web": 1000, "law": 50}')
    with pytest.raises(SystemExit):
        fit_command([*given[:-4], "--domain_tokens", str(tokens), "--out", str(tmp_path / "b")])
    assert "tokens of the runs' domains" in capsys.readouterr().err


def test_only_settings_that_matter_are_kept_and_what_fitted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit_command(write_table(tmp_path))
    shown = capsys.readouterr().err
    kept = (tmp_path / "out" / "config.json").read_text()
    used = {"regmix_regression": "auto", "regmix_draws": 500, "regmix_kl": 0.0, "adaptive": 0}
    assert json.loads(kept)["regmix"] == used
    for idle in ("learning_rate", "vocabulary", "guide_warmup", "regmix_proxies"):
        assert idle not in kept
    assert "fit and optima" in shown, "a bar"
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert {"scikit-learn", "lightgbm", "botorch"} <= set(metrics["versions"])


def test_tables_of_runs_need_no_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_table(tmp_path)
    out = tmp_path / "out"
    given = ["--method", "regmix", "--runs", str(tmp_path), "--target", "exam"]
    process = ("--regmix_regression", "gaussian_process")
    fit_command([*given, *process, "--regmix_draws", "600", "--out", str(out)])
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
        (
            ["--method", "mde", "--runs", "x", "--target", "y"],
            "Expected --method regmix with --runs, found 'mde'",
        ),
        (["--method", "regmix", "--runs", "x"], "Expected --runs and --target together"),
        (["--method", "mde", "--adaptive", "4"], "Expected --method regmix with --adaptive, found"),
        (["--method", "regmix", "--adaptive", "-1"], "Expected adaptive >= 0, actual -1"),
        (
            ["--method", "regmix", "--adaptive", "4", "--regmix_regression", "linear"],
            "Expected --regmix_regression gaussian_process with --adaptive, found 'linear'",
        ),
        (["--method", "regmix", "--prior", "x"], "Expected --prior with --runs"),
        (["--method", "regmix", "--runs", "nowhere", "--target", "y"], "nowhere"),
        (["--method", "mde", "--smoke", "--budget", "0.1"], "Expected a budget of at least"),
        (["--method", "mde", "--config", "repeat.yaml"], "Expected --target_tokens with proxies_"),
        (
            ["--method", "doremi", "--config", "repeat.yaml", "--target_tokens", "9e9"],
            "trains proxies here (regmix, autoscale, mde, mixmin, bydore), found 'do",
        ),
    ],
)
def test_mistakes(
    wrong: list[str],
    message: str,
    text: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("repeat.yaml").write_text("proxies_repeat: true")
    given = ["--data", str(text), "--cache", str(text.parent / "cache"), "--validation", "a"]
    with pytest.raises(SystemExit) as exit_:
        fit_command([*wrong, *given, "--out", str(tmp_path / "out")])
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_the_options_name_the_method() -> None:
    assert FitConfig(method="mde").runs is None
    with pytest.raises(ValueError, match="Expected a method"):
        FitConfig(method="magic")
