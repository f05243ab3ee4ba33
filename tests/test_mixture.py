"""The mixture: validation, and a round trip through its file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bydore_pyro.errors import DataError
from bydore_pyro.mixture import Mixture

FULL = Mixture(
    names=("a", "b"),
    weights=(0.25, 0.75),
    standard_deviation=(0.1, 0.2),
    hdi=((0.1, 0.4), (0.6, 0.9)),
    tokenizer="t",
    data_sha256="d",
)


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "mixture.json"
    path.write_text(FULL.to_json())
    assert Mixture.from_json(path) == FULL
    bare = Mixture(names=("x", "y"), weights=(0.5, 0.5))
    path.write_text(bare.to_json())
    assert Mixture.from_json(path) == bare


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ("a", "a")}, "different names"),
        ({"names": ()}, "different names"),
        ({"weights": (1.0,)}, "2 weights, actual 1"),
        ({"weights": (-0.5, 1.5)}, "weight >= 0 for 'a'"),
        ({"weights": (float("nan"), 1.0)}, "weight >= 0 for 'a'"),
        ({"weights": (0.5, 0.6)}, "sum to 1"),
        ({"hdi": ((0.0, 1.0),)}, "2 hdi"),
    ],
)
def test_bad_mixtures_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Mixture(**{"names": ("a", "b"), "weights": (0.5, 0.5), **options})


@pytest.mark.parametrize(
    "content",
    [
        "not json",
        "[]",
        "{}",
        json.dumps({**json.loads(FULL.to_json()), "weights": {"a": 0.5, "b": "x"}}),
        json.dumps({**json.loads(FULL.to_json()), "weights": {"a": 0.5, "b": 0.6}}),
        json.dumps({**json.loads(FULL.to_json()), "hdi": {"a": [0, 1]}}),
        json.dumps({**json.loads(FULL.to_json()), "weights": None}),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "mixture.json"
    path.write_text(content)
    with pytest.raises(DataError, match=r"mixture\.json"):
        Mixture.from_json(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.json"):
        Mixture.from_json(tmp_path / "none.json")
