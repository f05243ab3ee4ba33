"""The experiment on the drift of the law of losses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from processes import Run


@pytest.mark.slow
def test_in_smoke_size(tmp_path: Path, cache: Path, run_here: Run) -> None:
    """A gain is by the later law, of whose answers none is worse than the earlier law's."""
    few = ("--domains", "python", "licences", "docstrings")
    run = tmp_path / "run"
    done = run_here("drift", "--smoke", "--out", str(run), "--cache", str(cache), *few)
    assert done.returncode == 0, done.stderr
    found = json.loads((run / "results.json").read_text())
    (pairs,) = found["pairs"].values()
    assert [(round(p["from"]), round(p["to"])) for p in pairs] == [
        (2048, 4096),
        (2048, 8192),
        (4096, 8192),
    ]
    for one in pairs:
        assert -1 <= one["kept"] <= 1
        assert one["own"] <= min(one["answer"], one["composition"], 0) + 1e-6
    again = run_here("drift", "--resume", str(run))
    assert again.returncode == 0, again.stderr
    assert "training loss" not in again.stderr
