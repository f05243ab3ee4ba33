"""Schedules of mixtures: what they say, and the files that they are read from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import xarray
from bydore_pyro.training.mixture_schedule import MixtureSchedule, read_schedule

from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.utils.errors import DataError

FIRST = Mixture(names=("web", "law", "none"), weights=(0.7, 0.3, 0.0), tokenizer="abc")
SECOND = Mixture(names=("code", "web"), weights=(0.5, 0.5))


def write(path: Path, content: str) -> str:
    path.write_text(content, encoding="utf-8")
    return str(path)


def test_stages_and_the_whole_run() -> None:
    schedule = MixtureSchedule(ends=(0.2, 1.0), mixtures=(FIRST, SECOND))
    assert schedule.names == ("code", "law", "web")
    np.testing.assert_allclose(schedule.weights, [[0, 0.3, 0.7], [0.5, 0, 0.5]])
    assert schedule.shares() == pytest.approx({"code": 0.4, "law": 0.06, "web": 0.54})
    assert MixtureSchedule.constant(FIRST).shares() == pytest.approx({"law": 0.3, "web": 0.7})


@pytest.mark.parametrize("ends", [(), (1.0,), (0.5, 0.9), (0.5, 0.5), (1.0, 0.5), (0.0, 1.0)])
def test_ends_grow_to_one(ends: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"Expected (an end|ends)"):
        MixtureSchedule(ends=ends, mixtures=(FIRST, SECOND))


def test_a_mixture_is_a_schedule_of_one(tmp_path: Path) -> None:
    path = tmp_path / "mixture.json"
    write(path, FIRST.to_json())
    expected = MixtureSchedule.constant(FIRST)
    assert read_schedule(str(path), 1e9) == expected
    assert read_schedule(str(tmp_path), 1e9) == expected, "a run's folder"
    assert len(read_schedule("published:regmix", 1e9).names) == 17
    table = write(tmp_path / "weights.csv", "domain,weight\nweb,0.25\nlaw,0.75\n")
    assert read_schedule(table, 1e9).shares() == {"law": 0.75, "web": 0.25}


def test_lists_of_stages(tmp_path: Path) -> None:
    write(tmp_path / "first.json", FIRST.to_json())
    text = "- {until: 0.2, mixture: first.json}\n- mixture: {code: 0.5, web: 0.5}\n"
    expected = MixtureSchedule(ends=(0.2, 1.0), mixtures=(FIRST, SECOND))
    assert read_schedule(write(tmp_path / "a.yaml", text), 1e9) == expected
    by_tokens = text.replace("0.2", "2M").replace("- mixture", "- until: 10M\n  mixture")
    assert read_schedule(write(tmp_path / "b.yaml", by_tokens), 1e7) == expected
    stages = [{"until": 2_000_000, "mixture": FIRST.as_dict()}]
    by_number = json.dumps([*stages, {"until": 1, "mixture": "published:regmix"}])
    found = read_schedule(write(tmp_path / "c.json", by_number), 1e7)
    assert found.ends == (0.2, 1.0)
    assert found.mixtures[1].as_dict() == read_schedule("published:regmix", 1).mixtures[0].as_dict()


def test_what_is_written_is_read(tmp_path: Path) -> None:
    thirds = Mixture(names=("a", "b", "c"), weights=(1 / 3, 1 / 3, 1 / 3), tokenizer="abc")
    schedule = MixtureSchedule(ends=(1 / 7, 1.0), mixtures=(thirds, SECOND))
    assert read_schedule(write(tmp_path / "s.json", schedule.to_json()), 1e9) == schedule


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "Expected an end for each mixture"),
        ("[1]", "stage 1 is not 'until' with 'mixture'"),
        ("- {until: 0.5}", "stage 1 is not"),
        ("- {until: 0.5, mixture: {a: 1}, speed: 3}", "stage 1 is not"),
        ("- {until: 0.5, mixture: {a: 1}}", "Expected ends that grow to 1"),
        ("- {mixture: {a: 1}}\n- {mixture: {b: 1}}", "None instead of a share"),
        ("- {until: true, mixture: {a: 1}}", "True instead of a share"),
        ("- {until: soon, mixture: {a: 1}}", "Expected tokens such as"),
        ("- {until: 2e9, mixture: {a: 1}}", "Expected ends that grow to 1"),
        ("- {mixture: {a: 0.5, b: -0.4}}", "-0.4 as the weight of 'b'"),
        ("- {mixture: {}}", "no domain"),
        ("- {mixture: {a: x}}", "'x' instead of a number as the weight of 'a'"),
        ("- {mixture: 3}", "3 instead of a file or names with weights"),
        ("- {mixture: missing.json}", "Expected a mixture file"),
    ],
)
def test_bad_stages_are_one_line(text: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "stages.yaml", text)
    with pytest.raises(DataError, match="Expected stages of mixtures in .*" + message) as caught:
        read_schedule(path, 1e9)
    assert "\n" not in str(caught.value)


def test_a_stage_takes_a_runs_folder_and_weights_that_sum_to_anything(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "mixture.json").write_text(SECOND.to_json())
    text = "- {until: 0.5, mixture: run}\n- {mixture: {a: 2, b: 6}}"
    with pytest.warns(UserWarning, match="a stage: the weights sum to 8; they were normalised"):
        schedule = read_schedule(write(tmp_path / "stages.yaml", text), 1e9)
    assert schedule.mixtures[0].as_dict() == SECOND.as_dict()
    assert schedule.mixtures[1].as_dict() == {"a": 0.25, "b": 0.75}


def test_what_is_no_list_is_left_to_the_readers_of_weights(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Expected a mixture file"):
        read_schedule(str(tmp_path / "missing.json"), 1e9)
    with pytest.raises(DataError, match="Expected weights of domains"):
        read_schedule(write(tmp_path / "x.yaml", "3"), 1e9)
    large = write(tmp_path / "large.json", "[" + " " * 2**21 + "]")
    with pytest.raises(DataError, match="more than 2 MB"):
        read_schedule(large, 1e9)


def write_trajectory(path: Path, mean: np.ndarray, names: tuple[str, ...] = ("a", "b")) -> str:
    data = xarray.Dataset(
        {"mean": (("step", "domain"), mean)},
        coords={"step": np.arange(len(mean)), "domain": list(names)},
    )
    data.to_netcdf(path, engine="h5netcdf")
    return str(path)


def test_a_trajectory_is_averaged_over_stages(tmp_path: Path) -> None:
    first = np.linspace(0, 1, 10)
    path = write_trajectory(tmp_path / "trajectory.nc", np.stack([first, 1 - first], 1))
    found = read_schedule(path, 1e9, trajectory_stages=4)
    assert found.ends == (0.3, 0.6, 0.8, 1.0), "ten steps in four"
    assert found.mixtures[0].weights == pytest.approx((first[:3].mean(), 1 - first[:3].mean()))
    assert found.shares() == pytest.approx({"a": 0.5, "b": 0.5})
    assert found.mixtures[0].tokenizer is None
    assert len(read_schedule(path, 1e9, trajectory_stages=99).ends) == 10
    own = Mixture(names=("a", "b"), weights=(0.5, 0.5), tokenizer="abc")
    write(tmp_path / "mixture.json", own.to_json())
    assert {m.tokenizer for m in read_schedule(path, 1e9).mixtures} == {"abc"}
    with pytest.raises(ValueError, match="Expected trajectory_stages >= 1, actual 0"):
        read_schedule(path, 1e9, trajectory_stages=0)


@pytest.mark.parametrize("bad", [np.nan, -0.5])
def test_bad_trajectories_are_refused(bad: float, tmp_path: Path) -> None:
    mean = np.full((4, 2), 0.5)
    mean[2, 0] = bad
    path = write_trajectory(tmp_path / "trajectory.nc", mean)
    with pytest.raises(DataError, match="Expected weights of every step, >= 0"):
        read_schedule(path, 1e9)
    with pytest.raises(DataError, match="Expected weights of every step"):
        read_schedule(write_trajectory(tmp_path / "zero.nc", np.zeros((3, 2))), 1e9)
    with pytest.raises(DataError, match="Expected the trajectory of a search"):
        read_schedule(write(tmp_path / "text.nc", "nothing"), 1e9)
