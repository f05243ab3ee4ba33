"""The whole study: it keeps what it ran, tells what failed and ends what it has begun."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import arviz
import numpy as np
import pytest
from processes import Run, forked, write_program
from study import OF_TASKS, StudyConfig, arguments_of

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_study_keeps_what_it_ran_and_runs_nothing_twice(
    tmp_path: Path, cache: Path, store: Path, run_here: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = subprocess.run
    (tmp_path / "tasks").mkdir()
    rows = [json.dumps({"prompt": f"{n} + {n} =", "completion": f" {2 * n}"}) for n in range(20)]
    (tmp_path / "tasks" / "sums.jsonl").write_text("\n".join(rows))

    def fork(words: list[str], **rest: Any) -> subprocess.CompletedProcess[str]:
        if words[0] != sys.executable:  # git, which is asked for the commit
            return run(words, **rest)
        script = Path(words[1])
        process = forked(
            lambda: sys.exit(run_here(script.stem, *words[2:]).returncode), tmp_path / "told"
        )
        process.join()
        return subprocess.CompletedProcess(words, process.exitcode or 0)

    runs, figures = tmp_path / "runs", tmp_path / "figures"
    given = ("--smoke", "--out", str(runs), "--figures", str(figures), "--cache", str(cache))
    few = ("--domains", "python", "licences", "docstrings")
    case = run_here("case1", "--smoke", "--out", str(runs / "case1"), "--cache", str(cache), *few)
    assert case.returncode == 0, case.stderr
    of_tasks = ("--tasks", str(tmp_path / "tasks"), "--data", str(store))
    only = ("--only", "scheduling", "case1", *of_tasks)
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", fork)
        done = run_here("study", *given, *only)
        assert done.returncode == 0, done.stderr
        assert "case1: finished before" in done.stderr
        kept = json.loads((figures / "results" / "scheduling.json").read_text())
        found = json.loads((runs / "scheduling" / "results.json").read_text())
        assert kept.keys() == found.keys()
        strategies = {
            f"{between}_{how}"
            for between in ("intra", "inter")
            for how in ("sampling", "weighting")
        }
        assert set(found["strategies"]) == strategies
        for name in strategies:
            config = json.loads((runs / "scheduling" / name / "config.json").read_text())
            assert config["linear"]["strategy"] == name
        path, whole_path = (r["strategies"]["intra_sampling"]["trajectory"] for r in (kept, found))
        np.testing.assert_allclose(path, whole_path, rtol=1e-4)
        assert "scheduling: done, " in done.stderr
        decided = json.loads((figures / "results" / "task_decisions.json").read_text())
        assert decided["config"]["run"]["judge"] == ["sums.jsonl"], "no place is told"
        assert [one["search"] for one in decided["searches"]] == ["seed-0"]
        config = json.loads((figures / "results" / "case1" / "config.json").read_text())
        assert config["run"]["smoke"]
        assert not {"out", "cache"} & set(config["run"]), "what is committed tells no places"
        posterior = arviz.from_netcdf(figures / "results" / "case1" / "posterior.nc")
        whole = arviz.from_netcdf(runs / "case1" / "posterior.nc")
        np.testing.assert_allclose(
            posterior["posterior"]["w"],
            whole["posterior"]["w"].values[:, :500],
            rtol=1e-6,
            atol=1e-30,
        )
        (runs / "scheduling" / "table.md").unlink()  # as if killed at its end
        again = run_here("study", *given, *only)
        assert again.returncode == 0, again.stderr
        assert "--resume" in again.stderr
        resumed = json.loads((figures / "results" / "scheduling.json").read_text())
        # The source may have been committed between the two.
        assert {**resumed, "commit": ""} == {**kept, "commit": ""}


def test_decisions_on_tasks_get_what_searches_left(tmp_path: Path) -> None:
    for name in ("judge/sums.jsonl", "judge/code.jsonl", "seed-0/config.json"):
        (tmp_path / OF_TASKS[0] / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / OF_TASKS[0] / name).touch()
    config = StudyConfig(tasks="T", groups="G", known="K")
    found = " ".join(arguments_of(OF_TASKS[1], tmp_path, config))
    here = tmp_path / OF_TASKS[0]
    judge = f"--judge {here}/judge/code.jsonl {here}/judge/sums.jsonl"
    assert found == f"{here}/seed-0 {judge} --groups G --known K"
    with pytest.raises(ValueError, match="Expected --tasks"):
        StudyConfig(known="K")


STUDY = """
import os, runpy, sys
sys.executable, *sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_the_study_ends_what_it_has_begun(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    waits = write_program(tmp_path / "waits", f'echo $$ >> "{begun}"; exec sleep 100')
    script = [sys.executable, "-c", STUDY, waits, str(ROOT / "experiments" / "study.py")]
    only = ("--only", "convergence", "scheduling")
    with subprocess.Popen([*script, "--out", str(tmp_path / "runs"), *only]) as study:
        while not begun.exists() or not begun.read_text():
            assert study.poll() is None, "it ended by itself"
            time.sleep(0.1)
        time.sleep(1)  # until the study, too, has noted that it runs
        study.terminate()
        assert study.wait(60) == 143
    (process,) = map(int, begun.read_text().split())
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
