"""Where runs begin, and whose options one goes on with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bydore_pyro.cli.fit import FitOptions
from bydore_pyro.cli.search import SearchOptions
from bydore_pyro.runs.options import SMOKE
from bydore_pyro.runs.resuming import begin_run, options_or_resumed, resumed_options
from bydore_pyro.utils.command_line import parse_options
from bydore_pyro.utils.errors import RunFolderError


def begun(folder: Path, name: str, **more: object) -> SearchOptions:
    """Writes the config.json of a run that has begun."""
    options = parse_options(["--seed", "7", "--out", str(folder)], name, "", SearchOptions)
    folder.mkdir()
    content = {"name": name, **options.as_dict(), **more}
    (folder / "config.json").write_text(json.dumps(content))
    return options


def test_a_command_line_is_options_or_a_run_that_goes_on(tmp_path: Path) -> None:
    given = ["--smoke", "--validation", "a", "--out", str(tmp_path / "new")]
    options, resume = options_or_resumed(given, "bydore search", "", SearchOptions)
    assert (options.search.steps, resume) == (SMOKE["steps"], None)
    fewer, _ = options_or_resumed(given, "x", "", SearchOptions, {"steps": 9, "guide_warmup": 1})
    assert fewer.search.steps == 9
    before = begun(tmp_path / "run", "search")
    named = ["--resume", str(tmp_path / "run")]
    again, resume = options_or_resumed(named, "search", "", SearchOptions)
    assert (again, resume) == (before, tmp_path / "run")


def test_a_run_goes_on_under_its_own_command_only(tmp_path: Path) -> None:
    options = begun(tmp_path / "run", "case1")
    assert resumed_options(tmp_path / "run", "case1", SearchOptions) == options
    with pytest.raises(RunFolderError, match=r"Expected a run of case2 in .*: a run of case1"):
        resumed_options(tmp_path / "run", "case2", SearchOptions)
    with pytest.raises(RunFolderError, match="found none: Expected the options of a search"):
        resumed_options(tmp_path / "run", "case1", FitOptions)
    with pytest.raises(RunFolderError, match="Expected a run of case1 in"):
        resumed_options(tmp_path, "case1", SearchOptions)
    begun(tmp_path / "other", "case1", magic={"more": 3})
    with pytest.raises(RunFolderError, match=r"unknown parts \['magic'\]"):
        resumed_options(tmp_path / "other", "case1", SearchOptions)
    for content in ("[]", "3", "{}", '{"name": ["case1"]}'):
        (tmp_path / "run" / "config.json").write_text(content)
        with pytest.raises(RunFolderError, match="Expected a run of case1"):
            resumed_options(tmp_path / "run", "case1", SearchOptions)


def test_a_run_begins_in_a_folder_of_its_own(tmp_path: Path) -> None:
    options = begun(tmp_path / "run", "search")
    with pytest.raises(RunFolderError, match="found a run in"):
        begin_run(options, "search", None)
    assert begin_run(options, "search", tmp_path / "run").resumed
    new = parse_options(["--out", str(tmp_path / "new")], "search", "", SearchOptions)
    folder = begin_run(new, "search", None)
    assert folder.path == tmp_path / "new"
    del folder
    assert not (tmp_path / "new").exists(), "nothing was written to it"
