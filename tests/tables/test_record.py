"""What is told of a fit is plain values that come back from a file."""

from __future__ import annotations

import json
from pathlib import Path

from bydore_pyro.files import plain, read_as
from bydore_pyro.tables.record import Details, Distance, Gain, Predicted, Regressed, Scored


def test_details_are_written_and_read(tmp_path: Path) -> None:
    told = Details(
        steps=2.0,
        runs=3.0,
        regressions={"linear": Regressed(regression="linear", rmse=0.1)},
        gain_over_prior=Gain(mean=0.1, sure=False, predicted_loss={"prior": Predicted(mean=3.0)}),
        distance=Distance(far=True, held=False, words="x"),
        predictions=(Scored(mixture="mine", rank=1.0),),
    )
    (tmp_path / "details.json").write_text(json.dumps(plain(told)))
    assert read_as(Details, tmp_path / "details.json") == told
