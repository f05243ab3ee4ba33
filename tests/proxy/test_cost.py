"""The cost counter."""

from __future__ import annotations

import json

import pytest

from bydore_pyro.proxy.cost import Cost


def test_parts_add_up() -> None:
    cost = Cost()
    cost.count("train", 10, 100.0)
    cost.count("train", 5, 50.0)
    cost.count("signals", 2, 4.0)
    with cost.part("train"):
        pass
    report = cost.report()
    assert report["tokens"] == 17
    assert report["flops"] == 154.0
    assert report["parts"]["train"]["tokens"] == 15
    assert report["parts"]["signals"] == {"tokens": 2, "flops": 4.0, "seconds": 0.0}
    assert json.loads(json.dumps(report)) == report


def test_what_another_counter_reported_is_added_under_a_prefix() -> None:
    other, cost = Cost(), Cost()
    other.count("train", 3, 30.0)
    other.seconds["train"] = 0.5
    cost.count("verify_train", 1, 10.0)
    for _ in range(2):
        cost.add(other.report()["parts"], prefix="verify_")
    assert cost.report()["parts"] == {"verify_train": {"tokens": 7, "flops": 70.0, "seconds": 1.0}}


def test_time_is_counted_also_when_the_part_fails() -> None:
    cost = Cost()
    with pytest.raises(RuntimeError), cost.part("train"):
        raise RuntimeError
    assert cost.seconds["train"] > 0
