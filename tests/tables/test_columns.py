"""Which columns of a table are taken as weights, which as metrics, and which table is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from bydore_pyro.errors import DataError
from bydore_pyro.tables.columns import Columns, classified, numbers_of_cells

RUNS, PLACE = 12, Path("runs.csv")
RNG = np.random.default_rng(0)
DOMAINS = ("arxiv", "code", "web", "wiki")
FIRST, SECOND = RNG.dirichlet(np.ones(4), (2, RUNS))
LOSS = 3 + RNG.uniform(0, 1, RUNS)


def frame_of(*parts: tuple[Any, Any]) -> pandas.DataFrame:
    """A table of names with values: of one column, or of several ``(N, C)``."""
    columns: dict[str, list[str]] = {"run": [f"r{n}" for n in range(RUNS)]}
    for names, values in parts:
        if isinstance(names, str):
            values = np.broadcast_to(np.asarray(values), RUNS)
            columns[names] = [str(value) for value in values]
        else:
            for name, column in zip(names, np.asarray(values).T, strict=True):
                columns[name] = [repr(float(value)) for value in column]
    return pandas.DataFrame(columns, dtype=object)


WEIGHTS, METRIC = (DOMAINS, FIRST), ("loss", LOSS)


@pytest.mark.parametrize(
    "parts",
    [
        (WEIGHTS, METRIC),
        (("seed", 1), ("lr", 3e-4), ("step", 500), WEIGHTS, ("_runtime", 0.5), METRIC),
        (WEIGHTS, ("total", 1), ("check", 1), METRIC),
        (("dose", 0.003), WEIGHTS, METRIC),
        (WEIGHTS, (tuple(f"epochs_{n}" for n in DOMAINS), FIRST * [3, 1, 2, 5]), METRIC),
        (WEIGHTS, ("acc", FIRST[:, 0]), ("error", 1 - FIRST[:, 0]), METRIC),
        (("val_loss_a", LOSS), WEIGHTS, ("train_loss", LOSS), ("loss__MIN", LOSS), METRIC),
    ],
)
def test_the_weights_are_those_that_sum_to_1_wherever_they_stand(parts: Any) -> None:
    found = classified(frame_of(*parts), PLACE, "both")
    assert (found.weights, found.unit, found.unused) == (DOMAINS, 1, ())
    assert "loss" in found.metrics
    known = {*found.weights, *found.metrics, *found.ignored}
    assert known == {*frame_of(*parts).columns}, "every column is accounted for"
    never = {"seed", "lr", "wd", "step", "_runtime", "train_loss", "loss__MIN", "total"}
    assert not never & {*found.metrics}


@pytest.mark.parametrize("place", [0, 2, 4])
def test_a_domain_that_no_run_holds_is_a_domain(place: int) -> None:
    names = [*DOMAINS[:place], "held", *DOMAINS[place:]]
    weights = np.insert(FIRST, place, 0, axis=1)
    found = classified(frame_of((names, weights), METRIC), PLACE, "both")
    assert (found.weights, found.metrics) == (tuple(names), ("loss",))
    assert found.unused == ("held",)
    assert found.lines()[0].endswith("0 in all runs: held")


@pytest.mark.parametrize(("unit", "words"), [(100, "in percent"), (1e9, "counts of tokens")])
def test_weights_in_other_units(unit: float, words: str) -> None:
    values = (FIRST * unit).round() if unit > 100 else FIRST * unit
    found = classified(frame_of((DOMAINS, values), METRIC), PLACE, "both")
    assert (found.weights, found.metrics) == (DOMAINS, ("loss",))
    assert found.unit == pytest.approx(unit, rel=1e-6)
    assert found.lines()[0] == f"weights, {words}: {', '.join(DOMAINS)}"


TWO_MIXTURES = {
    "phases": ([f"phase_{p}_{n}" for p in (0, 1) for n in DOMAINS], [FIRST, SECOND]),
    "no names": ([*DOMAINS, "a", "b", "c", "d"], [FIRST, SECOND]),
    "percent": ([*DOMAINS, *(f"{n}_late" for n in DOMAINS)], [FIRST, 100 * SECOND]),
    "parts": ([f"phase_{p}_{n}" for p in (0, 1) for n in DOMAINS], [0.8 * FIRST, 0.2 * SECOND]),
    "one end for all": (
        [f"{p}/{n}" for p in ("first", "end") for n in DOMAINS],
        [FIRST, np.tile(SECOND[:1], (RUNS, 1))],
    ),
    "a fixed end on two": (
        [*(f"phase_0_{n}" for n in DOMAINS), "phase_1_code", "phase_1_web"],
        [FIRST, np.tile([0.4, 0.6], (RUNS, 1))],
    ),
    "rounded": ([f"{p}_{n}" for p in "ab" for n in DOMAINS], [FIRST.round(3), SECOND.round(3)]),
}


@pytest.mark.parametrize("role", ["both", "weights"])
@pytest.mark.parametrize("kind", TWO_MIXTURES)
def test_two_mixtures_a_run_are_refused(kind: str, role: Any) -> None:
    names, mixtures = TWO_MIXTURES[kind]
    weights = np.concatenate(mixtures, 1)
    frame = frame_of((names, weights), *([METRIC] if role == "both" else []))
    with pytest.raises(DataError, match=r"one mixture a run in .*weighted by their lengths"):
        classified(frame, PLACE, role)


def test_two_mixtures_that_are_interleaved_are_no_mixture() -> None:
    names = [f"{name}_{part}" for name in DOMAINS for part in ("first", "second")]
    weights = np.stack([FIRST, SECOND], 2).reshape(RUNS, 8)
    with pytest.raises(DataError, match="weights, which sum to 1"):
        classified(frame_of((names, weights), METRIC), PLACE, "both")


def test_a_second_mixture_among_the_metrics_is_refused() -> None:
    late = [f"late_{n}" for n in DOMAINS]
    with pytest.raises(DataError, match=r"Expected metrics in .*, found columns that sum to 1 in"):
        classified(frame_of((late, SECOND), METRIC), PLACE, "metrics")
    found = classified(frame_of(METRIC, ("mmlu", 40 + LOSS)), PLACE, "metrics")
    assert (found.weights, found.metrics) == ((), ("loss", "mmlu"))


def test_one_phase_is_the_run_and_is_said() -> None:
    names = [f"phase_0_{n}" for n in DOMAINS]
    found = classified(frame_of((names, FIRST), METRIC), PLACE, "both")
    assert found.weights == tuple(names)
    assert found.lines()[0].startswith("weights, of phase 0, taken for the whole run: ")


def test_metrics_of_several_stages_are_metrics() -> None:
    stages = (("stage_1_loss", LOSS), ("stage_2_loss", LOSS + 1))
    found = classified(frame_of(WEIGHTS, *stages), PLACE, "both")
    assert (found.weights, found.metrics) == (DOMAINS, ("stage_1_loss", "stage_2_loss"))


def test_where_rounding_hides_which_columns_sum_to_1_names_decide() -> None:
    rounded, small = FIRST.round(3), 0.0002 * LOSS
    frame = frame_of((DOMAINS, rounded), ("penalty", small), METRIC)
    with pytest.raises(DataError, match="with and without penalty: begin the names of the weights"):
        classified(frame, PLACE, "both")
    frame = frame.rename(columns={name: f"weights/{name}" for name in DOMAINS})
    found = classified(frame, PLACE, "both")
    assert found.weights == tuple(f"weights/{name}" for name in DOMAINS)
    assert found.metrics == ("penalty", "loss")
    found = classified(frame.assign(penalty="0"), PLACE, "both")
    assert (found.metrics, found.unused) == (("penalty", "loss"), ())


def test_a_file_of_weights_has_no_other_columns_but_those_set_apart() -> None:
    frame = frame_of(("step", 5), (DOMAINS, FIRST), ("note", "x"), ("dose", 0.5))
    found = classified(frame, PLACE, "weights")
    assert found.weights == DOMAINS
    assert found.ignored == {
        "run": "names the runs",
        "step": "a size, a length or a model",
        "note": "text",
        "dose": "beside the weights",
    }
    times = [f"{name}_times" for name in DOMAINS]  # a name alone makes no domain another thing
    assert classified(frame_of((times, FIRST)), PLACE, "weights").weights == tuple(times)


def test_columns_without_weights_are_refused() -> None:
    with pytest.raises(DataError, match=r"weights, which sum to 1 \(or 100\) .* among a, loss"):
        classified(frame_of(("a", LOSS), METRIC), PLACE, "both")


def test_the_lines_account_for_all_columns() -> None:
    weights, metrics = (
        Columns(weights=("x", "y"), ignored={"": "no name"}),
        Columns(metrics=("loss",), ignored={"seed": "a setting", "lr": "a setting"}),
    )
    assert weights.beside(metrics).lines() == [
        "weights: x, y",
        "metrics: loss",
        "neither: (no name) (no name); seed, lr (a setting)",
    ]


def test_cells_that_are_no_numbers_are_nan() -> None:
    frame = pandas.DataFrame({"a": ["1", "x", "inf"], "b": ["", "2e3", "-1"]}, dtype=object)
    np.testing.assert_array_equal(
        numbers_of_cells(frame), [[1, np.nan], [np.nan, 2000], [np.nan, -1]]
    )


def test_declared_weights_that_do_not_sum_to_1_are_weights_nevertheless() -> None:
    """So that the message can name the run."""
    names = tuple(f"weights/{name}" for name in DOMAINS[:3])
    assert classified(frame_of((names, FIRST[:, :3]), METRIC), PLACE, "both").weights == names
    lacking = np.where(np.arange(RUNS)[:, None] % 3 == np.arange(3), np.nan, FIRST[:, :3])
    assert classified(frame_of((names, lacking), METRIC), PLACE, "both").weights == names
    with pytest.raises(DataError, match="to see which run lacks some, begin the names of the"):
        classified(frame_of((DOMAINS[:3], FIRST[:, :3]), METRIC), PLACE, "both")
    with pytest.raises(DataError, match=r"among loss \(text instead of numbers: web, code\); to"):
        classified(frame_of(("web", "1,250"), ("code", "3,750"), METRIC), PLACE, "both")
