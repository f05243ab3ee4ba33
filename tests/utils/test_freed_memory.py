"""Freed memory goes back to the system, where the C library can be told."""

from __future__ import annotations

import ctypes

import pytest

from bydore_pyro.utils.freed_memory import return_freed_memory


def test_the_c_library_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Library:
        def malloc_trim(self, pad: int) -> int:
            asked.append(pad)
            return 1

    return_freed_memory()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    return_freed_memory()
    assert asked == [0]


@pytest.mark.parametrize("library", [object(), None])
def test_another_c_library_does_no_harm(library: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: None) -> object:
        if library is None:
            raise OSError("no such library")
        return library

    monkeypatch.setattr(ctypes, "CDLL", load)
    return_freed_memory()
