"""What a method found is plain values that come back from a file (`tests/runs/test_record.py`)."""

from __future__ import annotations

import json
from pathlib import Path

from bydore_pyro.methods.fit import Details, Fit
from bydore_pyro.mixture.mixture import Mixture
from bydore_pyro.runs.record import plain, read_as
from bydore_pyro.tables.record import Distance, Gain, Regressed


def test_details_are_written_and_read(tmp_path: Path) -> None:
    details = Details(
        steps=2.0,
        runs=3.0,
        regressions={"linear": Regressed(regression="linear", rmse=0.1)},
        gain_over_prior=Gain(mean=0.1, sure=False),
        distance=Distance(far=True, held=False, words="x"),
    )
    found = Fit(mixture=Mixture(names=("a",), weights=(1.0,)), details=details)
    (tmp_path / "details.json").write_text(json.dumps(plain(found.details)))
    assert read_as(Details, tmp_path / "details.json") == details
