"""Published figures: complete, as printed, and told where the print is wrong."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from bydore_pyro.mixture import published
from bydore_pyro.mixture.published import (
    PILE_COLUMN,
    PILE_DOMAINS,
    PILE_WITHDRAWN,
    average_score,
    benchmark_scores,
    pile_weights,
)

TABLES = Path(__file__).parents[3] / "shared" / "tables"
FOLDER = Path(published.__file__).parent
METHODS = {
    1: ["Human", "Pile-CC", "DoReMi", "RegMix", "AutoScale", "MDE", "ByDoRe"],
    2: ["Human", "DoReMi", "RegMix", "AutoScale", "MDE", "ByDoRe"],
}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_there_are_seventeen_domains_and_five() -> None:
    assert len({*PILE_DOMAINS, *PILE_WITHDRAWN}) == 22
    assert PILE_COLUMN == "meta.pile_set_name"


def test_weights_are_those_of_the_seventeen_domains_and_not_normalised() -> None:
    weights = pile_weights()
    sums = {"human": 0.7868, "doremi": 0.8148, "regmix": 1.0, "token_share": 1.0}
    assert list(weights) == list(sums)
    for column, total in sums.items():
        assert {*weights[column]} == {*PILE_DOMAINS.values()}
        assert sum(weights[column].values()) == pytest.approx(total, abs=1e-9)
        assert all(weight > 0 for weight in weights[column].values())


@pytest.mark.parametrize("case", [1, 2])
def test_scores_are_of_thirteen_tasks(case: int) -> None:
    scores = benchmark_scores(case)
    assert list(scores) == METHODS[case]
    tasks = list(scores["Human"])
    assert len(tasks) == 13
    assert all(list(of_method) == tasks for of_method in scores.values())
    assert not {task for task in tasks if "vg" in task or "FLOP" in task}
    assert all(0 < s < 100 for of_method in scores.values() for s in of_method.values())


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="case 1 or 2, actual 3"):
        benchmark_scores(3)
    with pytest.raises(ValueError, match="at least one task"):
        average_score({})
