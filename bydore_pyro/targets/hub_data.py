"""Data of benchmarks: files with the columns of the hub's data sets, one or more of each split."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from bydore_pyro import files
from bydore_pyro.errors import expecting, require

# SPLIT.jsonl, SPLIT.parquet and SPLIT-00000-of-00001.parquet.
SPLIT_FILE = re.compile(r"(.+?)(-\d+-of-\d+(?=\.parquet$))?\.(jsonl|parquet)")


def splits_in(folder: Path) -> list[str]:
    """Returns the splits of which a folder has files, sorted."""
    names = (SPLIT_FILE.fullmatch(path.name) for path in folder.iterdir())
    return sorted({name[1] for name in names if name})


def read_split(path: Path, expected: str) -> Any:
    """Reads rows as they are; the readers of `datasets` change dates, and call a server.

    Args:
        path: The file without its ending: `.jsonl`, `.parquet` or `-00000-of-00001.parquet`.
        expected: Begins the message, such as "Expected data of piqa".

    Returns:
        A `datasets.Dataset` in memory.

    Raises:
        DataError: When there is no such file, or not rows of values; names the line.
    """
    datasets, parquet = require("datasets", "cli"), require("pyarrow.parquet", "cli")
    with expecting(f"{expected} in {path}, found:"):
        in_parts = path.parent.glob(f"{path.name}-*-of-*.parquet")
        if tables := [*path.parent.glob(f"{path.name}.parquet"), *sorted(in_parts)]:
            rows = [row for table in tables for row in parquet.read_table(table).to_pylist()]
            return datasets.Dataset.from_list(rows)
        rows = []
        for number, line in enumerate(path.with_suffix(".jsonl").read_bytes().splitlines(), 1):
            with expecting(f"{expected} in {path}.jsonl, line {number}, found:"):
                rows.append({**files.plain_json(line.decode())})
        return datasets.Dataset.from_list(rows)
