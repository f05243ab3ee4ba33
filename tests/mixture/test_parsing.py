"""Plain values of three languages, and lines with comments."""

from __future__ import annotations

import pytest

from bydore_pyro.mixture.parsing import parsed, parsed_large, without_comments


def test_three_languages() -> None:
    assert parsed('{"a": 0.5}') == {"a": 0.5}
    assert parsed("a: 0.5") == {"a": "0.5"}, "text, since YAML 1.1 misses 5e-06"
    assert parsed("[a]\nb = 0.5") == {"a": {"b": 0.5}}
    assert parsed("") is None
    with pytest.raises(ValueError, match="neither JSON, YAML nor TOML"):
        parsed("[a\nb = 1")


def test_what_is_large_is_json() -> None:
    assert parsed_large('{"a": 1}') == {"a": 1}
    with pytest.raises(ValueError, match="more than 2 MB, and no JSON"):
        parsed_large("a: 1")


def test_lines_of_comments() -> None:
    assert without_comments("# one\na,1\n  #two\nb#,2\n") == ("a,1\nb#,2\n", ["# one", "#two"])
