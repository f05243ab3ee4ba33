"""The mixture: validation, and a round trip through its file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from mutations import replaced, require_one_line
from scipy import optimize

from bydore_pyro.errors import DataError
from bydore_pyro.mixture.mixture import Mixture, jitter, total_variation, within_bounds

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


def test_pools_share_what_was_found() -> None:
    pooled = Mixture(
        names=("x", "a/*"),
        weights=(0.2, 0.8),
        standard_deviation=(0.1, 0.2),
        hdi=((0.1, 0.4), (0.6, 0.9)),
    )
    found = pooled.unpooled({"a/*": {"a/b": 0.25, "a/c": 0.75}, "z/*": {"z": 1.0}})
    assert found.as_dict() == pytest.approx({"x": 0.2, "a/b": 0.2, "a/c": 0.6})
    assert found.standard_deviation == pytest.approx((0.1, 0.05, 0.15))
    assert found.hdi is not None
    np.testing.assert_allclose(found.hdi, [(0.1, 0.4), (0, 0.9), (0, 0.9)])
    assert "a/* (2 domains)" in found.notes[0]
    assert found.unpooled({"a/*": {"a/b": 1.0}}) is found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ("a", "a")}, "different names"),
        ({"names": ()}, "different names"),
        ({"weights": (1.0,)}, "2 weights, actual 1"),
        ({"weights": (-0.5, 1.5)}, "weights >= 0 for 'a'"),
        ({"weights": (0.5, 0.6)}, "sum to 1"),
        ({"hdi": ((0.0, 1.0),)}, "2 hdi"),
        ({"names": ("a", "b\ud800")}, "names in UTF-8"),
        ({"standard_deviation": (0.1, -0.1)}, "standard_deviation >= 0 for 'b'"),
        ({"free_weights": (0.1, float("inf"))}, "free_weights >= 0 for 'b'"),
        ({"hdi": ((0.0, 1.0), (0.6, 0.4))}, r"hdi low <= high in \[0, 1\] for 'b', actual \(0.6"),
        ({"hdi_probability": 1.0}, r"hdi_probability in \(0, 1\), actual 1"),
    ],
)
def test_bad_mixtures_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Mixture(**{"names": ("a", "b"), "weights": (0.5, 0.5), **options})


@pytest.mark.parametrize(
    "content",
    [
        *("not json", "[]", "{}", "[" * 100_000),
        *(
            json.dumps({**json.loads(FULL.to_json()), **changed})
            for changed in (
                *({"weights": {"a": 0.5, "b": wrong}} for wrong in ("x", 0.6)),
                {"hdi": {"a": [0, 1]}},
            )
        ),
        FULL.to_json().replace('"b": 0.75', '"b": 0.5, "b": 0.75'),
        FULL.to_json().replace("0.75", "1" + "0" * 400),
    ],
)
def test_bad_files_are_refused_by_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "mixture.json"
    path.write_text(content)
    with pytest.raises(DataError, match=r"mixture\.json"):
        Mixture.from_json(path)
    with pytest.raises(DataError, match=r"none\.json"):
        Mixture.from_json(tmp_path / "none.json")


def mixture(**weights: float) -> Mixture:
    return Mixture(names=tuple(weights), weights=tuple(weights.values()), tokenizer="t")


def test_intervals_are_held_against_equal_shares() -> None:
    found = Mixture(
        names=("a", "b", "c", "d"),
        weights=(0.6, 0.2, 0.15, 0.05),
        standard_deviation=(0.1,) * 4,
        hdi=((0.4, 0.8), (0.05, 0.4), (0.1, 0.25), (0.0, 0.24)),
    )
    assert found.verdicts() == {"a": "above", "b": "undecided", "c": "undecided", "d": "below"}
    assert mixture(a=1.0).verdicts() == {}


def test_intervals_are_held_against_a_prior() -> None:
    found = Mixture(
        names=("a", "b", "c"),
        weights=(0.7, 0.2, 0.1),
        hdi=((0.6, 0.8), (0.1, 0.3), (0.05, 0.15)),
    )
    prior = {"a": 0.9, "b": 0.08, "c": 0.02}
    assert found.verdicts(prior) == {"a": "below", "b": "above", "c": "above"}
    assert found.verdicts({"a": 0.9})["b"] == "undecided", "of a pool it has no share"


def test_files_of_earlier_versions_are_read(tmp_path: Path) -> None:
    """They also hold what is in the record of the run today."""
    old = json.loads(FULL.to_json())
    old |= {"prior": None, "branches": {"a": [0.1, 0.4]}, "rest": [0.0, 0.2], "notes": None}
    old |= {"predicted_loss": {"weights": {"mean": 3.0, "standard_deviation": None}}}
    path = tmp_path / "mixture.json"
    path.write_text(json.dumps(old))
    assert Mixture.from_json(path) == FULL


def test_caps_keep_the_ratios_of_the_others() -> None:
    free = mixture(a=0.6, b=0.3, c=0.1, d=0.0)
    capped = free.capped({"a": 0.4, "b": 1.0, "c": 1.0, "d": 1.0})
    assert capped.weights == pytest.approx((0.4, 0.45, 0.15, 0.0))
    assert capped.free_weights == free.weights
    # What spills over may fill the next one.
    chain = free.capped({"a": 0.4, "b": 0.4, "c": 1.0, "d": 1.0})
    assert chain.weights == pytest.approx((0.4, 0.4, 0.2, 0.0))
    # Where every domain with weight is full, those without take the rest.
    full = free.capped({"a": 0.4, "b": 0.3, "c": 0.1, "d": 1.0})
    assert full.weights == pytest.approx((0.4, 0.3, 0.1, 0.2))
    same = free.capped(dict.fromkeys("abcd", 1.0))
    assert same.weights == pytest.approx(free.weights)
    with pytest.raises(DataError, match=r"found text for 0\.900 of it"):
        free.capped({"a": 0.4, "b": 0.3, "c": 0.1, "d": 0.1})


def test_caps_give_the_nearest_feasible_mixtures() -> None:
    """Against SciPy's minimum of the KL divergence from the free weights; many at once."""
    rng = np.random.default_rng(0)
    free, most = rng.dirichlet(np.ones(5), 20), np.array([0.1, 0.3, 0.25, 0.5, 0.2])
    found = within_bounds(free, np.zeros(5), most)
    assert (found <= most).all()
    for row, capped in zip(free, found, strict=True):
        best = optimize.minimize(
            lambda w, p: np.sum(w * np.log(w / p)),
            most / most.sum(),
            args=(row,),
            bounds=[(1e-9, cap) for cap in most],
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        )
        np.testing.assert_allclose(capped, best.x, atol=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_bounds_hold_exactly_and_give_the_nearest_mixtures(seed: int) -> None:
    """Both sides at once, 0 and equal bounds among them. Within the bounds a factor is common to
    all weights, above them it is larger, below smaller."""
    rng = np.random.default_rng(seed)
    free = rng.dirichlet(np.full(8, 0.5), 200)
    least = np.where(rng.random(8) < 0.5, rng.random(8) / 8, 0)
    most = np.maximum(least, np.where(rng.random(8) < 0.5, rng.random(8) / 3, 1))
    most[0], least[0], least[1], most[1] = 0.0, 0.0, 1 / 7, 1 / 7
    most[7], least[7] = 1.0, 0.0
    found = within_bounds(free, least, most)
    assert (found <= most).all()
    assert (found >= least).all()
    assert (found[:, 0] == 0).all(), "not a token where none is allowed"
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-14)
    factor = found / free
    inside = (found > least) & (found < most)
    common = np.nanmedian(np.where(inside, factor, np.nan), 1, keepdims=True)
    np.testing.assert_allclose(np.where(inside, factor / common, 1), 1, atol=1e-9)
    room = least < most
    assert (np.where(room & (found == most), factor, 0) <= common * (1 + 1e-9)).all()
    assert (np.where(room & (found == least), factor, np.inf) >= common * (1 - 1e-9)).all()
    again = within_bounds(found, least, most)
    np.testing.assert_allclose(again, found, atol=1e-15)


def test_a_mixture_has_smallest_weights_beside_its_caps() -> None:
    free = mixture(a=0.6, b=0.3, c=0.1, d=0.0)
    found = free.capped({"a": 0.4, "b": 0.4}, {"d": 0.3})
    assert found.weights == pytest.approx((0.4, 0.225, 0.075, 0.3))
    assert found.as_dict()["a"] <= 0.4
    assert found.as_dict()["d"] >= 0.3
    for most, least, message in (
        ({}, {"a": 0.7, "b": 0.4}, "found sum 1.1"),
        ({"a": 0.1}, {"a": 0.2}, "within the largest"),
        (dict.fromkeys("abcd", 0.2499999), {}, "found text for 0.9999996 of it"),
    ):
        with pytest.raises(DataError, match=re.escape(message)):
            free.capped(most, least)


def test_a_mixture_is_held_against_the_data() -> None:
    one = mixture(a=0.5, b=0.5, c=0.0)
    one.check(["a", "b"], "t", "x.json")  # without weight, c is not missed
    with pytest.raises(DataError, match=r"Expected domains of the data \(a\), found 'b' in x.json"):
        one.check(["a"], "t", "x.json")
    with pytest.warns(UserWarning, match="x.json: the weights are shares of the tokens of another"):
        one.check(["a", "b"], "other", "x.json")


def test_total_variation_counts_what_lies_elsewhere() -> None:
    assert total_variation({"a": 0.5, "b": 0.5}, {"a": 0.5, "b": 0.5}) == 0
    assert total_variation({"a": 1.0}, {"b": 1.0}) == 1
    assert total_variation({"a": 0.75, "b": 0.25}, {"b": 0.5, "a": 0.5}) == 0.25


def test_jitter() -> None:
    assert jitter(np.array([[0.5, 0.5], [0.6, 0.4], [0.6, 0.4]])) == pytest.approx(0.1)
    assert jitter(np.array([[0.5, 0.5]])) == 0.0


def test_any_value_of_a_file_may_be_anything(tmp_path: Path) -> None:
    """A valid mixture, or one line that says which value is none; never Python's words."""
    mixture = Mixture(
        names=("law", "web"),
        weights=(0.25, 0.75),
        standard_deviation=(0.1, 0.1),
        hdi=((0.1, 0.3), (0.6, 0.9)),
        free_weights=(0.2, 0.8),
        tokenizer="t",
        data_sha256="d",
        notes=("A note.",),
    )
    path, refused = tmp_path / "mixture.json", []
    for changed in replaced(json.loads(mixture.to_json())):
        path.write_text(json.dumps(changed))
        try:
            found = Mixture.from_json(path)
        except DataError as error:
            refused.append(str(error))
        else:
            assert all(isinstance(note, str) for note in found.notes)
            assert all(type(weight) is float for weight in found.weights)
    assert len(refused) > 150
    require_one_line(refused, path)
    assert not any("Error:" in line or "supported between" in line for line in refused)
