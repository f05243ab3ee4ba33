"""The run folder: refused where it is taken, files whole, provenance honest."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import pytest
from test_search import state_of

from bydore_pyro.arviz_import import import_arviz
from bydore_pyro.data.store import TokenStore
from bydore_pyro.diagnostics import posterior_of, trajectory_of
from bydore_pyro.errors import RunFolderError
from bydore_pyro.run_folder import RunFolder, provenance
from bydore_pyro.search import run_search


def test_a_folder_that_is_a_run_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    assert not folder.path.exists(), "checking makes nothing"
    folder.write_json("config.json", {})
    with pytest.raises(RunFolderError, match=r"found a run in .*run"):
        RunFolder(tmp_path / "run")


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="folder to write to"):
        RunFolder(tmp_path / "file")
    with pytest.raises(RunFolderError, match="folder to write to"):
        RunFolder(tmp_path / "file" / "below")


def test_json_refuses_what_is_not_json(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_json("a.json", {"x": 1})
    with pytest.raises(ValueError, match="Out of range float"):
        folder.write_json("a.json", {"x": float("nan")})
    assert json.loads((tmp_path / "a.json").read_text()) == {"x": 1}


def test_arviz_and_xarray_read_what_is_written(tmp_path: Path, corpus: TokenStore) -> None:
    import xarray

    state = state_of(corpus)
    list(run_search(state))
    folder = RunFolder(tmp_path)
    posterior, trajectory = posterior_of(state), trajectory_of(state)
    folder.write_posterior("posterior.nc", posterior)
    folder.write_dataset("trajectory.nc", trajectory)
    az = import_arviz()
    read = az.from_netcdf(tmp_path / "posterior.nc")
    assert read["posterior"]["w"].equals(posterior["posterior"]["w"])
    assert az.summary(read, var_names=["w"]).index.tolist() == [f"w[{n}]" for n in corpus.names]
    with xarray.open_dataset(tmp_path / "trajectory.nc", engine="h5netcdf") as stored:
        assert stored.equals(trajectory)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["posterior.nc", "trajectory.nc"]


def test_provenance_states_what_is_installed() -> None:
    stated = provenance()
    assert stated["versions"]["torch"] == importlib.metadata.version("torch")
    assert stated["commit"] is None or len(stated["commit"].rstrip("+")) == 40
