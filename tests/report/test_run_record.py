"""A run's folder, read as far as it is there."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from report_runs import NAMES, write_fit, write_search, write_seeds

from bydore_pyro.report.run_record import (
    Draws,
    RunRecord,
    SeedsAgreement,
    Trajectory,
    as_number,
    labelled_runs,
    named_numbers,
    read_run,
)
from bydore_pyro.utils.errors import RunFolderError


def test_a_whole_run(tmp_path: Path) -> None:
    record = read_run(write_search(tmp_path / "run", verified=True))
    assert (record.label, record.method, record.domains) == ("run", "search", NAMES)
    assert record.asked("search", "steps") == 60
    assert record.number("search", "parts", "train", "seconds") == 4.0
    assert record.numbers("validation_loss_nats_per_token")["learned"] == 3.25
    assert isinstance(record.trajectory, Trajectory)
    assert record.trajectory.by_domain["mean"].shape == (60, len(NAMES))
    assert set(record.trajectory.by_step) == {"train_loss", "validation_loss"}
    draws = record.draws["code"]
    assert isinstance(draws, Draws)
    assert draws.quartiles[0] < draws.quartiles[1] < draws.quartiles[2]
    assert draws.above_uniform > 0.9
    assert record.damaged == ()


def test_a_plain_training_is_of_the_tokens_that_were_asked_for(tmp_path: Path) -> None:
    # 60 steps of 8 * 32 tokens are the 15,360 of the search's own training
    assert read_run(write_search(tmp_path / "run")).plain_training() == pytest.approx(1e9)
    # 6e9 FLOPs were spent on 60,000 tokens
    fit = read_run(write_fit(tmp_path / "fit"))
    assert fit.plain_training() == pytest.approx(6e9 / 60_000 * 15_360)
    assert RunRecord(path=tmp_path, label="").plain_training() is None


def test_the_weights_alone_are_enough(tmp_path: Path) -> None:
    write_search(tmp_path)
    for path in tmp_path.iterdir():
        if path.name != "mixture.json":
            path.unlink()
    record = read_run(tmp_path, "mine")
    assert (record.label, record.method, record.trajectory) == ("mine", "search", None)
    assert record.asked("run", "data") is None
    assert record.number("search", "flops") is None
    assert record.numbers("run_epochs") == {}
    assert record.draws == {}


def test_what_is_damaged_is_told(tmp_path: Path) -> None:
    write_search(tmp_path)
    for name in ("trajectory.nc", "posterior.nc"):
        (tmp_path / name).write_bytes(pickle.dumps(NAMES))
    (tmp_path / "metrics.json").write_text("[1]")
    (tmp_path / "config.json").write_text("{")
    record = read_run(tmp_path)
    names = ("config.json", "metrics.json", "trajectory.nc", "posterior.nc")
    assert [line.split(":")[0] for line in record.damaged] == list(names)


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


def test_labels_differ(tmp_path: Path) -> None:
    paths = [tmp_path / "a" / "run", tmp_path / "b" / "run"]
    records = [RunRecord(path=path, label="run") for path in paths]
    assert [r.label for r in labelled_runs(records)] == [str(path) for path in paths]
    twice = [r.label for r in labelled_runs([records[0], records[0]])]
    assert len(set(twice)) == 2
    other = RunRecord(path=tmp_path, label="other")
    assert [r.label for r in labelled_runs([records[0], other])] == ["run", "other"]


def test_numbers_are_finite() -> None:
    assert [as_number(v) for v in (1, 2.5, np.float64(3))] == [1.0, 2.5, 3.0]
    assert named_numbers({"a": 1, "b": "no", "c": None}) == {"a": 1.0}
    assert named_numbers([1]) == {}
    huge = json.loads("1" + "0" * 400)
    for value in (None, True, "1", float("nan"), float("inf"), huge, [1]):
        assert as_number(value) is None
