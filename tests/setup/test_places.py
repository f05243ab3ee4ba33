"""Places are found from any working directory; names of anything else stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from bydore_pyro.setup.places import absolute, mixture_anywhere


def test_what_is_there_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x=y").mkdir()
    monkeypatch.chdir(tmp_path / "x=y")
    for name in ("t.jsonl", "natural", "today.json", "pile"):
        Path(name).touch()
    whole = f"{tmp_path}/x=y"
    assert absolute("t.jsonl") == f"{whole}/t.jsonl"
    assert absolute("hub:pile") == "hub:pile"
    assert absolute("pile:pile") == f"pile:{whole}/pile"
    assert absolute("pile:owner/name") == "pile:owner/name"
    assert absolute("megatron:shards/*") == f"megatron:{whole}/shards/*"
    assert absolute("megatron:s3://bucket/x") == "megatron:s3://bucket/x"
    assert mixture_anywhere("today.json") == f"{whole}/today.json"
    assert mixture_anywhere("natural") == "natural", "no file of that name"
    assert mixture_anywhere("published:doremi") == "published:doremi"
