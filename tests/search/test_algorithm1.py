"""A search by linear evidence in its folder: what it leaves, and how it goes on."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray
from method_options import options_for
from safetensors.torch import load_file

from bydore_pyro.algorithm1.config import LinearConfig
from bydore_pyro.algorithm1.learner import BayesianLearner
from bydore_pyro.files.run_folder import RunFolder
from bydore_pyro.mixture.mixture import jitter
from bydore_pyro.search.algorithm1 import LAST, search_by_linear_evidence
from bydore_pyro.setup.domains import load_domains
from bydore_pyro.setup.run import Found

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
from point_learners import PointLearner

GIVEN = ("--evidence", "linear", "--steps", "12", "--checkpoint_every", "1")


def points(count: int) -> PointLearner:
    return PointLearner(count, LinearConfig(guide_warmup=1), 12, 0)


def searched(store: Path, out: Path, learner: Any = None, *, resume: bool = False) -> Found:
    options = options_for(store, *GIVEN)
    given = (options, load_domains(options), RunFolder(out, resume=resume), "test")
    return search_by_linear_evidence(*given, learner)


def test_what_it_finds_is_written_and_told(store: Path, tmp_path: Path) -> None:
    found, out = searched(store, tmp_path / "run"), tmp_path / "run"
    steps = xarray.load_dataset(out / "trajectory.nc", engine="h5netcdf")
    np.testing.assert_array_equal(steps["mean"], found.path)
    np.testing.assert_array_equal(steps["validation_loss"], found.validation_losses)
    told = found.metrics
    assert told.steps == 12
    assert told.jitter_second_half == jitter(found.path[6:])
    assert told.guide_fit.khat is not None
    assert not told.matching.rounds
    assert told.learning.validation_loss == pytest.approx(np.mean(found.validation_losses[-LAST:]))
    assert {"w", "beta"} == {*found.answer.sites}
    names = {path.name for path in out.iterdir()}
    assert names >= {"mixture.json", "metrics.json", "posterior.nc", "guide.safetensors"}
    guide = BayesianLearner(3, options_for(store, *GIVEN).linear, 12, 0).guide
    guide.load_state_dict(load_file(out / "guide.safetensors"))


def test_points_have_no_draws_and_go_on_after_any_step(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bydore_pyro.files.checkpoints.KEPT", 99)
    whole, out = searched(store, tmp_path / "whole", points), tmp_path / "out"
    assert not whole.answer.sites
    assert not (tmp_path / "whole/posterior.nc").exists()
    shutil.copytree(tmp_path / "whole", out)
    for number in range(5, 13):
        shutil.rmtree(out / "checkpoints" / f"step-{number:06d}")
    torch.manual_seed(4)  # what the process drew since does not matter
    found = searched(store, out, points, resume=True)
    assert found.mixture == whole.mixture
    assert found.metrics.search.tokens == whole.metrics.search.tokens
    assert found.validation_losses == whole.validation_losses
    left, right = (p / "trajectory.nc" for p in (out, tmp_path / "whole"))
    xarray.testing.assert_identical(
        *(xarray.load_dataset(p, engine="h5netcdf") for p in (left, right))
    )
    for name, parameter in whole.proxy.parameters.items():
        assert torch.equal(parameter, found.proxy.parameters[name])


def test_a_warmup_that_leaves_no_step_is_refused_before_anything_is_written(
    store: Path, tmp_path: Path
) -> None:
    options = options_for(store, "--evidence", "linear", "--guide_warmup", "6", "--steps", "6")
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(ValueError, match=r"Expected guide_warmup in \[0, steps = 6\), actual 6"):
        search_by_linear_evidence(options, load_domains(options), folder, "test")
    assert not list((tmp_path / "run").glob("[!.]*"))
