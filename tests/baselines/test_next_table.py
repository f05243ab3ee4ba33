"""Proposed mixtures as rows of a table: read back as the runs that they continue."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bydore_pyro.baselines.next_table import next_table
from bydore_pyro.baselines.runs_table import read_runs, table_columns

MIXTURES = np.array([[0.1, 0.2, 0.7], [1 / 3, 2 / 3, 0.0]])


@pytest.mark.parametrize(
    ("name", "header", "row", "losses", "split", "names"),
    [
        ("ratios.csv", "name,run,web,law,code,size", "x,{},0.5,0.25,0.25,big",
         "metrics.csv", None, ("a", "next-1", "next-3", "next-4")),
        ("train_mixture_1m.csv", "index,train_web,train_law,train_code", "{},0.5,0.25,0.25",
         "train_pile_loss_1m.csv", "train", ("7", "9", "10", "11")),
    ],
)  # fmt: skip
def test_its_rows_are_read_as_further_runs(
    name: str, header: str, row: str, losses: str, split: str | None, names: tuple[str, ...],
    tmp_path: Path,
) -> None:  # fmt: skip
    table, key = tmp_path / name, "run" if split is None else "index"
    table.write_text("\n".join([header, *(row.format(run) for run in names[:2])]) + "\n")
    measured = tmp_path / losses
    measured.write_text(f"{key},metric/exam\n" + "".join(f"{run},3.5\n" for run in names[:2]))
    assert table_columns(tmp_path, split)[0].runs == list(names[:2])
    # In another order than the table's: law, code, web.
    text = next_table(tmp_path, split, ("law", "code", "web"), MIXTURES)
    first, rows = text.split("\n", 1)
    assert first == header
    table.write_text(table.read_text() + rows)
    measured.write_text(measured.read_text() + "".join(f"{run},3\n" for run in names[2:]))
    read = read_runs(tmp_path, split)
    assert read.runs == names
    assert read.domains == ("web", "law", "code")
    np.testing.assert_allclose(read.weights[2:], MIXTURES[:, [2, 0, 1]], rtol=1e-15)
