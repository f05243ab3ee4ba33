"""Which metrics are to fall."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bydore_pyro.baselines.metrics import ALL, metric_shares, with_mean
from bydore_pyro.baselines.tables import RunsTable
from bydore_pyro.utils.errors import DataError

TABLE = RunsTable(
    runs=("r", "s"),
    domains=("a", "b"),
    weights=np.array([[0.5, 0.5], [0.2, 0.8]]),
    targets=("exam:rc::x", "code_1", "code_2", "a=b"),
    losses=np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]),
)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["code_1"], {"code_1": 1.0}),
        (["a=b"], {"a=b": 1.0}),
        (["code_*"], {"code_1": 0.5, "code_2": 0.5}),
        (["exam:rc::x=2", "code_*=1"], {"exam:rc::x": 0.5, "code_1": 0.25, "code_2": 0.25}),
        (["code_*", "code_1=0", "code_2=2"], {"code_1": 0.25, "code_2": 0.75}),
        ([ALL], dict.fromkeys(TABLE.targets, 0.25)),
    ],
)
def test_names_patterns_and_weights(wanted: list[str], expected: dict[str, float]) -> None:
    assert metric_shares(TABLE, wanted) == pytest.approx(expected)


def test_weights_may_stand_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "weights.json"
    path.write_text('{"code_1": 3, "exam:rc::x": 1}')
    assert metric_shares(TABLE, [str(path)]) == {"code_1": 0.75, "exam:rc::x": 0.25}
    path.write_text('{"essay": 3}')
    with pytest.raises(DataError, match="found 'essay'"):
        metric_shares(TABLE, [str(path)])


def test_the_mean_is_a_target_more() -> None:
    table, name = with_mean(TABLE, {"code_1": 0.25, "code_2": 0.75})
    assert name == "weighted mean of 2 metrics"
    np.testing.assert_allclose(table.losses_of(name), [2.75, 6.75])
    assert with_mean(TABLE, {"code_1": 1.0}) == (TABLE, "code_1")
    with pytest.raises(DataError, match="no metric named 'weighted mean of 2 metrics'"):
        with_mean(table, {"code_1": 0.25, "code_2": 0.75})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("essay", "Expected one of the targets .*, found 'essay'"),
        ("code_1=x", "Expected NAME=WEIGHT with a weight >= 0, found 'code_1=x'"),
        ("code_1=-1", "Expected NAME=WEIGHT with a weight >= 0, found 'code_1=-1'"),
        ("code_1=nan", "Expected NAME=WEIGHT with a weight >= 0, found 'code_1=nan'"),
        ("code_1=0", "Expected a metric with a weight > 0, found none"),
    ],
)
def test_mistakes(wrong: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        metric_shares(TABLE, [wrong])
