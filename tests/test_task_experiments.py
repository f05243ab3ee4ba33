"""The experiments on tasks in smoke size: what responses say, decisions, a larger model."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from processes import Run
from quick import PROXY
from task_decisions import TaskDecisionsConfig
from task_searches import halves, write_halves
from test_ask import searched

from bydore_pyro.errors import DataError
from bydore_pyro.files.run_folder import RunFolder


@pytest.fixture(scope="module")
def measured(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search for two targets that measured branches."""
    place = tmp_path_factory.mktemp("searched")
    return searched(store, place / "search", "--validation", "b=.5", "c=.5")


@pytest.fixture
def known(measured: Path, tmp_path: Path) -> Path:
    """Nine mixtures; each target's loss falls with one weight."""
    names = [*json.loads((measured / "mixture.json").read_text())["weights"]]
    weights = np.random.default_rng(0).dirichlet(np.ones(len(names)), 9)
    table = {
        "domains": names,
        "tasks": ["b", "c"],
        "weights": weights.tolist(),
        "domain_losses": (5 - weights).tolist(),
        "bits_per_byte": (3 - weights[:, :2]).tolist(),
    }
    path = tmp_path / "known.json"
    path.write_text(json.dumps(table))
    return path


@pytest.mark.slow
def test_responses_in_smoke_size(
    measured: Path, known: Path, experiment: Callable[..., dict]
) -> None:
    found = experiment("response_ranks", str(measured), "--known", str(known), "--smoke")
    (one,) = found["searches"]
    assert {plant["kind"] for plant in one["plants"]} == {"even", "sparse"}
    for plant in one["plants"]:
        for way in ("gradients", "responses", "both"):
            assert 0 <= plant[way]["total_variation"] <= 1
            assert 0 <= plant[way]["held"] <= 1
    assert {*one["unexplained"]} == {"b", "c"}
    assert {*one["ranks"]} == {"gradients", "both"}


@pytest.mark.slow
def test_task_decisions_in_smoke_size(
    measured: Path, known: Path, tmp_path: Path, experiment: Callable[..., dict]
) -> None:
    groups = tmp_path / "groups.json"
    groups.write_text(json.dumps({"both": ["b", "c"], "one": ["b"]}))
    given = ("--groups", str(groups), "--known", str(known), "--runs", "8", "--smoke")
    more = ("--trials", "1", "--tried", "one", "--methods", "mixmin=1", "--budget", "9")
    found = experiment("task_decisions", str(measured), *given, *more)
    (one,) = found["searches"]
    assert {*one["means"]} == {"both", "one"}
    own = {"law", "composition", "gradients", "trials", "natural"}
    rivals = {"best of 9 runs", "merged branches", "RegMix on 8 runs", "mixmin"}
    assert own | rivals <= {*one["means"]["one"]}
    assert "trials" not in one["means"]["both"]
    table = json.loads(known.read_text())
    best = np.array([one["weights"]["best of 9 runs, one"][name] for name in table["domains"]])
    weights = np.array(table["weights"])
    assert best == pytest.approx(weights[weights[:, 0].argmax()], abs=1e-4)
    assert sum(row["way"] == "law" for row in one["rows"]) == 3 + 1, "targets and their mean"
    rows = [row for row in one["rows"] if row["way"] == "natural"]
    assert found["held"]["natural"]["share"] == pytest.approx(
        sum(row["low"] <= row["measured"] <= row["high"] for row in rows) / len(rows)
    )
    (tmp_path / "run").rename(tmp_path / "decisions")
    results = str(tmp_path / "decisions" / "results.json")
    given = ("--known", str(known), "--ranked", "3", "--groups", "one", "--times", "2", "--smoke")
    scaled = experiment("task_scale", results, *given, "--model", str(PROXY))
    (larger,) = scaled["searches"]
    assert larger["proxy"] == {"one": {"law": one["means"]["one"]["law"]}}
    assert {*larger["ranks"]} == {
        f"{way}, of {what}"
        for way in ("responses", "small proxy")
        for what in ("a task", "the mean")
    }
    assert scaled["cost"]["parts"]["fresh"]["seconds"] > 0


def test_halves_share_no_document_and_are_the_same_again() -> None:
    rows = [f"row {n}" for n in range(7)]
    asked, judge = halves(rows, 0)
    assert (len(asked), len(judge)) == (3, 4)
    assert sorted(asked + judge) == rows
    assert asked != sorted(asked)
    assert halves(rows, 0) == (asked, judge)
    assert halves(rows, 1) != (asked, judge)


@pytest.mark.slow
def test_task_searches_in_smoke_size_go_on_to_decisions(
    tmp_path: Path, smoke: Callable[..., dict], run_here: Run
) -> None:
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    rows = [
        json.dumps({"prompt": f"What is {n} plus {n}?", "completion": f" It is {2 * n}."})
        for n in range(40)
    ]
    (tasks / "sums.jsonl").write_text("\n".join(rows) + "\n")
    (tasks / "packed.jsonl.gz").write_bytes(gzip.compress("\n".join(rows[::-1]).encode()))
    few = ("--domains", "python", "licences", "docstrings", "--target_seeds", "1")
    found = smoke("task_searches", "--tasks", str(tasks), *few)
    assert found["documents"] == {"packed": [20, 20], "sums": [20, 20]}
    assert found["searches"] == ["seed-0"]
    run = tmp_path / "run"
    asked, judge = (
        {
            json.loads(row)["completion"]
            for row in (run / place / "sums.jsonl").read_text().splitlines()
        }
        for place in ("asked", "judge")
    )
    assert len(asked | judge) == len(asked) + len(judge) == 40
    given = ("--judge", *map(str, sorted((run / "judge").iterdir())), "--out", "decided", "--smoke")
    done = run_here("task_decisions", str(run / "seed-0"), *given, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    means = json.loads((tmp_path / "decided/results.json").read_text())["searches"][0]["means"]
    assert {"law", "composition", "gradients", "natural", "trials"} <= {*means["all"]}
    assert any((tmp_path / "decided/proxies/trials").iterdir()), "trials are made, also for tasks"


def test_a_method_can_be_run_for_the_first_searches_alone() -> None:
    config = TaskDecisionsConfig(search=["a"], methods=["mixmin=1", "mde"], rivals=2)
    assert [config.methods_of(n) for n in range(3)] == [["mixmin", "mde"], ["mde"], []]
    with pytest.raises(ValueError, match="found 'mixmin=x'"):
        TaskDecisionsConfig(search=["a"], methods=["mixmin=x"])


@pytest.mark.slow
def test_some_ways_alone_are_trained(
    measured: Path, known: Path, tmp_path: Path, experiment: Callable[..., dict], run_here: Run
) -> None:
    given = (str(measured), "--known", str(known), "--runs", "8", "--smoke")
    found = experiment("task_decisions", *given, "--ways", "gradients", "best of 8 runs")
    (one,) = found["searches"]
    assert [*one["means"]["all"]] == ["law", "gradients", "best of 8 runs", "natural"]
    assert [*found["held"]] == ["law", "gradients", "natural"]
    done = run_here("task_decisions", *given, "--ways", "best of 7 runs", cwd=tmp_path)
    assert done.returncode == 2
    assert "'best of 9 runs'" in done.stderr
    assert "found ['best of 7 runs']" in done.stderr


def test_a_task_in_two_files_is_refused(tmp_path: Path) -> None:
    rows = b'{"prompt": "a", "completion": "b"}\n' * 2
    (tmp_path / "quiz.jsonl").write_bytes(rows)
    (tmp_path / "quiz.jsonl.gz").write_bytes(gzip.compress(rows))
    with pytest.raises(DataError, match=r"found quiz\.jsonl and quiz\.jsonl\.gz"):
        write_halves(tmp_path, RunFolder(tmp_path / "run"), 0)
