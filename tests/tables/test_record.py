"""The record of a fit is plain values that come back from a file."""

from __future__ import annotations

import json
from pathlib import Path

from bydore_pyro.answer import Difference, Expected
from bydore_pyro.files import plain, read_as
from bydore_pyro.tables.record import LeftOut, MetricRecord, Nearness, Scored, TableRecord
from bydore_pyro.tables.tables import Asked

METRIC = MetricRecord(
    left_out=LeftOut(rmse=0.1),
    expected={"answer": Expected(loss=3.0, low=2.9, high=3.1)},
    differences={"prior": Difference(loss=-0.2, low=-0.3, high=-0.1, better=0.99)},
)


def test_a_record_is_written_and_read(tmp_path: Path) -> None:
    record = TableRecord(
        runs=3.0,
        asked={"loss": Asked(direction="minimised", best=3.0, run="a")},
        mean=METRIC,
        metrics={"loss": METRIC},
        nearness=Nearness(run="a", distance=0.3, reach=0.2, held=("web",)),
        predictions=(Scored(mixture="mine", rank=1.0),),
    )
    (tmp_path / "record.json").write_text(json.dumps(plain(record)))
    assert read_as(TableRecord, tmp_path / "record.json") == record
    assert record.nearness.far
    assert not Nearness(distance=0.2, reach=0.2).far
