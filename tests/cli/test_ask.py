"""Questions to a search: the same target, another, fewer domains, a mixture, several targets."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import arviz
import numpy as np
import pytest
from quick import PROXY

from bydore_pyro.cli.ask import COMMON, AnswerConfig, AskOptions, ask_command
from bydore_pyro.cli.main import main
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.utils.files import read_tree, write_tree


def answers(out: Path) -> dict:
    return json.loads((out / "answers.json").read_text())


def test_an_answer_is_printed_and_written(
    measured_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "same"
    ask_command([str(measured_run), "--validation_sequences", "32", "--out", str(out)])
    mixture = Mixture.from_json(out / "mixture.json")
    assert answers(out)["targets"]["a"]["weights"] == mixture.as_dict()
    told = json.loads((measured_run / "metrics.json").read_text())["matching"]["unexplained"]
    assert answers(out)["targets"]["a"]["unexplained"] == pytest.approx(told, abs=1e-3)
    posterior = arviz.from_netcdf(out / "posterior.nc")["posterior"]
    np.testing.assert_allclose(posterior["w"].sum("domain"), 1)
    shown = capsys.readouterr().out
    assert "94 % interval" in shown
    assert "a: no mixture explains" in shown
    parts = {f.name for part in get_type_hints(AskOptions).values() for f in fields(part)}
    assert parts >= {*COMMON}
    assert AnswerConfig().out is None


def test_several_targets_have_a_compromise(measured_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "both"
    main(["ask", str(measured_run), "--validation", "a", "b", "--each", "--out", str(out)])
    assert not (out / "posterior.nc").exists()
    found, mixture = answers(out), Mixture.from_json(out / "mixture.json").as_dict()
    assert mixture == found["compromise"]["weights"]
    assert set(found["targets"]) == {"a", "b"} == {*found["compromise"]["leaves"]}
    for name in "ab":
        assert found["targets"][name]["weights"][name] > 0.4


def test_a_mixture_is_judged_and_domains_can_be_dropped(
    measured_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = {}
    for name, weights in (("good", {"a": 1.0}), ("bad", {"c": 1.0})):
        file = tmp_path / f"{name}.json"
        file.write_text(json.dumps(weights))
        main(["ask", str(measured_run), "--mixture", str(file), "--out", str(tmp_path / name)])
        left[name] = answers(tmp_path / name)["targets"]["a"]["mixture_leaves"]
        assert left[name]["low"] <= left[name]["median"] <= left[name]["high"]
    assert left["good"]["high"] < left["bad"]["low"]
    assert "the given mixture loses" in capsys.readouterr().out
    main(["ask", str(measured_run), "--drop", "a", "--out", str(tmp_path / "without")])
    found = Mixture.from_json(tmp_path / "without" / "mixture.json")
    assert found.names == ("b", "c")
    both = (answers(tmp_path / name)["targets"]["a"]["unexplained"] for name in ("without", "good"))
    without, whole = both
    assert without > whole + 0.2, "its own kind is gone"


def test_mistakes_are_one_line(
    measured_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, nowhere = str(measured_run), str(tmp_path / "nowhere")
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"a": 0.5, "zebra": 0.5}))
    for given, message in (
        (["--each"], "Expected RUN and a question, found --each"),
        ([nowhere], "Expected a search's folder, found"),
        ([run, "--validation", "zebra"], "zebra"),
        ([run, "--drop", "zebra"], "Expected a domain of the data (a, b, c), found 'zebra'"),
        ([run, "--drop", "a", "b"], "Expected at least two domains after --drop, found 1"),
        ([run, "--mixture", nowhere], "nowhere"),
        ([run, "--mixture", str(other)], f"found 'zebra' in {other}"),
        ([run, "--validation", "a", "a"], "Expected different targets, found a a"),
        ([run, "--each", "--trials", "1"], "Expected --each or --trials, found both"),
        ([run, "--max_epochs", "1"], "Expected --target_tokens with --max_epochs, found none"),
        ([run, "--add", str(tmp_path)], f"store in {tmp_path}, found a folder without one"),
        ([run, "--add", nowhere], f"a token store in {nowhere}, found no such folder"),
    ):
        with pytest.raises(SystemExit) as stopped:
            main(["ask", *given, "--out", str(tmp_path / "none")])
        assert stopped.value.code == 2, given
        said = capsys.readouterr().err.strip().splitlines()[-1]
        assert message in said, given
    assert not (tmp_path / "none").exists(), "nothing is left behind"


def test_measurements_that_are_gone_or_changed_are_refused(
    measured_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(measured_run, copy)
    tensors = copy / "measured-2" / "tensors.safetensors"
    content = bytearray(tensors.read_bytes())
    content[-1] ^= 1
    tensors.write_bytes(content)
    for message in ("Expected a measurement in", "Expected a finished search by matching"):
        with pytest.raises(SystemExit):
            main(["ask", str(copy), "--out", str(tmp_path / "none")])
        assert message in capsys.readouterr().err
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
    told = refused("ask", run, "--out", tmp_path / "none")
    assert "Expected a finished search by matching with its measured-1, found none" in told


def test_a_proxy_whose_configuration_was_edited_is_another(
    measured_run: Path, tmp_path: Path, refused: Callable[..., str]
) -> None:
    """Its shapes are the same: nothing else would tell."""
    run, proxy = tmp_path / "run", tmp_path / "proxy"
    shutil.copytree(measured_run, run)
    shutil.copytree(PROXY, proxy)
    config = json.loads((run / "config.json").read_text())
    config["run"]["proxy"] = str(proxy)
    (run / "config.json").write_text(json.dumps(config))
    for path in run.glob("measured-*"):
        header, tree = read_tree(path)
        write_tree(path, tree, {**header, "proxy": str(proxy)})
    main(["ask", str(run), "--out", str(tmp_path / "same")])
    edited = json.loads((proxy / "config.json").read_text())
    before, edited["hidden_act"] = edited["hidden_act"], "gelu"
    (proxy / "config.json").write_text(json.dumps(edited))
    told = refused("ask", run, "--out", tmp_path / "other")
    assert f"Expected config.json's hidden_act 'gelu' in {run}/measured-1, found '{before}'" in told
    shutil.rmtree(proxy)
    assert f"found '{proxy}'" in refused("ask", run, "--out", tmp_path / "other")
