"""`bydore fit` as a user runs it: with proxies, and on tables of finished runs."""

from __future__ import annotations

import csv
import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("botorch")

from bydore_pyro.cli.fit import SMALL, FitOptions, fit_command, run_fit
from bydore_pyro.command_line.command_line import options_from
from bydore_pyro.command_line.options import resumed_options
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.report.run import read_run
from bydore_pyro.report.verdicts import verdicts_of
from bydore_pyro.setup.options import SMOKE

DOMAINS = ("web", "law", "code")
METRICS = ("exam:a", "exam:b", "program")


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
    assert f"{max(mixture.weights):.4f}" in shown
    metrics = json.loads((out / "metrics.json").read_text())
    assert f"{metrics['search']['flops']:.2e} FLOPs" in shown
    assert metrics["method"] == "doremi"
    assert metrics["steps"] > 10
    assert {"versions", "commit", "peak_memory_megabytes"} <= set(metrics)
    assert (out / "trajectory.nc").is_file()
    assert resumed_options(out, "fit", FitOptions).fit.method == "doremi"


def test_a_run_is_continued_without_training_finished_proxies(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    fit_command(arguments(text, out, "regmix", "--budget", "20"))
    metrics = json.loads((out / "metrics.json").read_text())
    (out / "metrics.json").unlink()
    stamps = {p: p.stat().st_mtime_ns for p in (out / "proxies").rglob("tree.json")}
    assert len(stamps) == metrics["runs"] == 4
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


def write_runs(folder: Path, runs: int = 48, names: tuple[str, ...] = METRICS) -> Path:
    """Writes runs of olmix's law: law helps the exams, code the programs; returns their folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(3), size=runs)
    laws = ([0.5, -2, 0.5], [0.5, -1, 0.2], [0.5, 0.5, -2])
    losses = {
        name: 1 + np.exp(weights @ law) + 0.02 * rng.standard_normal(runs)
        for name, law in zip(names, laws, strict=True)
    }
    for name, columns in (
        ("ratios", dict(zip(DOMAINS, weights.T, strict=True))),
        ("metrics", losses),
    ):
        rows = zip(*columns.values(), strict=True)
        lines = [f"r{i},{','.join(f'{x:.12f}' for x in row)}" for i, row in enumerate(rows)]
        text = "\n".join([f"run,{','.join(columns)}", *lines, ""])
        (folder / f"{name}.csv").write_text(text)
    return folder


@pytest.fixture
def fit(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Fits tables into `out`; returns what its metrics tell."""

    def fit(runs: Path, *more: str) -> dict[str, Any]:
        given = ["--runs", str(runs)]
        fit_command([*given, *more, "--out", str(tmp_path / "out")])
        return json.loads((tmp_path / "out" / "metrics.json").read_text())

    return fit


def test_a_mean_is_fitted_by_the_law_and_all_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fit: Callable[..., dict[str, Any]]
) -> None:
    natural, given, out = tmp_path / "natural.json", tmp_path / "given.csv", tmp_path / "out"
    natural.write_text('{"web": 0.6, "law": 0.2, "code": 0.2}')
    given.write_text("name,web,law,code\nwebby,0.9,0.05,0.05\nlawful,0.1,0.8,0.1\n")
    metrics = fit(
        *(write_runs(tmp_path / "runs"), "--target", "exam:*=2", "program=1"),
        *("--prior", str(natural), "--predict", str(given)),
        *("--data", "nowhere", "--minimize", "*"),
    )
    table = metrics["table"]
    assert (metrics["method"], table["columns"]["weights"]) == ("bydore", [*DOMAINS])
    assert table["asked"]["program"]["direction"] == "minimised"
    assert table["prior"] == pytest.approx({"web": 0.6, "law": 0.2, "code": 0.2})
    assert table["mean"]["left_out"]["spearman_x100"] > 90
    mixture = Mixture.from_json(out / "mixture.json").as_dict()
    assert mixture["law"] == max(mixture.values())
    assert table["mean"]["differences"]["prior"]["better"] > 0.97
    with (out / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["mixture"] for row in rows] == ["lawful", "webby"]
    low, predicted, high = (float(rows[0][name]) for name in ("low", "expected", "high"))
    assert low < predicted < high
    exams = sum(1 + np.exp(np.dot([0.1, 0.8, 0.1], t)) for t in ([0.5, -2, 0.5], [0.5, -1, 0.2]))
    assert low < 0.4 * exams + 0.2 * (1 + np.exp(np.dot([0.1, 0.8, 0.1], [0.5, 0.5, -2]))) < high
    assert {"scikit-learn", "lightgbm", "botorch"} <= set(metrics["versions"])
    captured = capsys.readouterr()
    assert f"48 runs of 3 domains; prior: {natural}" in captured.err
    assert "without effect beside --runs: --data" in captured.err
    asked = {verdict.question: verdict for verdict in verdicts_of(read_run(out))}
    assert asked["Does it predict runs that it has not seen?"].level == "good"
    assert asked["Are there enough runs?"].level == "good"
    assert "Was anything like it run?" in asked
    kept = json.loads((out / "config.json").read_text())
    assert kept["regmix"] == {}, "only settings that matter"
    asked_for = {"max_epochs": None, "target_tokens": None, "domain_tokens": []}
    assert kept["question"] == asked_for


def test_of_a_metric_that_is_better_when_higher_the_best_weight_is_the_largest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fit: Callable[..., dict[str, Any]]
) -> None:
    """The planted answer: accuracy rises with law alone, and one of the runs failed."""
    rng, runs = np.random.default_rng(0), tmp_path / "runs"
    weights = rng.dirichlet(np.ones(3), size=24)
    runs.mkdir()
    lines = [f"r{i},{','.join(map(repr, w.tolist()))}" for i, w in enumerate(weights)]
    (runs / "ratios.csv").write_text("\n".join([f"run,{','.join(DOMAINS)}", *lines]))
    law = DOMAINS.index("law")
    lines = [f"r{i},{0.3 + 0.2 * w:.6f},{i}" for i, w in enumerate(weights[:, law])]
    lines[5], lines[6] = "r5,,5", lines[6][: lines[6].rindex(",") + 1]
    (runs / "metrics.csv").write_text("\n".join(["run,mmlu_acc,step_loss", *lines]))
    with pytest.raises(SystemExit):
        fit(runs, "--target", "mmlu_acc")
    assert "--maximize mmlu_acc, or --minimize mmlu_acc" in capsys.readouterr().err
    fit(runs, "--target", "mmlu_acc", "--maximize", "mmlu_acc")
    mixture = json.loads((tmp_path / "out" / "mixture.json").read_text())
    assert mixture["weights"]["law"] > 0.7
    most = 0.3 + 0.2 * weights[:, law].max()
    best = f"Maximised: mmlu_acc (higher is better; best {most:.6g}, run r"
    assert mixture["notes"][-2].startswith(best)
    assert mixture["notes"][-1] == "Left out without mmlu_acc: 1 of 24 runs."
    shown = capsys.readouterr()
    assert "maximised: mmlu_acc" in shown.err
    assert "metrics: mmlu_acc, step_loss\n" in shown.err
    assert "Maximised: mmlu_acc" in shown.out


def test_a_table_is_fitted_by_regmix_trees(
    tmp_path: Path, fit: Callable[..., dict[str, Any]]
) -> None:
    runs, given = write_runs(tmp_path / "runs", 52), ("--target", "exam:a", "--minimize", "*")
    metrics = fit(runs, *given, "--method", "regmix", "--regmix_draws", "500")
    assert metrics["method"] == "regmix"
    kept = json.loads((tmp_path / "out" / "config.json").read_text())
    assert kept["regmix"] == {"regmix_draws": 500}
    record = read_run(tmp_path / "out")
    assert (record.method, record.searched) == ("regmix", False)
    mixture = Mixture.from_json(tmp_path / "out" / "mixture.json")
    assert mixture.as_dict()["law"] == max(mixture.weights)
    assert mixture.hdi is None, "trees know no interval of the weights"


def test_how_a_table_is_read_stands_on_the_screen_in_the_record_and_on_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fit: Callable[..., dict[str, Any]]
) -> None:
    """A table as W&B exports it: a crashed run, a step, a time, and a loss of the training."""
    rng = np.random.default_rng(0)
    rows = ["Name,State,_runtime,_step,weights.a,weights.b,train_loss,val/loss"]
    for number, weights in enumerate(rng.dirichlet(np.ones(2), 12)):
        state, loss = ("crashed", 9.0) if number == 3 else ("finished", 2 + weights[0] ** 2)
        cells = [f"r{number}", state, 100 + number, 500, *weights, 7, loss]
        rows.append(",".join(map(str, cells)))
    (tmp_path / "runs.csv").write_text("\n".join(rows))
    metrics = fit(tmp_path / "runs.csv", "--target", "all")
    table = metrics["table"]
    assert (table["runs"], table["mean"]["left_out"]["spearman_x100"] > 90) == (11, True)
    columns = table["columns"]
    assert columns["weights"] == ["weights.a", "weights.b"]
    assert columns["metrics"] == ["val/loss"]
    assert columns["ignored"]["train_loss"] == "a loss of the training"
    assert table["reading"] == ["left out, as their state is crashed: 1 of 12 runs"]
    assert table["asked"]["val/loss"]["run"] in {f"r{n}" for n in range(12)} - {"r3"}
    shown, page = capsys.readouterr(), (tmp_path / "out" / "report.html").read_text()
    for line in (
        "weights: weights.a, weights.b",
        "metrics: val/loss",
        "train_loss (a loss of the training)",
        "minimised: val/loss (lower is better; best 2",
        "left out, as their state is crashed: 1 of 12 runs",
    ):
        assert line in shown.err
    for text in ("weights.a, weights.b", "a loss of the training", "minimised"):
        assert text in page
        assert text in " ".join(shown.out.split())


def test_losses_in_another_unit_give_the_same_mixture(
    tmp_path: Path, fit: Callable[..., dict[str, Any]]
) -> None:
    found = []
    for unit in (1, 1e-9, 1e25):
        rng, rows = np.random.default_rng(0), ["run,a,b,loss"]
        for number, (a, b) in enumerate(rng.dirichlet(np.ones(2), 21)):
            loss = unit * (2 + a**2 + 0.1 * b + 0.02 * rng.standard_normal())
            rows.append(f"r{number},{a},{b},{loss}")
        (tmp_path / "runs.csv").write_text("\n".join(rows))
        metrics = fit(tmp_path / "runs.csv", "--target", "loss")
        mixture = Mixture.from_json(tmp_path / "out" / "mixture.json")
        mean = metrics["table"]["mean"]
        (verdict,) = (
            one
            for one in verdicts_of(read_run(tmp_path / "out"))
            if one.question == "Is it better than the prior?"
        )
        expected, apart = mean["expected"]["answer"], mean["differences"]["prior"]
        ends = (expected["loss"] / unit, expected["low"] / unit, expected["high"] / unit)
        found.append((*mixture.weights, *ends, apart["better"]))
        assert verdict.answer == "Yes"
        shutil.rmtree(tmp_path / "out")
    np.testing.assert_allclose(found[1], found[0], rtol=0.02)
    np.testing.assert_allclose(found[2], found[0], rtol=0.02)


def test_the_pages_command_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "baselines.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"```sh\nbydore fit (.*?)```", page, re.S)
    monkeypatch.chdir(tmp_path)
    write_runs(tmp_path / "dclm", 40, names=("minerva", "codex", "mbpp"))
    (tmp_path / "dclm" / "natural.json").write_text('{"web": 0.6, "law": 0.2, "code": 0.2}')
    (tmp_path / "mine.csv").write_text("name,web,law,code\nmine,0.2,0.2,0.6\n")
    quick = ("--regmix_draws", "500", "--method", "regmix")
    fit_command([*shlex.split(command.replace("\\\n", " ")), *quick])
    assert "of given mixtures" in capsys.readouterr().out


def test_epochs_cap_what_tables_lead_to(tmp_path: Path, fit: Callable[..., dict[str, Any]]) -> None:
    tokens = tmp_path / "tokens.json"
    tokens.write_text('{"web": 1000, "law": 250, "code": 400}')
    metrics = fit(
        *(write_runs(tmp_path / "runs"), "--target", "exam:a", "--minimize", "*"),
        *("--max_epochs", "2"),
        *("--target_tokens", "1000", "--domain_tokens", str(tokens)),
    )
    mixture = Mixture.from_json(tmp_path / "out" / "mixture.json")
    assert mixture.as_dict()["law"] == pytest.approx(0.5, abs=0.1), "two epochs of 250 in 1000"
    assert mixture.as_dict()["law"] <= 0.5 + 1e-9
    assert mixture.free_weights is not None
    assert mixture.free_weights[1] > 0.5
    prior = {"web": 1000 / 1650, "law": 250 / 1650, "code": 400 / 1650}
    assert metrics["table"]["prior"] == pytest.approx(prior)
    assert metrics["run_epochs"]["law"] == pytest.approx(2, abs=0.4)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            ("--max_epochs", "2", "--target_tokens", "80"),
            "Expected --domain_tokens FILE with --max_epochs and --target_tokens",
        ),
        (
            ("--max_epochs", "2", "--target_tokens", "80", "--domain_tokens", "few.json"),
            "run within 2 epochs, found text for 0.750 of it",
        ),
        (
            ("--domain_tokens", "other.json"),
            "Expected --domain_tokens of every domain, found none of code",
        ),
        (("--runs", "few"), "Expected at least 6 runs, found 2"),
        (("--minimize", "program"), "direction for exam:a, whose name does not say that it is"),
        (
            ("--method", "regmix", "--scale_up", "few"),
            "Expected --method bydore with --scale_up, found regmix",
        ),
    ],
)
def test_mistakes_with_tables_leave_nothing(
    more: tuple[str, ...],
    message: str,
    tmp_path: Path,
    refused: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_runs(Path("few"), 2)
    Path("few.json").write_text('{"web": 10, "law": 10, "code": 10}')
    Path("other.json").write_text('{"web": 10, "law": 10}')
    given = ("--runs", write_runs(Path("runs")), "--target", "exam:a", "--minimize", "*")
    assert message in refused("fit", *given, *more, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--method", "magic"], "Expected a method (uniform, natural,"),
        (
            ["--method", "mde", "--runs", "x", "--target", "y"],
            "Expected --method bydore, regmix or none with --runs, found 'mde'",
        ),
        ([], "autoscale, mde, mixmin, bydore), found none"),
        (["--method", "regmix", "--runs", "x"], "Expected --runs and --target together"),
        (
            ["--method", "regmix", "--runs", "x", "--target", "y", "--at_least", "a=.1"],
            "Expected --at_least without --runs, found them together",
        ),
        (
            ["--runs", "x", "--target", "y", "--guard", "b"],
            "Expected --guard without --runs, found them together",
        ),
        (
            ["--method", "mde", "--validation", "a", "--guard", "b"],
            "Expected --method bydore with --guard, found 'mde': it minimises the mean",
        ),
        (
            ["--method", "regmix", "--objective", "worst"],
            "Expected --method bydore with --objective worst, found 'regmix': it minimises the",
        ),
        (
            ["--runs", "x", "--target", "y", "--objective", "none_worse"],
            "Expected --method bydore with --objective none_worse, found --runs: it minimises",
        ),
        (["--method", "mde", "--config", "repeat.yaml"], "Expected --target_tokens with proxies_"),
        (
            ["--method", "doremi", "--config", "repeat.yaml", "--target_tokens", "9e9"],
            "trains proxies here (regmix, d_optimal, autoscale, mde, mixmin, bydore), found 'do",
        ),
    ],
)
def test_mistakes(
    wrong: list[str],
    message: str,
    text: Path,
    tmp_path: Path,
    refused: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("repeat.yaml").write_text("proxies_repeat: true")
    given = ["--data", str(text), "--cache", str(text.parent / "cache"), "--validation", "a"]
    assert message in refused("fit", *wrong, *given, "--out", tmp_path / "out")


def test_a_fit_from_options_leaves_its_page(store: Path, tmp_path: Path) -> None:
    given = {"method": "natural", "data": store, "validation": "b", "out": tmp_path / "run"}
    options = options_from({**given, "smoke": True}, FitOptions, smoke={**SMOKE, **SMALL})
    folder = run_fit(options.resolved())
    assert folder.path == tmp_path / "run"
    assert (folder.path / "report.html").is_file()
