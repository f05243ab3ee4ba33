"""A run's folder, read as far as it is there."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from report_runs import NAMES, write_fit, write_search, write_seeds, write_trajectory

from bydore_pyro.report.run import (
    RunRecord,
    SeedsAgreement,
    read_run,
)
from bydore_pyro.utils.errors import RunFolderError


def test_a_whole_run(tmp_path: Path) -> None:
    record = read_run(write_search(tmp_path / "run", verified=True))
    assert (record.label, record.method, record.domains) == ("run", "search", NAMES)
    assert record.asked("search", "steps") == record.asked_number("search", "steps") == 60
    assert record.metrics.validation_loss_nats_per_token["learned"] == 3.25
    assert record.trajectory is not None
    assert dict(record.trajectory.sizes) == {"step": 60, "domain": len(NAMES)}
    assert list(record.next_to_nothing) == list(NAMES)
    assert record.next_to_nothing["code"] == 0 < record.next_to_nothing["web"] < 0.1
    assert record.damaged == ()


def test_a_plain_training_is_of_the_tokens_that_were_asked_for(tmp_path: Path) -> None:
    # 60 steps of 8 * 32 tokens are the 15,360 of the search's own training, of 1e9 FLOPs
    assert read_run(write_search(tmp_path / "run")).plain_trainings() == pytest.approx(3)
    # all FLOPs of a fit were spent on 60,000 tokens of training
    fit = read_run(write_fit(tmp_path / "fit"))
    assert fit.plain_trainings() == pytest.approx(60_000 / 15_360)
    assert RunRecord(path=tmp_path, label="").plain_trainings() is None


def test_the_weights_alone_are_enough(tmp_path: Path) -> None:
    write_search(tmp_path)
    for path in tmp_path.iterdir():
        if path.name != "mixture.json":
            path.unlink()
    record = read_run(tmp_path, "mine")
    assert (record.label, record.method, record.trajectory) == ("mine", "search", None)
    assert record.asked("run", "data") is None
    assert record.metrics.search.flops is None
    assert record.next_to_nothing == {}


def test_what_is_damaged_is_told(tmp_path: Path) -> None:
    write_search(tmp_path)
    for name in ("trajectory.nc", "posterior.nc"):
        (tmp_path / name).write_bytes(pickle.dumps(NAMES))
    (tmp_path / "metrics.json").write_text("[1]")
    (tmp_path / "config.json").write_text("{")
    record = read_run(tmp_path)
    names = ("config.json", "metrics.json", "trajectory.nc", "posterior.nc")
    assert [line.split(":")[0] for line in record.damaged] == list(names)
    assert "metrics.json: DataError: Expected an object, found list" in record.damaged


def test_a_trajectory_without_steps_is_damaged(tmp_path: Path) -> None:
    write_search(tmp_path)
    write_trajectory(tmp_path / "trajectory.nc", NAMES, np.empty((0, len(NAMES))), whole=False)
    record = read_run(tmp_path)
    told = "trajectory.nc: DataError: Expected the mean weights of every step"
    assert (record.trajectory, record.damaged) == (None, (told,))


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"Expected a run in .*nowhere"):
        read_run(tmp_path / "nowhere")
    (tmp_path / "mixture.json").write_text("{}")
    with pytest.raises(RunFolderError, match=r"no weights in it: mixture\.json: DataError"):
        read_run(tmp_path)


def test_several_seeds(tmp_path: Path) -> None:
    folder = write_seeds(tmp_path / "seeds", 11)
    (folder / "seed-x").mkdir()
    record = read_run(folder)
    assert [seed.label for seed in record.seeds] == [f"seed {i}" for i in range(11)]
    assert record.mixture is None
    assert record.domains == NAMES
    assert record.agreement["prose"] == SeedsAgreement(
        mean=pytest.approx(0.36 / 2.176),
        sd_over_seeds=0.02,
        posterior_sd=0.005,
        coverage=1.0,
        overconfident=False,
    )
    (folder / "agreement.csv").write_text("domain,mean\nlaw,1\n")
    with pytest.raises(RunFolderError, match=r"no weights in it: agreement\.csv: KeyError"):
        read_run(folder)
