"""The options of an earlier run, out of its files."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from bydore_pyro.utils.errors import RunFolderError
from bydore_pyro.utils.kept_options import options_of, resumed_options, resumed_run


@dataclass(frozen=True, kw_only=True)
class PartConfig:
    """A part."""

    steps: int = 3
    quick: bool = False


@dataclass(frozen=True, kw_only=True)
class BothOptions:
    """Both."""

    part: PartConfig
    other: PartConfig


@dataclass(frozen=True, kw_only=True)
class OneOptions:
    """One of them."""

    part: PartConfig


def test_a_run_is_resumed_with_its_own_options() -> None:
    assert resumed_run(["--steps", "3"]) is None
    assert resumed_run(["--resume", "runs/a"]) == Path("runs/a")
    assert resumed_run(["--resume=runs/a"]) == Path("runs/a")
    assert resumed_run(["--resume", "runs/lr=3"]) == Path("runs/lr=3")
    assert resumed_run(["--resume=runs/lr=3"]) == Path("runs/lr=3")
    for wrong in (["--resume"], ["--resume="], ["--resume", "a", "--steps", "3"]):
        with pytest.raises(ValueError, match="Expected --resume RUN and no other option"):
            resumed_run(wrong)


def test_a_run_goes_on_with_its_own_commands_options_only(tmp_path: Path) -> None:
    options = BothOptions(part=PartConfig(steps=9), other=PartConfig(quick=True))
    parts = {"name": "case1", **dataclasses.asdict(options)}
    (tmp_path / "config.json").write_text(json.dumps(parts))
    assert resumed_options(tmp_path, "case1", BothOptions) == options
    with pytest.raises(RunFolderError, match=r"Expected a run of case2 in .*: a run of case1"):
        resumed_options(tmp_path, "case2", BothOptions)
    with pytest.raises(RunFolderError, match=r"missing parts \['other'\]"):
        resumed_options(tmp_path, "case1", OneOptions)
    with pytest.raises(RunFolderError, match="Expected a run of case1 in"):
        resumed_options(tmp_path / "none", "case1", BothOptions)
    short = {"part": {"quick": True}, "other": {}}
    kept = options_of(short, BothOptions)
    assert kept == BothOptions(part=PartConfig(quick=True), other=PartConfig())
    parts["part"]["speed"] = 3
    for content, message in (
        (json.dumps(parts), "unexpected keyword argument 'speed'"),
        (json.dumps({**parts, "magic": {}}), r"unknown or missing parts \['magic'\]"),
        *((wrong, "Expected a run of case1") for wrong in ("[]", "3", "{}", '{"name": ["case1"]}')),
    ):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(RunFolderError, match=message):
            resumed_options(tmp_path, "case1", BothOptions)
