"""A run's folder, read as far as it is there."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from report_runs import NAMES, write_search, write_seeds, write_trajectory

from bydore_pyro.errors import RunFolderError
from bydore_pyro.report.run import RunRecord, read_run


def test_a_whole_run(tmp_path: Path) -> None:
    record = read_run(write_search(tmp_path / "run", verified=True))
    assert isinstance(record, RunRecord)
    assert (record.label, record.method, record.damaged) == ("run", "search", ())
    assert record.asked("search", "steps") == 60
    assert record.metrics.validation_loss_nats_per_token["learned"] == 3.25
    assert record.trajectory is not None
    assert dict(record.trajectory.sizes) == {"step": 60, "domain": len(NAMES)}
    assert record.average_start == 30


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
