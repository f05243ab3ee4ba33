"""A run's folder, read as far as it is there."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from report_runs import NAMES, write_search

from bydore_pyro.errors import DataError, RunFolderError
from bydore_pyro.report.run import RunRecord, read_run


def test_a_whole_run(tmp_path: Path) -> None:
    record = read_run(write_search(tmp_path / "run", verified=True))
    assert isinstance(record, RunRecord)
    assert (record.label, record.method) == ("run", "search")
    assert record.asked("search", "steps") == 60
    assert record.metrics.validation_loss_nats_per_token["learned"] == 3.25
    assert record.trajectory is not None
    assert dict(record.trajectory.sizes) == {"step": 60, "domain": len(NAMES)}
    assert record.average_start == 30


def test_what_is_missing_is_empty(tmp_path: Path) -> None:
    write_search(tmp_path)
    for name in ("config.json", "metrics.json", "trajectory.nc"):
        (tmp_path / name).unlink()
    record = read_run(tmp_path, "mine")
    assert (record.label, record.method, record.trajectory) == ("mine", "search", None)
    assert record.asked("run", "data") is record.metrics.search is None


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("trajectory.nc", pickle.dumps(NAMES), "Expected the mean weights of every step in "),
        ("metrics.json", b"[1]", "Expected an object in "),
        ("manifest.json", b"[1]", "Expected an object in "),
        ("mixture.json", b"{}", "Expected a valid record, found: Field required as 'format' in "),
    ],
)
def test_a_damaged_file_is_refused_by_name(
    name: str, content: bytes, told: str, tmp_path: Path
) -> None:
    write_search(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as error:
        read_run(tmp_path)
    assert str(error.value).startswith(f"{told}{tmp_path / name}")


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match=r"Expected a finished run in .*nowhere"):
        read_run(tmp_path / "nowhere")
    write_search(tmp_path / "run")
    (tmp_path / "run" / "mixture.json").unlink()
    (tmp_path / "run" / "metrics.json").unlink()
    with pytest.raises(RunFolderError, match=r"without a mixture: bydore search --resume .* goes"):
        read_run(tmp_path / "run")


def test_epochs_are_of_the_corpus_that_is_stated(tmp_path: Path) -> None:
    folder = write_search(tmp_path / "run", verified=True)
    plain = read_run(folder)
    run = plain.metrics.run_tokens
    assert run is not None
    stated = read_run(folder, domain_tokens=[f"{name}=1B" for name in plain.mixture.names])
    epochs = {name: share * float(run) / 1e9 for name, share in plain.mixture.as_dict().items()}
    assert stated.metrics.run_epochs == pytest.approx(epochs)
    assert stated.mixture == plain.mixture
    with pytest.raises(DataError, match="--domain_tokens of every domain, found none of "):
        read_run(folder, domain_tokens=["other=1B"])
