"""Several processes against one: the same weights within rounding."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray
from processes import Run, on_two_processes

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


def test_experiments_run_in_one_process(monkeypatch: pytest.MonkeyPatch, run_here: Run) -> None:
    assert number_of_processes() == 1
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert number_of_processes() == 2
    done = run_here("case1", "--smoke")
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


# What two processes do, one after the other, so that they are started once.
TOGETHER = """
import json, os, signal, sys, time
from pathlib import Path
from bydore_pyro.cli.main import main
from bydore_pyro.runs.options import Options
from bydore_pyro.runs.run import begin_run
from bydore_pyro.search import MatchingSearch
from bydore_pyro.utils.command_line import parse_options
from quick import be_quick

be_quick()  # in seconds, as all tests
rank, fitted, arguments = os.environ["RANK"], json.loads(sys.argv[1]), sys.argv[2:]

# The clock of each process says something else.
clock, time.strftime = time.strftime, lambda format: "now-" + rank
folder = begin_run(parse_options(["--device", "cpu"], "x", "", Options), "search", None)
Path("found-" + rank).write_text(f"{folder.path} {folder.writes}")
time.strftime = clock

for evidence in ("matching", "linear"):
    main([*arguments, "--evidence", evidence, "--out", evidence])

for method in ("regmix", "doremi"):
    main([*fitted, "--method", method, "--out", method])

# The signal reaches the second process alone.
taken = MatchingSearch.step

def take(state):
    if rank == "1" and len(state.records) == 2:
        os.kill(os.getpid(), signal.SIGTERM)
    return taken(state)

MatchingSearch.step = take
signal.signal(signal.SIGTERM, signal.SIG_DFL)
try:
    main([*arguments, "--checkpoint_every", "50", "--out", "stopped"])
except SystemExit as error:
    Path("code-" + rank).write_text(str(error.code))
"""


@pytest.fixture(scope="module")
def arguments(store: Path) -> list[str]:
    """A search whose batches are not split evenly."""
    settings = store.parent / "settings.yaml"
    settings.write_text("guide_warmup: 3\n")
    given = ["search", "--smoke", "--data", str(store), "--validation", "a", "--device", "cpu"]
    return [*given, "--steps", "15", "--checkpoint_every", "5", "--config", str(settings),
            "--batch_sequences", "7", "--round_sequences", "7"]  # fmt: skip


@pytest.fixture(scope="module")
def fitted(store: Path) -> list[str]:
    """A fit of methods whose proxies' batches are split."""
    given = ["fit", "--smoke", "--data", str(store), "--validation", "a", "--device", "cpu"]
    return [*given, "--budget", "24"]


@pytest.fixture(scope="module")
def together(
    arguments: list[str], fitted: list[str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The folder in which two processes did all of that, and what they printed."""
    folder = tmp_path_factory.mktemp("together")
    (folder / "program.py").write_text(TOGETHER)
    return folder, on_two_processes("program.py", json.dumps(fitted), *arguments, cwd=folder)


@pytest.mark.slow
def test_all_processes_have_one_run_folder(
    together: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    found = [(together[0] / f"found-{rank}").read_text() for rank in (0, 1)]
    assert found == ["runs/search-now-0 True", "runs/search-now-0 False"]


@pytest.mark.slow
@pytest.mark.parametrize("evidence", ["matching", "linear"])
def test_two_processes_find_what_one_finds(
    arguments: list[str],
    together: tuple[Path, subprocess.CompletedProcess[str]],
    tmp_path: Path,
    evidence: str,
) -> None:
    main([*arguments, "--evidence", evidence, "--out", str(tmp_path / "one")])
    folders = (tmp_path / "one", together[0] / evidence)
    assert together[1].stdout.count("domain  weight") == 4, "one process prints"
    weights = [Mixture.from_json(folder / "mixture.json").weights for folder in folders]
    np.testing.assert_allclose(*weights, atol=1e-4 if evidence == "linear" else 2e-3)
    runs = [xarray.load_dataset(f / "trajectory.nc", engine="h5netcdf") for f in folders]
    for name in ("train_loss", "validation_loss", "losses"):
        np.testing.assert_allclose(runs[0][name], runs[1][name], rtol=1e-3)
    metrics = [json.loads((folder / "metrics.json").read_text()) for folder in folders]
    one, two = (found["search"]["tokens"] for found in metrics)
    assert one == two, "each row is computed and counted once"
    if evidence == "matching":
        for left, right in zip(*(found["matching"]["rounds"] for found in metrics), strict=True):
            assert left["sequences"] == right["sequences"]
            assert left["validation_loss"] == pytest.approx(right["validation_loss"], rel=1e-3)
            assert left["unexplained"] == pytest.approx(right["unexplained"], rel=5e-3, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["regmix", "doremi"])
def test_two_processes_fit_what_one_fits(
    fitted: list[str],
    together: tuple[Path, subprocess.CompletedProcess[str]],
    tmp_path: Path,
    method: str,
) -> None:
    main([*fitted, "--method", method, "--out", str(tmp_path / "one")])
    folders = (tmp_path / "one", together[0] / method)
    weights = [Mixture.from_json(folder / "mixture.json").weights for folder in folders]
    np.testing.assert_allclose(*weights, atol=1e-3)


@pytest.mark.slow
def test_processes_save_together(
    together: tuple[Path, subprocess.CompletedProcess[str]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Whichever of them the signal reaches; no save waits for one that has gone."""
    folder, done = together
    assert [(folder / f"code-{rank}").read_text() for rank in (0, 1)] == ["143", "143"]
    saved = Path("stopped/checkpoints/step-000003")
    assert (folder / saved).is_dir()
    assert done.stderr.count(f"Saved {saved}. Go on with: bydore search --resume stopped") == 1
    monkeypatch.chdir(folder)
    main(["search", "--resume", "stopped"])
    assert f"going on from {saved}" in capfd.readouterr().err
