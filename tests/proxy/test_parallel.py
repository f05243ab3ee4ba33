"""Several processes against one: the same weights within rounding."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray
from processes import Run, on_two_processes
from quick import be_quick

from bydore_pyro.cli.main import main
from bydore_pyro.command_line.command_line import parse_options
from bydore_pyro.files import read_as
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.proxy.parallel import Parallel, number_of_processes
from bydore_pyro.proxy.proxy import Proxy
from bydore_pyro.setup.options import Options
from bydore_pyro.setup.record import Metrics
from bydore_pyro.setup.run import begin_run


def test_experiments_run_in_one_process(monkeypatch: pytest.MonkeyPatch, run_here: Run) -> None:
    assert number_of_processes() == 1
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert number_of_processes() == 2
    done = run_here("case1", "--smoke")
    assert done.returncode == 2
    assert "Expected one process, found several" in done.stderr


@pytest.mark.slow
def test_processes_that_torchrun_starts_find_each_other(tmp_path: Path) -> None:
    """By the variables that `on_two_processes` sets as well.

    Each writes a file of its own: what two print into one pipe can stand in any order.
    """
    (tmp_path / "script.py").write_text(
        "from pathlib import Path\n"
        "from bydore_pyro.proxy.parallel import Parallel\n"
        "one = Parallel()\n"
        "said = f'{one.count} {one.index} {one.agree(str(one.index))}'\n"
        "Path(__file__).with_name(f'said-{one.index}').write_text(said)\n"
    )
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    words = [*torchrun, "--nproc_per_node", "2", str(tmp_path / "script.py")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = [path.read_text() for path in sorted(tmp_path.glob("said-*"))]
    assert said == ["2 0 0", "2 1 0"]


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


@pytest.fixture(scope="module")
def arguments(store: Path) -> list[str]:
    """A search whose batches are not split evenly."""
    settings = store.parent / "settings.yaml"
    settings.write_text("guide_warmup: 3\n")
    given = ["search", "--smoke", "--data", str(store), "--validation", "a", "--device", "cpu"]
    return [
        *given,
        "--steps",
        "9",
        "--checkpoint_every",
        "5",
        "--config",
        str(settings),
        "--batch_sequences",
        "7",
        "--round_sequences",
        "7",
    ]


@pytest.fixture(scope="module")
def fitted(store: Path) -> list[str]:
    """A fit of methods whose proxies' batches are split."""
    given = ["fit", "--smoke", "--data", str(store), "--validation", "a", "--device", "cpu"]
    return [*given, "--budget", "24"]


Together = tuple[Path, str]
STOPPED = {"stopped": 2, "in-a-round": 3}  # by folder: the steps before the one that is stopped


@pytest.fixture(scope="module")
def together(
    arguments: list[str], fitted: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Together:
    """The folder in which two processes did, one after the other, what follows; what they said."""
    folder = tmp_path_factory.mktemp("together")

    def work(rank: int) -> None:
        be_quick()
        # The clock of each process says something else.
        clock, time.strftime = time.strftime, lambda *_: f"now-{rank}"
        found = begin_run(parse_options(["--device", "cpu"], "x", "", Options), "search", None)
        Path(f"found-{rank}").write_text(f"{found.path} {found.writes}")
        time.strftime = clock

        for evidence in ("matching", "linear"):
            main([*arguments, "--evidence", evidence, "--out", evidence])
        main([*fitted, "--method", "doremi", "--out", "doremi"])

        taken = Proxy.step

        for place, steps in STOPPED.items():

            def take(proxy: Proxy, *given: torch.Tensor, steps: int = steps) -> torch.Tensor:
                if rank == 1 and proxy.steps == steps:  # the signal reaches it alone
                    os.kill(os.getpid(), signal.SIGTERM)
                return taken(proxy, *given)

            Proxy.step = take  # type: ignore[method-assign]
            try:
                main([*arguments, "--checkpoint_every", "50", "--out", place])
            except SystemExit as error:
                Path(f"{place}-{rank}").write_text(str(error.code))

    return folder, on_two_processes(work, folder)


@pytest.mark.slow
def test_all_processes_have_one_run_folder(together: Together) -> None:
    found = [(together[0] / f"found-{rank}").read_text() for rank in (0, 1)]
    assert found == ["runs/search-now-0 True", "runs/search-now-0 False"]


@pytest.mark.slow
@pytest.mark.parametrize("evidence", ["matching", "linear"])
def test_two_processes_find_what_one_finds(
    arguments: list[str], together: Together, tmp_path: Path, evidence: str
) -> None:
    main([*arguments, "--evidence", evidence, "--out", str(tmp_path / "one")])
    folders = (tmp_path / "one", together[0] / evidence)
    assert together[1].count("domain  weight") == 3, "one process prints"
    weights = [Mixture.from_json(folder / "mixture.json").weights for folder in folders]
    np.testing.assert_allclose(*weights, atol=1e-4 if evidence == "linear" else 2e-3)
    if evidence == "linear":
        runs = [xarray.load_dataset(f / "trajectory.nc", engine="h5netcdf") for f in folders]
        for name in ("train_loss", "validation_loss", "losses"):
            np.testing.assert_allclose(runs[0][name], runs[1][name], rtol=1e-3)
    else:
        told = [read_as(Metrics, f / "metrics.json").matching.rounds for f in folders]
        np.testing.assert_allclose(*([r.validation_loss for r in one] for one in told), rtol=1e-3)
    metrics = [json.loads((folder / "metrics.json").read_text()) for folder in folders]
    one, two = (found["search"]["tokens"] for found in metrics)
    assert one == two, "each row is computed and counted once"
    if evidence == "matching":
        for left, right in zip(*(found["matching"]["rounds"] for found in metrics), strict=True):
            assert left["sequences"] == right["sequences"]
            assert left["validation_loss"] == pytest.approx(right["validation_loss"], rel=1e-3)
            assert left["unexplained"] == pytest.approx(right["unexplained"], rel=5e-3, abs=1e-3)


@pytest.mark.slow
def test_two_processes_fit_what_one_fits(
    fitted: list[str], together: Together, tmp_path: Path
) -> None:
    main([*fitted, "--method", "doremi", "--out", str(tmp_path / "one")])
    folders = (tmp_path / "one", together[0] / "doremi")
    weights = [Mixture.from_json(folder / "mixture.json").weights for folder in folders]
    np.testing.assert_allclose(*weights, atol=1e-3)


@pytest.mark.slow
def test_processes_save_together(
    together: Together, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whichever of them the signal reaches; no save waits for one that has gone."""
    folder, told = together
    monkeypatch.chdir(folder)
    for place, step in (("stopped", 3), ("in-a-round", 3)):
        assert [Path(f"{place}-{rank}").read_text() for rank in (0, 1)] == ["143", "143"]
        saved = Path(place, "checkpoints", f"step-{step:06d}")
        assert saved.is_dir()
        assert told.count(f"Saved {saved}. Go on with: bydore search --resume {place}") == 1
        main(["search", "--resume", place])
        assert f"going on from {saved}" in capfd.readouterr().err
