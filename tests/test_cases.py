"""The cases as a user runs them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import arviz
import pytest
from processes import Run

from bydore_pyro.data.store import open_store
from bydore_pyro.files.trees import read_tree
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.mixture.published import PILE_DOMAINS


def check_run(folder: Path, seed: int) -> None:
    files = {"mixture.json", "posterior.nc", "losses.json", "report.html"}
    assert files <= {p.name for p in folder.iterdir()}
    mixture = Mixture.from_json(folder / "mixture.json")
    names = ("metrics", "config", "manifest")
    metrics, config, manifest = (json.loads((folder / f"{n}.json").read_text()) for n in names)
    assert mixture.data_sha256 == manifest["sha256"]
    assert metrics["seed"] == config["run"]["seed"] == seed
    if folder.name == "run":  # a case
        assert metrics["verification"]["flops"] > 0
        assert "uniform" in metrics["validation_loss_nats_per_token"]
    posterior = arviz.from_netcdf(folder / "posterior.nc")["posterior"]
    assert posterior["domain"].values.tolist() == list(mixture.names)


@pytest.mark.parametrize("script", [pytest.param("case1", marks=pytest.mark.slow), "case2"])
def test_smoke(script: str, tmp_path: Path, cache: Path, run_here: Run) -> None:
    out = tmp_path / "run"
    arguments = ["--smoke", "--seed", "3", "--out", str(out), "--cache", str(cache)]
    done = run_here(script, *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    check_run(out, 3)
    mixture = Mixture.from_json(out / "mixture.json")
    assert len(mixture.names) == {"case1": 13, "case2": 2}[script]
    for name in mixture.names:
        assert name in done.stdout
    lesson = out / "without-docstrings"
    assert lesson.exists() == (script == "case1"), "Case 2 does not train on docstrings"
    if script == "case1":
        found = read_tree(lesson)[1]
        assert set(found["mixture"]["weights"]) == set(mixture.names) - {"docstrings"}
        assert 0 < found["unexplained"] < 1
    assert "Next:" in done.stdout
    assert "Warning" not in done.stderr


@pytest.mark.slow
def test_the_piles_case(tmp_path: Path, run_here: Run) -> None:
    rows = [
        {"text": f"{name} {i} " * 90, "meta": {"pile_set_name": name}}
        for i in range(40)
        for name in (*PILE_DOMAINS, "Books3")
    ]
    (tmp_path / "pile").mkdir()
    content = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "pile" / "00.jsonl.gz").write_bytes(gzip.compress(content.encode()))
    out = tmp_path / "run"
    arguments = ("--smoke", "--data", f"pile:{tmp_path / 'pile'}", "--validation_fraction", "0.3")
    few = ("--rounds", "1", "--trials", "0", "--cache", str(tmp_path / "cache"))
    done = run_here("case1", *arguments, *few, "--out", str(out))
    assert done.returncode == 0, done.stderr
    mixture = Mixture.from_json(out / "mixture.json")
    assert set(mixture.names) <= {*PILE_DOMAINS.values()}
    assert len(mixture.names) == 17
    config = json.loads((out / "config.json").read_text())["question"]
    assert config["validation"] == ["pile_cc"]


@pytest.mark.slow
def test_other_mixtures_are_compared(store: Path, tmp_path: Path, run_here: Run) -> None:
    """On a store; the output goes where it goes by default."""
    tokenizer, path = open_store(store).tokenizer_sha256, tmp_path / "other.json"
    other = Mixture(names=("a", "b"), weights=(0.5, 0.5), tokenizer=tokenizer)
    path.write_text(other.to_json())
    given = ("--smoke", "--data", str(store), "--validation", "a", "--domains", "a", "b")
    done = run_here("case1", *given, "--trials", "0", "--compare", str(path), "b", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert str(path) in done.stdout
    assert "only b" in done.stdout
    assert "another tokenizer" not in done.stderr
    (newest,) = (tmp_path / "runs").iterdir()
    assert newest.name.startswith("case1-")
    check_run(newest, 0)
