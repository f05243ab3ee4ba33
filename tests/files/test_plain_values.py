"""Plain values in files: names once, limits, hashes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bydore_pyro.errors import DataError
from bydore_pyro.files.plain_values import (
    content_hash,
    plain_json,
    read_json,
    readable,
    unique_keys,
    yaml_or_json,
)


def test_json_and_yaml_name_nothing_twice() -> None:
    assert yaml_or_json('{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}
    assert yaml_or_json("a:\n- 1\n- b:\n") == {"a": [1, {"b": None}]}
    for text in ('{"a": 1, "a": 2}', "x: [{a: 1, a: 2}]"):
        with pytest.raises(DataError, match="found 'a' twice"):
            yaml_or_json(text)
    for text in (
        "{",
        "a: !!python/object/apply:os.getcwd []",
        "[" * 100_000,
        "a: b: c",
        "? [a]\n: 1",
    ):
        with pytest.raises(ValueError, match=r"\S"):
            yaml_or_json(text)
    assert unique_keys([("a", 1)]) == {"a": 1}


def test_names_of_other_bytes_become_text() -> None:
    assert readable(os.fsdecode(b"caf\xe9/\xc3\xa9.txt")) == "caf\\xe9/é.txt"


def test_the_hash_of_plain_values() -> None:
    content = {"a": [1, 0.1 + 0.2, None, "ü"], "b": float("nan")}
    assert content_hash(content) == content_hash(json.loads(json.dumps(content)))
    assert content_hash(content) != content_hash({**content, "a": []})


def test_json_is_read_by_one_function(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": [1]}')
    assert read_json(path) == plain_json('{"a": [1]}') == {"a": [1]}
    for text, message in (
        ("[" * 100_000, "one that is nested too deeply"),
        ('{"a": 1\n,}', r"one that breaks at line 2, column 2 \("),
        ("{", r"one that breaks at column 2 \("),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_json(path)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(OSError, match="no file: "):
        read_json(path)
