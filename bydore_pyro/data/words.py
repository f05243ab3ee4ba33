"""Tokens to hashed words, without decoding them to text.

A word is what stands between white space, in lower case and without punctuation (the definition of
GPT-3, arXiv 2005.14165, appendix C, and of lm-eval's `Janitor`). Equal text with other white space,
case or punctuation, or with tokens that are cut elsewhere, has the same words. Case, punctuation
and white space are those of ASCII. Every Chinese and Japanese character is a word of its own, as
nothing stands between the words of these languages.

What a token adds to words is looked up. Most tokens are a piece of one word; some, such as " a b",
hold several pieces. A word is the sum of its pieces::

    h(word) = sum_p h(p) P^o_p,   h(p) = sum_i (byte_i + 1) P^i   mod 2^64

with ``o_p`` the number of bytes of the word before its piece p.
"""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bydore_pyro import files
from bydore_pyro.data.tokenizer import FILE, load_encoder, vocabulary_of

PRIME = np.uint64(0x9E3779B97F4A7C15)  # odd, of no pattern: 2^64 divided by the golden ratio
MIX = np.uint64(0xD6E8FEB86659FD93)  # odd
LONGEST = 2**16  # bytes behind which the powers of a word begin again; a power of 2
BLANKS = b"\t\n\v\f\r"
LOWER = bytes.maketrans(
    string.ascii_uppercase.encode() + BLANKS, string.ascii_lowercase.encode() + b" " * len(BLANKS)
)
PUNCTUATION = string.punctuation.encode()
IDEOGRAPH = re.compile(rb"[\xe3-\xe9]")  # the first bytes of U+3000 to U+9FFF
BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def token_bytes(folder: Path) -> list[bytes | None]:
    """Returns the bytes of UTF-8 that each token stands for, by its number; None of a special token
    and of a number that has none.

    Args:
        folder: The tokenizer's.

    Raises:
        DataError: When the folder holds no tokenizer that can be read.
    """
    tokenizer, end = load_encoder(folder)
    special = {end, *(n for n, t in tokenizer.get_added_tokens_decoder().items() if t.special)}
    config = files.read_json(folder / FILE)
    of_bytes = "ByteLevel" in str(config.get("decoder"))
    found: list[bytes | None] = [None] * vocabulary_of(tokenizer)
    added = {n: t.content for n, t in tokenizer.get_added_tokens_decoder().items()}
    byte_of = _bytes_of_letters() if of_bytes else {}
    # Decoders take the space before the first token of a text away: so each stands behind one.
    first = next((n for n in range(len(found)) if n not in added and tokenizer.decode([n])), end)
    before = tokenizer.decode([first])
    for token, number in tokenizer.get_vocab(with_added_tokens=True).items():
        if number in special:
            continue
        if number in added:
            found[number] = added[number].encode()
        elif of_bytes:
            found[number] = b"".join(byte_of.get(one, one.encode()) for one in token)
        elif byte := BYTE.fullmatch(token):
            found[number] = bytes.fromhex(byte[1])
        else:
            found[number] = tokenizer.decode([first, number]).removeprefix(before).encode()
    return found


def _bytes_of_letters() -> dict[str, bytes]:
    """The bytes that the letters of a byte-level BPE stand for (GPT-2): printable ones for
    themselves, the others for the first free characters from 256 on."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in own]
    letters = [*map(chr, own), *(chr(256 + i) for i in range(len(others)))]
    return {one: bytes([byte]) for one, byte in zip(letters, own + others, strict=True)}


class Pieces:
    """What each token of a vocabulary adds to words.

    Args:
        vocabulary: Bytes by token; None of what ends a word and adds nothing.
    """

    def __init__(self, vocabulary: Sequence[bytes | None]) -> None:
        contents: list[bytes] = []
        begins: list[bool] = []
        counts = np.empty(len(vocabulary), np.int64)
        for number, token in enumerate(vocabulary):
            own = _pieces(b" " if token is None else token)
            counts[number] = len(own)
            contents += [content for content, _ in own]
            begins += [begin for _, begin in own]
        self._counts, self._first = counts, np.cumsum(counts) - counts
        self._begins = np.array(begins, bool)
        self._lengths = np.array([len(one) for one in contents], np.int64)
        self._powers = np.cumprod(np.full(LONGEST, PRIME)) * _inverse(PRIME)
        places = np.arange(self._lengths.sum()) - np.repeat(
            np.cumsum(self._lengths) - self._lengths, self._lengths
        )
        values = np.frombuffer(b"".join(contents), np.uint8).astype(np.uint64) + np.uint64(1)
        sums = np.append(np.uint64(0), np.cumsum(values * self._powers[places % LONGEST]))
        ends = np.cumsum(self._lengths)
        self._hashes = sums[ends] - sums[ends - self._lengths]

    @classmethod
    def of_tokenizer(cls, folder: Path, vocabulary: int) -> Pieces:
        """Those of the tokenizer in a folder; a store's vocabulary may be larger."""
        known = token_bytes(folder)
        return cls(known + [None] * (vocabulary - len(known)))

    def words(self, tokens: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the hashes of words ``(n,)``, and the tokens ``(n,)`` in which they begin.

        Args:
            tokens: ``(T,)``.
            starts: Where documents begin among them, ascending: there a word begins.
        """
        if not len(tokens):
            return np.empty(0, np.uint64), np.empty(0, np.int64)
        counts = self._counts[tokens]
        ends = np.cumsum(counts)
        first = ends - counts  # piece of each token
        token = np.repeat(np.arange(len(tokens)), counts)
        piece = np.repeat(self._first[tokens] - first, counts)
        piece += np.arange(len(piece))
        begins = self._begins[piece]
        begins[first[starts]] = begins[0] = True
        words = np.flatnonzero(begins)
        lengths = self._lengths[piece]
        before = np.cumsum(lengths) - lengths
        sizes = np.diff(words, append=len(piece))
        before -= np.repeat(before[words], sizes)
        hashes = self._hashes[piece] * self._powers[before & (LONGEST - 1)]
        hashes = np.add.reduceat(hashes, words)
        full = np.add.reduceat(lengths, words) > 0
        hashes = hashes[full]
        hashes ^= hashes >> np.uint64(32)
        hashes *= MIX
        hashes ^= hashes >> np.uint64(29)
        return hashes, token[words[full]]


def as_words(text: bytes) -> bytes:
    """Returns UTF-8 text in lower case, without punctuation, with spaces between words."""
    plain = text.translate(LOWER, PUNCTUATION)
    return plain if plain.isascii() else IDEOGRAPH.sub(rb" \g<0>", plain)


def _pieces(token: bytes) -> list[tuple[bytes, bool]]:
    """The pieces of words in a token, and whether a word begins with each."""
    parts = as_words(token).split(b" ")
    last = len(parts) - 1
    # An empty piece behind white space begins the word that goes on in the next token.
    return [(part, i > 0) for i, part in enumerate(parts) if part or i == last]


def _inverse(odd: np.uint64) -> np.uint64:
    """The inverse of an odd number mod 2^64."""
    return np.uint64(pow(int(odd), -1, 2**64))
