"""Questions to a search: the same target, another, fewer domains, a mixture, several targets."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny import write_lines

from bydore_pyro.cli.ask import ask_command
from bydore_pyro.cli.main import main
from bydore_pyro.cli.report import report_command
from bydore_pyro.mixture.mixture import Mixture


def losses(out: Path, file: str = "metrics.json") -> dict:
    found = json.loads((out / file).read_text())
    return found["outlook"] if file == "metrics.json" else found


def test_an_answer_is_printed_and_written(
    measured_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "same"
    ask_command([str(measured_run), "--validation_sequences", "32", "--out", str(out)])
    shown = capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == {
        "config.json",
        "explorer.safetensors",
        "manifest.json",
        "metrics.json",
        "mixture.json",
        "posterior.nc",
        "posterior.png",
        "report.html",
        "tokenizer.json",
    }
    assert json.loads((out / "metrics.json").read_text())["search"]["seconds"] > 0
    for told in ("94 % interval", "Is it better than uniform?", "Do the domains cover the target?"):
        assert told in shown
    assert "\nFound by ask: " in shown
    main(["export", str(out), "--to", "datasets"])  # the documents are counted in the folder
    assert "the mean tokens of yours (a " in capsys.readouterr().err
    report_command([str(out)])
    assert capsys.readouterr().out.startswith(shown.rstrip("\n").split("\nIn ")[0])
    report_command([str(measured_run), str(out)])
    assert "searched on different text" not in capsys.readouterr().out


def test_a_mixture_is_judged_and_domains_can_be_dropped(
    measured_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {}
    for name, weights in (("good", {"a": 1.0}), ("bad", {"c": 1.0})):
        files[name] = tmp_path / f"{name}.json"
        files[name].write_text(json.dumps(weights))
    given = ["--mixture", str(files["good"]), "--against", str(files["bad"])]
    main(["ask", str(measured_run), *given, "--out", str(tmp_path / "good")])
    config = json.loads((tmp_path / "good" / "config.json").read_text())
    assert config["ask"]["mixture"] == str(files["good"].absolute())
    judged = losses(tmp_path / "good", "forecast.json")
    assert [*judged["differences"]] == [str(files["bad"])]
    apart = judged["differences"][str(files["bad"])]
    assert apart["a"]["high"] < 0 < apart["domain c"]["low"]
    both = (judged["expected"][name]["a"]["loss"] for name in ("answer", str(files["bad"])))
    good, bad = both
    assert good < bad
    told = capsys.readouterr().out
    assert "the given mixture" in told
    assert "bad.json? Yes." in " ".join(told.split())
    given = ["--mixture", "uniform", "--drop", "c", "--out", str(tmp_path / "uniform")]
    main(["ask", str(measured_run), *given])
    judged, own = losses(tmp_path / "uniform", "forecast.json"), losses(tmp_path / "uniform")
    apart = judged["differences"]["the answer"]["a"]["loss"]
    assert apart == pytest.approx(-own["differences"]["uniform"]["a"]["loss"], abs=1e-6)
    assert Mixture.from_json(tmp_path / "uniform" / "mixture.json").names == ("a", "b")


def test_a_target_has_a_column_of_its_own(
    measured_run: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    """Other than that of the run's text; a row without it names the option."""
    rows = [{"ask": "abcde " * 60 + str(i), "answer": "x"} for i in range(40)]
    path = write_lines(tmp_path / "exam.jsonl", rows)
    given = [str(measured_run), "--validation", str(path), "--validation_sequences", "32"]
    said = refused("ask", *given, "--out", tmp_path / "none")
    assert "Expected a column 'text', or those of questions" in said
    assert f"line 1 of {path}" in said
    main(["ask", *given, "--text_column", "ask", "--out", str(tmp_path / "out")])
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["ask"]["text_column"] == "ask"
    assert config["rows"]["text_column"] == "text", "that of the run's own text"


def test_mistakes_are_one_line(
    measured_run: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    run, nowhere = str(measured_run), str(tmp_path / "nowhere")
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"a": 0.5, "zebra": 0.5}))
    bounded = ["--objective", "none_worse", "--baseline", "uniform", "--tolerance", "1e-6"]
    for given, message in (
        ([nowhere], "Expected a search's folder, found"),
        ([run, "--drop", "zebra"], "Expected a domain of the data (a, b, c), found 'zebra'"),
        ([run, "--mixture", str(other)], f"found 'zebra' in {other}"),
        ([run, "--against", "uniform"], "Expected --mixture with --against, found none"),
        ([run, "--validation", "a", "a"], "Expected every target once, found 'a' twice"),
        ([run, "--add", str(tmp_path)], f"store in {tmp_path}, found a folder without one"),
        ([run, "--at_least", "a=.6", "b=.6"], "Expected --at_least to sum to at most 1"),
        ([run, "--validation", "a", "b", "--at_most", "a=.1", *bounded], "baseline"),
    ):
        said = refused("ask", *given, "--out", tmp_path / "none")
        assert said.startswith("bydore ask: error: "), given
        assert message in said, (given, said)
        assert not (tmp_path / "none").exists(), f"{given} leaves something behind"


def test_measurements_that_are_gone_or_changed_are_refused(
    measured_run: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(measured_run, copy)
    tensors = copy / "measured-2" / "tensors.safetensors"
    content = bytearray(tensors.read_bytes())
    content[-1] ^= 1
    tensors.write_bytes(content)
    for message in (
        f"the 2 measurements that the search made in {copy}, found 1 from measured-1 on",
        f"the 2 measurements that the search made in {copy}, found 0 from measured-1 on",
    ):
        assert message in refused("ask", copy, "--out", tmp_path / "none")
        assert not list(copy.glob("refused-*")), "a question changes no run"
        for number in (1, 2):
            shutil.rmtree(copy / f"measured-{number}", ignore_errors=True)


def test_a_search_by_linear_evidence_is_refused_before_its_text_is_read(
    measured_run: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(measured_run, run, ignore=shutil.ignore_patterns("measured-*"))
    config = json.loads((run / "config.json").read_text())
    config["run"] |= {"evidence": "linear", "data": str(tmp_path / "lost")}
    (run / "config.json").write_text(json.dumps(config))
    metrics = json.loads((run / "metrics.json").read_text())
    (run / "metrics.json").write_text(json.dumps({**metrics, "measured": []}))
    told = refused("ask", run, "--out", tmp_path / "none")
    assert "Expected a search by matching that kept what it measured" in told
