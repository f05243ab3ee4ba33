"""What a user can correct is one line: what is missing, and a lack of memory or of room on disk."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from processes import forked
from pydantic import TypeAdapter, ValidationError

from bydore_pyro.command_line.command_line import one_line_errors
from bydore_pyro.errors import (
    DataError,
    RunFolderError,
    distinct,
    expecting,
    fault_of,
    is_out_of_memory,
    listed,
    one_line,
    require,
)
from bydore_pyro.files.trees import write_tree
from bydore_pyro.files.writing import appearing_folder


def test_numbers_that_differ_look_different() -> None:
    assert distinct(1.5, 2.25) == ("1.5", "2.25")
    assert distinct(1.5, 1.5000004) == ("1.5", "1.5000004")
    assert distinct(1.0, 0.9999996, kind="f") == ("1.0000000", "0.9999996")
    assert distinct(4.0, 4.0 * (1 + 2e-16))[0] != distinct(4.0, 4.0 * (1 + 2e-16))[1]


def test_a_missing_package_tells_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert require("json.decoder", "report").JSONDecoder
    for module, package in (("sklearn.linear_model", "scikit-learn"), ("botorch", "botorch")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(DataError, match=rf"package {package}, found none .*pyro\[some\]'$"):
            require(module, "some")


@pytest.mark.parametrize(
    "error", [MemoryError("no 5 TB"), torch.OutOfMemoryError("no 5 TB"), None], ids=str
)
def test_memory_that_is_not_there(
    error: Exception | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bug of ours stays a traceback."""
    with pytest.raises(SystemExit) as exit_, one_line_errors("test"):
        if error is None:
            np.empty(10**15)
        else:
            raise error
    assert exit_.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith("test: error: Expected enough memory, found too little: ")
    assert told.count("\n") == 1
    with pytest.raises(RuntimeError, match="a bug"), one_line_errors("test"):
        raise RuntimeError("a bug")


def test_a_librarys_pages_are_one_line() -> None:
    assert len(one_line("no\n\n  such " + "word " * 100)) == 200
    assert one_line("no\n\n  such word", None) == "no such word"


def test_many_names_are_told_by_the_first() -> None:
    assert listed("abc", 3) == "a, b, c"
    assert listed("abcde", 3) == "a, b, c and 2 more"


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (ValueError("a line\n that breaks"), "a line that breaks"),
        (KeyError("name"), "KeyError: 'name'"),
        (FileNotFoundError(2, "No such file", "/x"), "[Errno 2] No such file: '/x'"),
    ],
)
def test_an_error_becomes_what_was_expected(error: Exception, found: str) -> None:
    with pytest.raises(DataError) as raised, expecting("Expected a table, found x.csv:"):
        raise error
    assert str(raised.value) == f"Expected a table, found x.csv: {found}"
    assert raised.value.__cause__ is error


@pytest.mark.parametrize("error", [DataError("ours"), MemoryError(), torch.OutOfMemoryError()])
def test_ours_and_want_of_memory_stay_unless_they_are_named(error: Exception) -> None:
    assert is_out_of_memory(error) != isinstance(error, DataError)
    with pytest.raises(type(error)) as raised, expecting("Expected a table"):
        raise error
    assert raised.value is error
    named = expecting("Expected a table", type(error), as_error=RunFolderError)
    with pytest.raises(RunFolderError, match=r"^Expected a table "), named:
        raise error
    with pytest.raises(TypeError), expecting("Expected a table", type(error)):
        raise TypeError


def test_a_full_disk_amid_a_checkpoint(tmp_path: Path) -> None:
    """A limit on the size of files fails a write as a full disk does."""

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
        with one_line_errors("test"), appearing_folder(tmp_path / "run" / "step-1") as aside:
            write_tree(aside, {"a": torch.zeros(100_000)}, {})

    process = forked(full, tmp_path / "told")
    process.join(60)
    told = (tmp_path / "told").read_text()
    assert process.exitcode == 2, told
    assert told.startswith("test: error: File too large")
    assert told.count("\n") == 1
    assert list((tmp_path / "run").iterdir()) == []


def test_the_first_fault_is_one_line_with_its_place() -> None:
    with pytest.raises(ValidationError) as found:
        TypeAdapter(list[int]).validate_python([1, "x" * 200, "y"])
    told = fault_of(found.value, "cases", " in FILE")
    assert told.startswith("Expected a valid integer, unable to parse string as an integer as 'cas")
    assert told.endswith(f"as 'cases.1' in FILE, found '{'x' * 59}")
    with pytest.raises(ValidationError) as found:
        TypeAdapter(int).validate_python("x")
    assert fault_of(found.value).endswith("as an integer")
