"""The index of a token store: there, finished, and with counts where counts belong."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from bydore_pyro.data.index import FORMAT, INDEX, SPLITS, building_place, read_index, sha256_of
from bydore_pyro.errors import DataError


def test_an_index_is_what_its_file_says(store: Path) -> None:
    index = read_index(store)
    assert index == json.loads((store / INDEX).read_text())
    assert index["format"] == FORMAT
    assert {*index["domains"]["a"]} >= {*SPLITS}
    parts = [index[part] for part in ("domains", "tokenizer_sha256", "vocabulary", "dtype")]
    text = json.dumps(parts, sort_keys=True)
    assert sha256_of(*parts) == index["sha256"] == hashlib.sha256(text.encode()).hexdigest()


def test_a_store_that_is_not_there_or_not_finished_is_one_line(store: Path, tmp_path: Path) -> None:
    place = tmp_path / "store"
    for make, found in (
        (tmp_path, "no such folder$"),
        (place, "a folder without one$"),
        (building_place(place), "not finished: the same bydore prepare continues it$"),
    ):
        make.mkdir(exist_ok=True)
        with pytest.raises(DataError, match=f"index of a token store in {place}, found .*{found}"):
            read_index(place)
    shutil.copy(store / INDEX, place)
    with pytest.raises(DataError, match=r"tokenizer/tokenizer\.json"):
        read_index(place)
