"""Whether numbers are tokens of a vocabulary: their width, their values, and what they look like.

Bytes can be read as numbers of 2, 4 or 8 bytes. Under half of the right width every second number
is what is above 2^16 or 2^32, 0 as a rule; under twice the right one hardly any number is in the
vocabulary. So one width is right, unless there are very few numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bydore_pyro import data
from bydore_pyro.errors import DataError

WIDTHS = (2, 4, 8)  # bytes that a token may have
BLOCKS, BLOCK = 16, 1024  # of a shard, so many times so many tokens are looked at when it is opened
FEWEST = 16  # numbers that tell their own width, or what they look like
NEARLY = 0.95  # share of numbers that stay or rise by one, from which they do not look like text
#: -1 as an unsigned number: some writers divide documents by it.
DIVIDERS = tuple(2 ** (8 * width) - 1 for width in WIDTHS)
#: -100 as an unsigned number: in labels, what is not predicted.
IGNORED = tuple(2 ** (8 * width) - 100 for width in WIDTHS)


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known of tokens before a shard is opened.

    Attributes:
        vocabulary: How many there are.
        separator: The one that ends a document.
        divider: A number beyond the vocabulary that stands for the separator in files, if any.
        pad: The one that fills up, if any.
        width: Their bytes, if the user says so.
    """

    vocabulary: int
    separator: int
    divider: int | None = None
    pad: int | None = None
    width: int | None = None


class Some(NamedTuple):
    """Some numbers of an array, ``(blocks, size)``, and the positions at which they stand."""

    values: np.ndarray
    positions: np.ndarray


def some(tokens: data.Tokens) -> Some:
    """Returns blocks of an array, spread evenly over it; all of a short one."""
    if len(tokens) <= BLOCKS * BLOCK:
        return Some(np.asarray(tokens)[None], np.arange(len(tokens))[None])
    starts = np.linspace(0, len(tokens) - BLOCK, BLOCKS).astype(np.int64)
    positions = starts[:, None] + np.arange(BLOCK)
    return Some(np.asarray(tokens[positions]), positions)


def of_width(view: Callable[[int], data.Tokens], known: Known, place: Path) -> data.Tokens:
    """Returns tokens of the width that the user says, or of the one under which they are tokens.

    Args:
        view: From bytes of a token to tokens; a `DataError` where there is no multiple of them.
        known: The vocabulary.
        place: The file.

    Raises:
        DataError: When they are tokens under none, or under two.
    """
    if known.width is not None:
        return view(known.width)
    views = []
    for width in sorted(WIDTHS, reverse=True):
        try:
            views.append(view(width))
        except DataError as error:  # no multiple of it
            odd = error
    samples = [some(tokens) for tokens in views]
    faults = [_fault(sample, known) for sample in samples]
    fitting = [tokens for tokens, fault in zip(views, faults, strict=True) if fault is None]
    if not views:
        raise odd
    if not fitting:
        shares = [float(_inside(sample.values, known).mean()) for sample in samples]
        nearest = int(np.argmax([min(share, 0.5) for share in shares]))  # the widest, of several
        raise DataError(f"{faults[nearest]}: {place}")
    if len(fitting) > 1 and len(fitting[0]):
        raise DataError(
            f"Expected tokens of one width, found that each may have "
            f"{' or '.join(str(t.dtype.itemsize) for t in fitting)} bytes: {place}: give "
            "--token_bytes"
        )
    return fitting[0]


def require_width(sample: Some, known: Known, place: Path) -> None:
    """Checks that numbers may be tokens of their width.

    Raises:
        DataError: When there is one beyond the vocabulary, the vocabulary has tokens beyond what
            the width can hold, or every second number is 0.
    """
    fault = _fault(sample, known)
    if fault is not None:
        raise DataError(f"{fault}: {place}")


def _inside(values: np.ndarray, known: Known) -> np.ndarray:
    inside = values < known.vocabulary
    return inside if known.divider is None else inside | (values == known.divider)


def _fault(sample: Some, known: Known) -> str | None:
    """Why numbers are no tokens of their width; None when they may be."""
    values, positions = sample
    width = values.dtype.itemsize
    outside = ~_inside(values, known)
    if outside.any():
        swapped = values.byteswap()
        hint = " (with its bytes in the other order all would be tokens: is the file big-endian?)"
        return _beyond(
            int(values[outside][0]),
            int(positions[outside][0]),
            known,
            hint if _inside(swapped, known).all() else "",
        )
    if width == 2 and known.vocabulary > 2**16 and known.width != 2 and values.size:
        return (
            f"Expected tokens of 4 bytes for {known.vocabulary}, the vocabulary of --tokenizer, "
            "found 2 bytes, which cut tokens above 65535 or are of another tokenizer; if they are "
            "whole, give --token_bytes 2"
        )
    for half in (0, 1):
        is_zero = values[positions % 2 == half] == 0
        if values.size >= FEWEST and values.any() and is_zero.all():
            return (
                f"Expected tokens of {width} bytes, found that every second one is 0, as in halves "
                f"of tokens of {2 * width} bytes (of another width, or of a file that was cut)"
            )
    return None


def _beyond(value: int, position: int, known: Known, hint: str = "") -> str:
    """What to say of a token beyond the vocabulary."""
    if value in DIVIDERS:
        hint = (
            " (-1 as a signed number, by which some writers divide documents: --separator "
            f"{value} reads it as end-of-text)"
        )
    elif value in IGNORED:
        hint = " (-100 as a signed number, which stands for no token in labels)"
    return (
        f"Expected tokens below {known.vocabulary}, the vocabulary of --tokenizer, found {value} "
        f"at position {position}{hint}"
    )


def in_vocabulary(tokens: data.Tokens, known: Known, place: Path) -> data.LazyTokens:
    """Returns tokens that are compared with the vocabulary whenever some are read; the separator
    stands where its divider stood.

    Raises:
        DataError: While they are read, when one is beyond the vocabulary; names it.
    """
    dtype = np.result_type(tokens.dtype, np.min_scalar_type(known.separator))
    if known.divider is None:
        dtype = tokens.dtype

    def take(positions: np.ndarray) -> np.ndarray:
        values = np.asarray(tokens[positions])
        if known.divider is not None:
            divides = values == known.divider
            values = values.astype(dtype)
            values[divides] = known.separator
        if int(values.max(initial=0)) >= known.vocabulary:
            first = int(np.argmax(values >= known.vocabulary))
            told = _beyond(int(values.flat[first]), int(positions.flat[first]), known)
            raise DataError(f"{told}: {place}")
        return values

    return data.LazyTokens(take, dtype, (0, len(tokens)))


def resembles(sample: Some, known: Known, place: Path) -> str:
    """Returns what numbers look like, in words, if it is something else than text; "" if not.

    Separators and pad tokens are passed over. In text no long run of tokens rises by one or never
    falls.

    Raises:
        DataError: When there are only 0 and 1, as in a mask.
    """
    values = sample.values
    fillers = [t for t in (known.separator, known.divider, known.pad) if t is not None]
    fills = np.isin(values, fillers)
    of_text = values[~fills]
    if len(of_text) < FEWEST:
        return ""
    if int(of_text.max()) <= 1:
        raise DataError(f"Expected tokens, found only 0 and 1, as in a mask: {place}")
    steps = np.diff(values.astype(np.int64), axis=1)[~(fills[:, 1:] | fills[:, :-1])]
    if len(steps) < FEWEST or (steps == 0).all():
        return ""
    if np.isin(steps, (0, 1)).mean() > NEARLY:
        return "positions or numbers of documents"
    return "lengths or ends that never fall" if (steps >= 0).all() else ""
