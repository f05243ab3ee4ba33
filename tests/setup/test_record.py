"""The record of a run: what is written is read, and what is damaged is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from report_runs import matching_of, metrics_of
from trial_runs import trials_of

from bydore_pyro.core.importance import GuideFit
from bydore_pyro.core.posterior import Convergence
from bydore_pyro.errors import DataError
from bydore_pyro.files import plain, read_as
from bydore_pyro.measure.check import ResidualCheck
from bydore_pyro.mixture.tree import Sums
from bydore_pyro.proxy.measured_model import Part, Spent
from bydore_pyro.setup.record import (
    Learning,
    MatchingRecord,
    MethodDetails,
    Metrics,
    ModelRecord,
    ModelsRecord,
    RoundRecord,
)

SHARES = {"a": 0.25, "b": 0.75}
WHOLE = Metrics(
    method="regmix",
    seed=1.0,
    search=Spent(
        tokens=2.0,
        flops=3.0,
        seconds=0.5,
        parts={"train": Part(tokens=1.0, flops=3.0, seconds=0.5)},
    ),
    learning=Learning(validation_loss=3.0, warning="it has not"),
    matching=MatchingRecord(
        unexplained=0.1,
        rounds=(RoundRecord(step=5.0, weights=SHARES, alone=SHARES),),
        draws=Convergence(settled=True, rhat=1.01),
        check=ResidualCheck(
            slopes=SHARES, errors=SHARES, failing=("b",), sequences={"a": 4.0, "b": 0.0}
        ),
    ),
    trials=trials_of(2.0, 3.0),
    guide_fit=GuideFit(khat=math.inf, effective_draws=3.5, draws=9),
    models=ModelsRecord(
        read=(ModelRecord(folder="/m/base", sha256="0a"), ModelRecord(folder="/m/x", sha256="1b")),
        equations=1,
        domains=2,
        directions=1,
        alike=(("a", "b"),),
    ),
    sums=Sums(branches={"a": (0.1, 0.4)}, rest=(0.0, 0.2)),
    runs=3.0,
    versions={"python": "3.11"},
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "metrics.json"


def read(file: Path, content: Any) -> Metrics:
    file.write_text(json.dumps(content))
    return read_as(Metrics, file)


def test_what_is_written_is_read(file: Path) -> None:
    assert plain(WHOLE)["guide_fit"] == {
        "khat": "infinite",
        "effective_draws": 3.5,
        "draws": 9,
    }
    assert read(file, plain(WHOLE)) == WHOLE
    assert plain(Metrics()) == {}
    assert plain(MethodDetails(runs=3.0)) == {"runs": 3.0}


def test_files_of_searches_are_read(file: Path) -> None:
    found = read(file, metrics_of(matching=matching_of(), more=3, seed=None))
    assert found.search == TypeAdapter(Spent).validate_python(metrics_of()["search"])
    assert found.matching.rounds[2].validation_loss == 3.0
    assert (found.seed, found.commit) == (None, None)


DAMAGED: list[tuple[dict[str, Any], str]] = [
    ({"search": 3}, "Expected an object as 'search' in .*metrics.json, found 3"),
    ({"search": {"tokens": 3}}, "Field required as 'search.flops'"),
    ({"seed": True}, "a valid number as 'seed' in .*, found True"),
]


@pytest.mark.parametrize(("content", "told"), DAMAGED)
def test_what_is_of_another_kind_is_refused(content: dict[str, Any], told: str, file: Path) -> None:
    with pytest.raises(DataError, match=told):
        read(file, content)


def test_what_is_no_record_is_refused(file: Path) -> None:
    with pytest.raises(DataError, match=r"Expected an object in .*metrics.json"):
        read(file, [3])
    file.write_text('{"seed": ')
    with pytest.raises(
        DataError, match=r"^Expected a valid record, found: Invalid JSON: EOF .* in .*metrics.json$"
    ):
        read_as(Metrics, file)
    with pytest.raises(FileNotFoundError):
        read_as(Metrics, file.with_name("none"))
