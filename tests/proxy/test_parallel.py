"""Several processes against one: the same weights within rounding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray

from bydore_pyro.cli.main import main
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.proxy.parallel import Parallel, number_of_processes
from bydore_pyro.utils.errors import DataError


def test_one_process_does_everything() -> None:
    alone = Parallel()
    rows = torch.arange(5.0)
    assert alone.is_main
    assert torch.equal(alone.own(rows), rows)
    assert torch.equal(alone.own_factors(rows), rows)
    assert torch.equal(alone.gather(rows, 5), rows)
    assert alone.sum([rows])[0] is rows
    assert alone.agree("runs/a") == "runs/a"
    assert alone.largest(15) == 15


def test_several_processes_need_accelerate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(DataError, match="package accelerate, found none"):
        Parallel()
    assert Parallel(alone=True).is_main


def test_experiments_run_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert number_of_processes() == 2
    monkeypatch.delenv("WORLD_SIZE")
    assert number_of_processes() == 1
    case1 = Path(__file__).parents[2] / "experiments" / "case1.py"
    done = subprocess.run(
        [sys.executable, str(case1), "--smoke"],
        capture_output=True,
        text=True,
        env={**os.environ, "WORLD_SIZE": "2"},
    )
    assert done.returncode == 2
    assert "Expected one process, found several" in done.stderr


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("rows", [2, 5, 6])
def test_shares_cover_the_rows_once(count: int, rows: int) -> None:
    values = torch.randn(rows, generator=torch.Generator().manual_seed(0))
    total, gathered = torch.zeros(()), []
    for index in range(count):
        one = Parallel()
        one.count, one.index = count, index
        own = one.own(values)
        gathered.append(own)
        total += (own * one.own_factors(torch.ones(rows))).sum()
    torch.testing.assert_close(total, values.sum())
    assert len({len(own) for own in gathered}) == 1
    assert torch.equal(torch.cat(gathered)[:rows], values)


LAUNCHER = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]


def two_processes(program: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a program of the folder in two processes, in seconds as all tests."""
    (folder / "program.py").write_text(f"from quick import be_quick\n\nbe_quick()\n{program}")
    done = subprocess.run(
        [sys.executable, *LAUNCHER, "program.py", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


# The clock of each process says something else.
BEGIN = """
import os, time
from pathlib import Path
from bydore_pyro.utils.command_line import parse_options
from bydore_pyro.runs.options import Options
from bydore_pyro.runs.resuming import begin_run

time.strftime = lambda format: "now-" + os.environ["RANK"]
folder = begin_run(parse_options(["--device", "cpu"], "x", "", Options), "search", None)
Path("found-" + os.environ["RANK"]).write_text(f"{folder.path} {folder.writes}")
"""


@pytest.mark.slow
def test_all_processes_have_one_run_folder(tmp_path: Path) -> None:
    two_processes(BEGIN, tmp_path)
    found = [(tmp_path / f"found-{rank}").read_text() for rank in (0, 1)]
    assert found == ["runs/search-now-0 True", "runs/search-now-0 False"]


@pytest.mark.slow
@pytest.mark.parametrize("evidence", ["matching", "linear"])
def test_two_processes_find_what_one_finds(store: Path, tmp_path: Path, evidence: str) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("guide_warmup: 3\n")
    options = ["search", "--smoke", "--data", str(store), "--validation", "a", "--steps", "15"]
    options += ["--evidence", evidence, "--round_sequences", "7", "--device", "cpu"]
    options += ["--batch_sequences", "7", "--checkpoint_every", "5", "--config", str(settings)]
    program = "import sys\nfrom bydore_pyro.cli.main import main\n\nmain(sys.argv[1:])\n"
    two = two_processes(program, tmp_path, *options, "--out", "two")
    main([*options, "--out", str(tmp_path / "one")])
    assert two.stdout.count("domain  weight") == 1, "one process prints"
    weights = [Mixture.from_json(tmp_path / out / "mixture.json").weights for out in ("one", "two")]
    np.testing.assert_allclose(*weights, atol=1e-4 if evidence == "linear" else 2e-3)
    if evidence == "matching":
        rounds = [
            xarray.load_dataset(tmp_path / out / "rounds.nc", engine="h5netcdf")
            for out in ("one", "two")
        ]
        assert dict(rounds[0].sizes) == {"round": 2, "domain": 3, "other": 3}
        xarray.testing.assert_equal(rounds[0]["sequences"], rounds[1]["sequences"])
        for name in ("gram", "cross", "losses"):
            np.testing.assert_allclose(rounds[0][name], rounds[1][name], rtol=5e-3, atol=1e-4)
    runs = [
        xarray.load_dataset(tmp_path / out / "trajectory.nc", engine="h5netcdf")
        for out in ("one", "two")
    ]
    for name in ("train_loss", "validation_loss", "losses"):
        np.testing.assert_allclose(runs[0][name], runs[1][name], rtol=1e-3)
    tokens = [
        json.loads((tmp_path / out / "metrics.json").read_text())["search"]["tokens"]
        for out in ("one", "two")
    ]
    assert tokens[0] == tokens[1], "each row is computed and counted once"


# The signal reaches the second process alone.
SIGNALLED = """
import os, signal, sys
import bydore_pyro.search.search as search
from bydore_pyro.cli.main import main

taken = search.search_step

def take(state):
    if os.environ["RANK"] == "1" and len(state.records) == 2:
        os.kill(os.getpid(), signal.SIGTERM)
    return taken(state)

search.search_step = take
signal.signal(signal.SIGTERM, signal.SIG_DFL)
try:
    main(sys.argv[1:])
except SystemExit as error:
    open("code-" + os.environ["RANK"], "w").write(str(error.code))
"""


@pytest.mark.slow
def test_processes_save_together(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whichever of them the signal reaches; no save waits for one that has gone."""
    options = ["search", "--smoke", "--data", str(store), "--validation", "a", "--steps", "15"]
    done = two_processes(SIGNALLED, tmp_path, *options, "--device", "cpu", "--out", "run")
    assert [(tmp_path / f"code-{rank}").read_text() for rank in (0, 1)] == ["143", "143"]
    saved = Path("run/checkpoints/step-000003")
    assert (tmp_path / saved).is_dir()
    assert done.stderr.count(f"Saved {saved}. Go on with --resume run") == 1
    monkeypatch.chdir(tmp_path)
    main(["search", "--resume", "run"])
    assert f"going on from {saved}" in capfd.readouterr().err
