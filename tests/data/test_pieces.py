"""Texts in parts: read piece by piece, cut into pieces, cut into documents."""

from __future__ import annotations

from pathlib import Path

import pytest

from bydore_pyro.data import pieces
from bydore_pyro.data.pieces import PIECE, SMALLEST_FILE_OF_PIECES, cut, in_pieces, read_text
from bydore_pyro.data.rows import Row
from bydore_pyro.utils.errors import DataError


def test_a_text_that_is_not_utf8_is_named_by_its_byte(tmp_path: Path) -> None:
    for content, at in (
        (b"x" * 70_000 + b"\xff" + b"y" * 10, 70_000),
        (b"z" * (SMALLEST_FILE_OF_PIECES + 5) + b"\n\xe2\x82", SMALLEST_FILE_OF_PIECES + 8),
    ):
        path = tmp_path / "bad"
        path.write_bytes(content)
        with pytest.raises(DataError, match=f"Expected UTF-8, .*{path}, byte {at}"):
            list(read_text(path))
        assert list(read_text(path, "skip"))[-1].text is None
    path.write_bytes(b"\xef\xbb\xbfmarked")
    assert [row.text for row in read_text(path)] == ["marked"]
    path.write_bytes("ü".encode() * SMALLEST_FILE_OF_PIECES)
    assert "".join(row.text or "" for row in read_text(path)) == "ü" * SMALLEST_FILE_OF_PIECES


def test_a_line_of_any_length_is_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "LONGEST_PIECE", 200_000)
    path = tmp_path / "one line"
    line = "".join(f"{i:07d}ü" for i in range(200_000))
    path.write_text(f"first\n{line}\nlast", encoding="utf-8")
    rows = list(read_text(path))
    assert "".join(str(row.text) for row in rows) == f"first\n{line}\nlast"
    assert [row.number for row in rows] == list(range(1, len(rows) + 1))
    assert max(len(str(row.text)) for row in rows) < 200_000 + 2 * PIECE
    assert len(rows) < 10


def test_pieces_end_with_a_line_in_their_second_half() -> None:
    text = "".join(f"{i:03d} " + "x" * 35 + "\n" for i in range(100))  # 40 characters a line
    parts = list(in_pieces([Row(1, text)], 1000, 200))
    assert [len(str(p.text)) for p in parts] == [999] * 4, "25 lines, the last break stripped"
    assert "\n".join(str(p.text) for p in parts) + "\n" == text
    assert [p.number for p in parts] == [1, 2, 3, 4]
    assert [p.position for p in parts] == pytest.approx([0.25, 0.5, 0.75, 1], abs=0.01)


def test_an_end_that_is_too_short_stays() -> None:
    assert [len(str(p.text)) for p in in_pieces([Row(1, "x" * 2199)], 1000, 200)] == [1000, 1199]
    assert [len(str(p.text)) for p in in_pieces([Row(1, "x" * 2200)], 1000, 200)] == [
        1000,
        1000,
        200,
    ]
    assert [p.text for p in in_pieces([Row(1, "  x\n")], 1000, 200)] == ["x"]
    assert list(in_pieces([Row(1, " \n")], 1000, 200)) == []


def test_an_early_line_break_does_not_end_a_piece() -> None:
    text = "x" * 400 + "\n" + "y" * 2000
    assert [len(str(p.text)) for p in in_pieces([Row(1, text)], 1000, 200)] == [1000, 1000, 401]


def test_pieces_of_many_rows_are_numbered_through() -> None:
    rows = [Row(1, "x" * 2000, "a", 0.5), Row(2, None, "b"), Row(3, "y" * 10)]
    found = [(p.number, len(p.text or ""), p.domain) for p in in_pieces(rows, 1000, 200)]
    assert found == [(1, 1000, "a"), (2, 1000, "a"), (3, 0, "b"), (4, 10, None)]


def test_long_texts_are_cut_at_line_breaks() -> None:
    lines = [f"{i} " + "x" * 30 for i in range(190)]
    texts = list(cut("\n".join(lines), 1000, 100))
    assert all(100 <= len(t) <= 1000 for t in texts)
    assert "\n".join(texts).split("\n") == lines
    assert [len(t) for t in cut("x" * 2050, 1000, 100)] == [1000, 1000]
