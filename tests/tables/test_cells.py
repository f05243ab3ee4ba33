"""The cells of CSV files: separators, decimal marks, percent signs."""

from __future__ import annotations

from pathlib import Path

import pytest

from bydore_pyro.errors import DataError
from bydore_pyro.tables.cells import read_cells

PLAIN = "run,a,loss\nx,0.25,3.5\ny,0.5,1250\n"


def cells(tmp_path: Path, text: str) -> tuple[list[list[str]], tuple[str, ...]]:
    path = tmp_path / "runs.csv"
    path.write_text(text, encoding="utf-8")
    frame, notes = read_cells(path)
    return [[*map(str, frame.columns)], *frame.to_numpy().tolist()], notes


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        (PLAIN, []),
        ("\ufeff" + PLAIN.replace("\n", "\r\n\r\n"), []),
        (PLAIN.replace(",", "\t"), ["cells separated by tabs"]),
        (PLAIN.replace(",", " ; "), ["cells separated by semicolons"]),
        (
            PLAIN.replace(",", ";").replace(".", ","),
            ["cells separated by semicolons", "decimal commas"],
        ),
        ('run,a,loss\nx,"0,25","3,5"\ny,"0,5",1250\n', ["decimal commas"]),
        ("run,a,loss\nx,25%,3.5\ny,50 %,1250\n", ["percent signs, taken as hundredths: a"]),
    ],
)
def test_one_table_written_in_many_ways(tmp_path: Path, text: str, notes: list[str]) -> None:
    rows, told = cells(tmp_path, text)
    assert rows == [["run", "a", "loss"], ["x", "0.25", "3.5"], ["y", "0.5", "1250"]]
    assert [line.split(": ", 1)[1] for line in told] == notes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "CSV file with a header in .*, found an empty one"),
        ("run,a\nx,1,2\n", r"cells in every row of .* as in its header \(2\), found 3 in row 2"),
    ],
)
def test_files_that_are_no_tables_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        cells(tmp_path, text)


def test_a_comma_beside_decimal_points_is_none(tmp_path: Path) -> None:
    rows, notes = cells(tmp_path, 'run,a\nx,"1,250"\ny,0.5\n')
    assert (rows[1], notes) == (["x", "1,250"], ())


def test_a_percent_sign_in_some_cells_of_a_column_stays(tmp_path: Path) -> None:
    rows, notes = cells(tmp_path, "run,a\nx,25%\ny,0.5\n")
    assert (rows[1], notes) == (["x", "25%"], ())
