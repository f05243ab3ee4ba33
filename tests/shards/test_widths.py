"""Widths of tokens: the right one is found, and numbers that are no tokens are refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bydore_pyro.data import Tokens
from bydore_pyro.errors import DataError
from bydore_pyro.shards.arrays import numbers
from bydore_pyro.shards.widths import (
    DIVIDERS,
    Known,
    Some,
    in_vocabulary,
    of_width,
    require_width,
    resembles,
    some,
)

KNOWN = Known(vocabulary=400, separator=7)
PLACE = Path("a.bin")


def random(vocabulary: int, dtype: str, count: int = 3001) -> np.ndarray:
    return np.random.default_rng(0).integers(8, vocabulary, count).astype(dtype)


def found(path: Path, known: Known) -> Tokens:
    return of_width(lambda width: numbers(path, f"<u{width}"), known, path)


@pytest.mark.parametrize("dtype", ["<u2", "<u4", "<u8"])
@pytest.mark.parametrize("vocabulary", [400, 2**16])
@pytest.mark.parametrize("count", [3001, 200_000])
def test_the_width_of_tokens_is_the_one_under_which_they_are_tokens(
    dtype: str, vocabulary: int, count: int, tmp_path: Path
) -> None:
    tokens = random(vocabulary, dtype, count)
    tokens.tofile(tmp_path / "a.npy")
    read = found(tmp_path / "a.npy", Known(vocabulary=vocabulary, separator=7))
    assert read.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(np.asarray(read), tokens)


@pytest.mark.parametrize("dtype", ["<u4", "<u8"])
def test_a_large_vocabulary_is_read_under_its_width(dtype: str, tmp_path: Path) -> None:
    tokens = random(128_256, dtype)
    tokens.tofile(tmp_path / "a.npy")
    known = Known(vocabulary=128_256, separator=7)
    np.testing.assert_array_equal(np.asarray(found(tmp_path / "a.npy", known)), tokens)


def test_two_bytes_hold_no_vocabulary_above_65536(tmp_path: Path) -> None:
    """Larger tokens would have been cut to other ones; who knows that they are whole says so."""
    path, tokens = tmp_path / "a.npy", random(2**16, "<u2")
    tokens.tofile(path)
    message = r"4 bytes for 65537, the vocabulary .* found 2 bytes, .* give --token_bytes 2: .*npy"
    for known, fails in (
        (Known(vocabulary=65_537, separator=7), True),
        (Known(vocabulary=65_537, separator=7, width=2), False),
        (Known(vocabulary=65_536, separator=7), False),
    ):
        for read in (
            lambda known=known: found(path, known),
            lambda known=known: require_width(some(tokens), known, path),
        ):
            if fails:
                with pytest.raises(DataError, match=message):
                    read()
            else:
                read()


def test_numbers_of_which_every_second_is_0_are_halves(tmp_path: Path) -> None:
    """As of a file that was cut, or whose type is declared wrongly."""
    path = tmp_path / "a.npy"
    random(400, "<u4", 99).tofile(path)
    path.write_bytes(path.read_bytes()[:-2])
    message = r"Expected tokens of 2 bytes, found that every second one is 0, .* 4 bytes .*: .*npy"
    with pytest.raises(DataError, match=message):
        found(path, KNOWN)
    named = Known(vocabulary=400, separator=7, width=2)
    with pytest.raises(DataError, match=message):
        require_width(some(found(path, named)), named, path)
    for dtype in ("<u8", ">u4"):
        halves = random(400, dtype, 99).view(f"<u{int(dtype[-1]) // 2}")
        known = Known(vocabulary=2**16, separator=7)
        with pytest.raises(DataError, match="every second one is 0"):
            require_width(some(halves), known, PLACE)
    require_width(some(np.zeros(99, "<u2")), KNOWN, PLACE)
    require_width(some(np.array([5, 0] * 7, "<u2")), KNOWN, PLACE)


def test_where_two_widths_could_be_right_the_user_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.array([5, 0, 7, 0], "<u2").tofile(path)
    with pytest.raises(DataError, match=r"may have 4 or 2 bytes: .*a.npy: give --token_bytes"):
        found(path, KNOWN)
    for width, tokens in ((2, [5, 0, 7, 0]), (4, [5, 7])):
        known = Known(vocabulary=400, separator=7, width=width)
        assert np.asarray(found(path, known)).tolist() == tokens
    wide = Known(vocabulary=400, separator=7, width=8)
    with pytest.raises(DataError, match=r"below 400, .* found 30064771077 at position 0: .*a.npy"):
        require_width(some(found(path, wide)), wide, path)
    path.write_bytes(b"abc")
    with pytest.raises(DataError, match=r"numbers of 2 bytes, found 3 bytes: .*a\.npy"):
        found(path, KNOWN)
    path.write_bytes(b"")
    assert len(found(path, KNOWN)) == 0


@pytest.mark.parametrize(
    ("dtype", "value", "hint"),
    [
        ("<u2", 9999, ""),
        (
            "<u2",
            65535,
            " (-1 as a signed number, by which some writers divide documents: "
            "--separator 65535 reads it as end-of-text)",
        ),
        (
            "<u4",
            2**32 - 1,
            " (-1 as a signed number, by which some writers divide documents: "
            "--separator 4294967295 reads it as end-of-text)",
        ),
        (
            "<u4",
            65535,
            " (-1 as a signed number, by which some writers divide documents: "
            "--separator 65535 reads it as end-of-text)",
        ),
        ("<u8", 2**64 - 100, " (-100 as a signed number, which stands for no token in labels)"),
    ],
)
def test_a_token_beyond_the_vocabulary_is_named(
    dtype: str, value: int, hint: str, tmp_path: Path
) -> None:
    """With its value, position and file; and which value is no token in some writers' files."""
    path, tokens = tmp_path / "a.npy", random(400, dtype, 99)
    tokens[50] = value
    tokens.tofile(path)
    expected = (
        f"Expected tokens below 400, the vocabulary of --tokenizer, found {value} at position 50"
        f"{hint}: {path}"
    )
    for read in (lambda: found(path, KNOWN), lambda: require_width(some(tokens), KNOWN, path)):
        with pytest.raises(DataError) as error:
            read()
        assert str(error.value) == expected


def test_a_file_of_the_other_order_of_bytes_is_named(tmp_path: Path) -> None:
    random(400, ">u2").tofile(tmp_path / "a.npy")
    with pytest.raises(DataError, match=r"the other order .*: is the file big-endian\?\): .*npy"):
        found(tmp_path / "a.npy", KNOWN)


def test_tokens_are_compared_while_they_are_read() -> None:
    tokens = np.array([5, 9, 500, 65535], "<u2")
    text = in_vocabulary(tokens, KNOWN, PLACE)
    assert text[np.array([[0, 1], [1, 0]])].tolist() == [[5, 9], [9, 5]]
    with pytest.raises(DataError, match=r"found 500 at position 2: a\.bin"):
        np.asarray(text[1:])
    divided = Known(vocabulary=70_000, separator=69_999, divider=DIVIDERS[0])
    found = in_vocabulary(tokens, divided, PLACE)
    assert np.asarray(found).tolist() == [5, 9, 500, 69_999]
    assert found.dtype == np.asarray(found).dtype == np.uint32


def test_some_of_a_large_array_are_looked_at() -> None:
    tokens = np.arange(10**6)
    found = some(tokens)
    assert isinstance(found, Some)
    values, positions = found
    assert values.shape == positions.shape == (16, 1024)
    np.testing.assert_array_equal(values, positions)
    assert (values[0, 0], values[-1, -1]) == (0, 10**6 - 1)
    assert some(tokens[:7]).values.tolist() == [[*range(7)]]


def test_what_numbers_look_like() -> None:
    """Text of few tokens, or of one that stands often, looks like text."""
    known = Known(vocabulary=400, separator=7, pad=3)
    documents = np.sort(random(300, "<u2", 200))
    for tokens, what in (
        (np.tile(np.arange(50), 9), "positions or numbers of documents"),
        (np.repeat(np.arange(20), 9), "positions or numbers of documents"),
        (documents, "lengths or ends that never fall"),
        (random(400, "<u2"), ""),
        (np.full(200, 9), ""),
        (np.array([9] * 5 + [7] * 400), ""),
        (np.array([9, 8, 12, 7, 3] * 9 + [3] * 400), ""),
        (np.arange(9), ""),
    ):
        assert resembles(some(np.asarray(tokens, "<u2")), known, PLACE) == what
    with pytest.raises(DataError, match=r"found only 0 and 1, as in a mask: a\.bin"):
        resembles(some(np.arange(3001, dtype="<u2") % 3 // 2), known, PLACE)
