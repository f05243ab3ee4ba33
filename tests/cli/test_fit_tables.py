"""`bydore fit --runs` as a user runs it on tables: means, all metrics, given mixtures, scales."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from bydore_pyro.baselines.regmix import RegMixConfig
from bydore_pyro.baselines.table_fit import fit_table_of_runs
from bydore_pyro.baselines.tables import read_runs
from bydore_pyro.cli.fit import fit_command
from bydore_pyro.cli.fit_tables import DEFAULT_DATA, caps_of, domain_tokens
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.report.run import read_run
from bydore_pyro.report.verdicts import verdicts_of
from bydore_pyro.runs.methods import MethodOptions
from bydore_pyro.utils.command_line import parse_options
from bydore_pyro.utils.errors import DataError

DOMAINS = ("web", "law", "code")


METRICS = ("exam:a", "exam:b", "program")


def write_runs(
    folder: Path,
    runs: int = 48,
    seed: int = 0,
    scale: float = 1.0,
    names: tuple[str, ...] = METRICS,
) -> Path:
    """Writes runs of olmix's law: law helps the exam, code the programs, nothing the noise."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(3), size=runs)
    laws = ([0.5, -2, 0.5], [0.5, -1, 0.2], [0.5, 0.5, -2])
    losses = {
        name: scale * (1 + np.exp(weights @ law) + 0.02 * rng.standard_normal(runs))
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


def fit(runs: Path, out: Path, *more: str) -> dict[str, object]:
    given = ["--method", "regmix", "--runs", str(runs), "--regmix_draws", "500", "--out", str(out)]
    fit_command([*given, *more])
    return json.loads((out / "metrics.json").read_text())["details"]


def test_a_mean_is_fitted_by_the_best_regression_and_all_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, large = write_runs(tmp_path / "small"), write_runs(tmp_path / "large", 12, 1, 0.5)
    natural, given = tmp_path / "natural.json", tmp_path / "given.csv"
    natural.write_text('{"web": 0.6, "law": 0.2, "code": 0.2}')
    given.write_text("name,web,law,code\nwebby,0.9,0.05,0.05\nlawful,0.1,0.8,0.1\n")
    details: dict = fit(
        *(runs, tmp_path / "out", "--target", "exam:*=2", "program=1", "--prior", str(natural)),
        *("--regmix_kl", "0.05", "--scale_up", str(large), "--predict", str(given)),
    )  # fmt: skip
    assert details["target"] == "weighted mean of 3 metrics"
    shares = {"exam:a": 0.4, "exam:b": 0.4, "program": 0.2}
    assert details["metrics"] == pytest.approx(shares)
    kinds = {"linear", "lightgbm", "log_linear", "gaussian_process"}
    assert details["regressions"].keys() <= kinds
    ranks = [row["spearman_x100"] for row in details["regressions"].values()]
    assert details["regression"] == next(iter(details["regressions"]))
    assert ranks[0] == max(ranks) > 90
    mixture = Mixture.from_json(tmp_path / "out" / "mixture.json").as_dict()
    assert mixture["law"] == max(mixture.values())
    assert details["gain_over_prior"]["probability"] > 0.97
    scaled = details["scale_up"]
    assert scaled["slope"] == pytest.approx(0.5, abs=0.1)
    assert scaled["probability"] > 0.9
    with (tmp_path / "out" / "predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["mixture"] for row in rows] == ["lawful", "webby"]
    low, predicted, high = (float(rows[0][name]) for name in ("low", "predicted", "high"))
    assert low < predicted < high
    weights = np.array([0.1, 0.8, 0.1])
    exams = sum(1 + np.exp(weights @ t) for t in ([0.5, -2, 0.5], [0.5, -1, 0.2]))
    truth = 0.4 * exams + 0.2 * (1 + np.exp(weights @ [0.5, 0.5, -2]))
    assert low < 0.5 * truth < high, "at the large scale"
    shown = capsys.readouterr().out
    for told in ("Spearman x 100", "tokens off the nearest run", "The nearest run (r",
                 "a large run on", "better than the prior with probability"):  # fmt: skip
        assert told in shown
    asked = {verdict.question: verdict for verdict in verdicts_of(read_run(tmp_path / "out"))}
    assert asked["Does it predict runs that it has not seen?"].level == "good"
    assert "Was anything like it run?" in asked


def test_the_pages_commands_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "baselines.md").read_text(encoding="utf-8")
    commands = re.findall(r"```sh\nbydore fit (.*?)```", page, re.S)
    assert len(commands) == 2
    monkeypatch.chdir(tmp_path)
    write_runs(tmp_path / "dclm", names=("minerva", "codex", "mbpp"))
    (tmp_path / "dclm" / "natural.json").write_text('{"web": 0.6, "law": 0.2, "code": 0.2}')
    for folder, split, scale, seed in (("regmix", "train", "1m", 0), ("large", "large", "60m", 1)):
        write_runs(tmp_path / folder, 40 if seed == 0 else 12, seed)
        for name, new, column in (
            ("ratios", "mixture", "train_"),
            ("metrics", "pile_loss", "metric/"),
        ):
            text = (tmp_path / folder / f"{name}.csv").read_text()
            (tmp_path / folder / f"{name}.csv").unlink()
            header, _, rows = text.partition("\n")
            heads = [f"{column}{one}" for one in header.split(",")[1:]]
            header = ",".join(["index", *heads]).replace("program", "pile_cc")
            (tmp_path / folder / f"{split}_{new}_{scale}.csv").write_text(f"{header}\n{rows}")
    (tmp_path / "mine.csv").write_text("name,web,law,code\nmine,0.2,0.2,0.6\n")
    for text in commands:
        fit_command([*shlex.split(text.replace("\\\n", " ")), "--regmix_draws", "500"])
    assert "Given mixtures" in capsys.readouterr().out


def test_kl_keeps_the_mixture_near_the_prior(tmp_path: Path) -> None:
    runs, natural = write_runs(tmp_path / "small"), tmp_path / "natural.json"
    natural.write_text('{"web": 0.6, "law": 0.2, "code": 0.2}')
    law = ("--target", "exam:a", "--prior", str(natural), "--regmix_regression", "log_linear")
    far = []
    for kl in ("0", "0.3", "30"):
        details: dict = fit(runs, tmp_path / kl, *law, "--regmix_kl", kl)
        mixture = Mixture.from_json(tmp_path / kl / "mixture.json").as_dict()
        far.append(mixture["law"])
    assert far[0] > far[1] > far[2]
    assert far[2] == pytest.approx(0.2, abs=0.02)
    assert list(details["regressions"]) == ["log_linear"]


def test_all_metrics_have_a_row_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = write_runs(tmp_path / "small", 30)
    details: dict = fit(runs, tmp_path / "out", "--target", "all")
    assert list(details["each_metric"]) == ["exam:a", "exam:b", "program"]
    assert details["each_metric"]["program"]["spearman_x100"] > 85
    shown = capsys.readouterr().out
    assert "better than prior" in shown
    assert "program" in shown


def test_mistakes_are_found_before_anything_is_fitted(tmp_path: Path) -> None:
    table = read_runs(write_runs(tmp_path / "small"), None)
    prior, config = np.full(3, 1 / 3), RegMixConfig()
    with pytest.raises(DataError, match=r"nowhere\.csv"):
        fit_table_of_runs(table, {"program": 1.0}, prior, config, predict="nowhere.csv")
    with pytest.raises(DataError, match="nowhere"):
        fit_table_of_runs(table, {"program": 1.0}, prior, config, scale_up_to="nowhere")
    few = read_runs(write_runs(tmp_path / "few", 2), None)
    with pytest.raises(DataError, match="--few_runs"):
        fit_table_of_runs(few, {"program": 1.0}, prior, config)
    options = parse_options([], "fit", "", MethodOptions)
    assert options.run.data == DEFAULT_DATA
    assert domain_tokens(options, None, table) is None
    assert caps_of(options, prior) is None
    long = parse_options(["--max_epochs", "2", "--target_tokens", "80"], "fit", "", MethodOptions)
    assert caps_of(long, np.array([60, 10, 0])).tolist() == [1, 0.25, 0]
    with pytest.raises(DataError, match=r"run within 2 epochs, found text for 0\.750 of it"):
        caps_of(long, np.array([10, 10, 10]))
    table.weights[1], table.losses[1] = table.weights[0], table.losses[0] + 9
    with pytest.raises(DataError, match="'r0' and 'r1' on the same weights"):
        fit_table_of_runs(table, {"program": 1.0}, prior, config)


def test_what_cannot_be_fitted_is_refused_before_the_fit_and_blocks_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flat metrics, metrics near the largest number, too few or flat large runs."""
    runs, out = write_runs(tmp_path / "runs"), tmp_path / "out"
    flat, huge = (write_runs(tmp_path / name, scale=s) for name, s in (("f", 0), ("h", 1e300)))
    few, one = (write_runs(tmp_path / f"few-{n}", runs=n) for n in (3, 1))

    def fitted(*_: object, **__: object) -> None:
        raise AssertionError("it was fitted")

    monkeypatch.setattr("bydore_pyro.baselines.table_fit.regress_runs", fitted)
    for table, more, told in (
        (flat, (), "Expected exam:a to differ between runs, found 0 in all"),
        (huge, (), "Expected exam:a of at most 1e+100, found"),
        (runs, ("--scale_up", str(one)), f"Expected at least 4 runs in {one}, found 1"),
        (runs, ("--scale_up", str(few)), f"Expected at least 4 runs in {few}, found 3"),
        (runs, ("--scale_up", str(flat)), "Expected exam:a to differ between runs, found 0"),
    ):
        with pytest.raises(SystemExit) as exit_:
            fit(table, out, "--target", "exam:a", *more)
        assert exit_.value.code == 2
        assert told in capsys.readouterr().err
        assert not out.exists()
