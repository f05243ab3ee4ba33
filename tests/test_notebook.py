"""The commands as functions: the same options, the same folders, the same lines."""

from __future__ import annotations

import json
from pathlib import Path

import pandas
import pytest

import bydore_pyro
from bydore_pyro.cli.ask import AskOptions, run_ask
from bydore_pyro.command_line.command_line import options_from
from bydore_pyro.errors import DataError, RunFolderError
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.notebook import Forecaster, Run, open_run, run_fit, run_search


def answer_of(run: Path, out: Path) -> Run:
    given = {"at_least": {"a": 0.1}, "baseline": "uniform", "validation_sequences": 32, "out": out}
    return bydore_pyro.open_run(run).ask({"b": 0.7, "c": 0.3}, **given)


@pytest.fixture(scope="module")
def answer(measured_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return answer_of(measured_run, tmp_path_factory.mktemp("notebook") / "answer")


def test_an_answer_is_that_of_the_command(measured_run: Path, tmp_path: Path) -> None:
    answer = answer_of(measured_run, tmp_path / "own")
    given = {"run": str(measured_run), "validation": ["b=0.7", "c=0.3"], "at_least": ["a=0.1"]}
    more = {"baseline": "uniform", "validation_sequences": 32, "out": str(tmp_path / "same")}
    folder, asked = run_ask(options_from(given | more, AskOptions))
    own = Mixture.from_json(folder.path / "mixture.json")
    assert answer.mixture == own
    assert isinstance(answer.weights, pandas.Series)
    assert answer.weights.to_dict() == own.as_dict()
    assert answer.weights["a"] >= 0.1
    written = [
        {path.name for path in one.iterdir() if path.name != ".lock"}
        for one in (folder.path, answer.path)
    ]
    assert written[0] == written[1]
    assert asked.answer.forecast is not None
    uniform = Forecaster(asked.answer.forecast, asked.domains).weights_of("uniform")
    expected = asked.answer.forecast.expected(uniform)
    rows = answer.forecast("uniform")
    assert rows["loss"].to_dict() == pytest.approx({t: one.loss for t, one in expected.items()})
    assert [*rows.columns] == ["loss", "low", "high", "unit"]
    assert {*rows["unit"]} == {"nats per token"}


def test_mixtures_are_forecast_by_name_as_a_series_or_from_a_file(
    answer: Run, tmp_path: Path
) -> None:
    (tmp_path / "own.json").write_text(json.dumps(answer.weights.to_dict()))
    forms = (answer.weights, answer.mixture, tmp_path / "own.json", answer.weights.to_dict())
    first, *others = (answer.forecast(form) for form in forms)
    assert all(first.equals(other) for other in others)
    apart = answer.forecast({"b": 1.0}, against="uniform")
    assert [*apart.columns] == ["loss", "low", "high", "better", "unit"]
    assert apart.loc["b", "loss"] < 0
    assert apart.loc["b", "better"] > 0.5
    with pytest.raises(DataError, match="found 'x' in the mixture"):
        answer.forecast({"b": 0.5, "x": 0.5})
    with pytest.raises(ValueError, match="sum"):
        answer.forecast({"b": 0.5})


def test_what_a_run_shows(answer: Run, measured_run: Path) -> None:
    draws = answer.posterior["posterior"]["w"]
    assert {*draws["domain"].values.tolist()} == {"a", "b", "c"}
    shown = answer._repr_html_()
    assert "<table>" in shown
    assert "It is better than " in shown
    assert len(shown) < 10_000
    assert "Is it better than uniform?" in str(answer)
    assert repr(answer) == f"Run({str(answer.path)!r})"
    assert answer.page() == answer.path / "report.html"
    assert "<html" in answer.page().read_text()
    opened = open_run(answer.path)
    assert opened.weights.equals(answer.weights)
    with pytest.raises(DataError, match=r"this session has computed, found .*open_run\(RUN\).ask"):
        opened.forecast("uniform")
    assert isinstance(opened, bydore_pyro.Run)


def test_mistakes_raise_the_lines_of_the_commands(
    answer: Run, measured_run: Path, tmp_path: Path
) -> None:
    run = open_run(measured_run)
    with pytest.raises(ValueError, match=r"^Expected an option of a command, found 'at_last'$"):
        run.ask(at_last={"a": 0.1})
    with pytest.raises(ValueError, match=r"as NAME=SHARE in \[0, 1\], found 'a=2'"):
        run.ask(at_least={"a": 2})
    with pytest.raises(ValueError, match="found 'b' as both"):
        run.ask("b", guard="b")
    with pytest.raises(ValueError, match=r"Expected tokens such as 4e6 or 0\.4B, found 'long'"):
        run.ask("b", target_tokens="long")
    with pytest.raises(DataError, match="Expected a search by matching that kept what it measured"):
        answer.ask("b")
    with pytest.raises(RunFolderError, match="nowhere"):
        open_run(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="Expected steps >= 1"):
        run_search(steps=0)
    with pytest.raises(ValueError, match=r"Expected a method \(uniform, natural,"):
        run_fit("magic")
    with pytest.raises(ValueError, match="Expected --method bydore with --guard, found 'mde'"):
        bydore_pyro.run_fit("mde", validation="a", guard="b")


def test_a_search_and_a_fit_are_functions_too(store: Path, tmp_path: Path) -> None:
    """A list may be one text, and a path a text."""
    given = {"data": store, "validation": "b", "smoke": True, "trials": 0}
    run = bydore_pyro.run_search(**given, out=tmp_path / "search")
    assert run.path == tmp_path / "search"
    assert run.forecast("uniform").loc["b", "loss"] > 0
    assert run.ask(out=tmp_path / "answer").weights.index.tolist() == ["a", "b", "c"]
    fit = run_fit("natural", data=store, validation={"b": 1}, smoke=True, out=tmp_path / "fit")
    assert fit.weights.sum() == pytest.approx(1)
    with pytest.raises(DataError, match="Expected a run with a posterior, found none in"):
        _ = fit.posterior
    with pytest.raises(RunFolderError, match="Expected a new output folder, found a run in"):
        run_search(**given, out=tmp_path / "search")
