"""A run's folder, read as far as it is there."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from bydore_pyro.search.config import AVERAGE_FROM
from report_runs import NAMES, record_of, write_search, write_seeds, write_trajectory

from bydore_pyro.report.run import RunRecord, read_run
from bydore_pyro.utils.errors import RunFolderError


def test_a_whole_run(tmp_path: Path) -> None:
    record = read_run(write_search(tmp_path / "run", verified=True))
    assert isinstance(record, RunRecord)
    assert (record.label, record.method, record.damaged) == ("run", "search", ())
    assert record.asked("search", "steps") == 60
    assert record.metrics.validation_loss_nats_per_token["learned"] == 3.25
    assert record.trajectory is not None
    assert dict(record.trajectory.sizes) == {"step": 60, "domain": len(NAMES)}
    assert record.average_start == 30


def test_where_the_average_begins(tmp_path: Path) -> None:
    trajectory = read_run(write_search(tmp_path / "run")).trajectory
    assert record_of(trajectory=trajectory).average_start == int(60 * AVERAGE_FROM)
    assert record_of(trajectory=trajectory, metrics={"method": "doremi"}).average_start == 0
    config = {"search": {"evidence": "matching"}}
    assert record_of(trajectory=trajectory, config=config).average_start == 59


def test_what_is_missing_or_damaged(tmp_path: Path) -> None:
    write_search(tmp_path)
    (tmp_path / "trajectory.nc").write_bytes(pickle.dumps(NAMES))
    (tmp_path / "metrics.json").write_text("[1]")
    (tmp_path / "config.json").write_text("{")
    record = read_run(tmp_path)
    names = ["config.json", "metrics.json", "trajectory.nc"]
    assert [line.split(":")[0] for line in record.damaged] == names
    told = f"metrics.json: DataError: Expected an object in {tmp_path / 'metrics.json'}"
    assert told in record.damaged
    write_trajectory(tmp_path / "trajectory.nc", NAMES, np.empty((0, len(NAMES))))
    assert "Expected the mean weights of every step" in read_run(tmp_path).damaged[-1]
    for name in names:
        (tmp_path / name).unlink()
    record = read_run(tmp_path, "mine")
    assert (record.label, record.method, record.trajectory) == ("mine", "search", None)
    assert record.asked("run", "data") is record.metrics.search.flops is None


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"Expected a finished run in .*nowhere"):
        read_run(tmp_path / "nowhere")
    (tmp_path / "mixture.json").write_text("{}")
    with pytest.raises(RunFolderError, match=r"no weights in it: mixture\.json: DataError"):
        read_run(tmp_path)
    with pytest.raises(
        RunFolderError, match=r"seeds without a mixture: bydore search --resume .*seeds goes on"
    ):
        read_run(write_seeds(tmp_path / "seeds", 1))


def test_several_seeds(tmp_path: Path) -> None:
    folder = write_seeds(tmp_path / "seeds", 11)
    (folder / "seed-x").mkdir()
    record = read_run(folder)
    assert [seed.label for seed in record.seeds] == [f"seed {i}" for i in range(11)]
    assert record.mixture is None
    assert record.agreement is not None
    assert {*record.agreement.index} == {*NAMES}
