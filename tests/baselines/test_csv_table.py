"""CSV tables as text: names of the runs, and numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from bydore_pyro.baselines.csv_table import CsvTable, require_once, some
from bydore_pyro.utils.errors import DataError


def test_the_first_key_that_is_there_names_the_runs(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("run_id,name,a,b\nx,one,1,2\ny,two,3,\n")
    table = CsvTable(path, "run", "run_id")
    assert table.runs == ["x", "y"]
    assert table.numeric() == ["a", "b"]
    assert table.numbers(["a"]).tolist() == [[1.0], [3.0]]
    with pytest.raises(DataError, match="run 'y', column 'b', found ''"):
        table.numbers(["b"])
    with pytest.raises(DataError, match=r"column 'run' or 'index' in .*found run_id, name, a, b"):
        CsvTable(path, "run", "index")
    path.write_text("run,a\nx,1\n,2\n")
    with pytest.raises(DataError, match=r"a name in column 'run' of .*t\.csv, found none in row 2"):
        CsvTable(path, "run")


def test_names_in_messages() -> None:
    assert some("abc", most=2) == "a, b and 1 more"
    require_once(["a", "b"], Path("t"), "run")
    with pytest.raises(DataError, match="every run once in t, found 'a' twice"):
        require_once(["a", "a"], Path("t"), "run")
