"""Where runs begin, and whose options one goes on with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bydore_pyro.cli.search import SearchOptions
from bydore_pyro.runs.options import SMOKE
from bydore_pyro.runs.resuming import begin_run, options_or_resumed
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
