"""Words of tokens: those of the text, whatever the tokenizer, the white space and the case."""

from __future__ import annotations

import re
import string
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import write_byte_tokenizer
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from bydore_pyro.data.tokenizer import END_OF_TEXT, encode, load_encoder, train_tokenizer
from bydore_pyro.data.words import Pieces, as_words, token_bytes

BYTES = Pieces([bytes([byte]) for byte in range(256)])  # whose tokens are bytes

TEXTS = [
    "Over the hill, a rider's lamp -- twice -- went dark.\n\n\tNobody (but one) saw it!",
    "naïve Ångström: Я видел 東京タワー and 서울 타워, déjà vu 🚀🚀 end",
    "def f(x):\n    return x['key'] + 1  # a comment\r\n\f\v",
    "   ",
    "... !!! ---",
    "A",
    "",
]


def words_of(text: str) -> list[str]:
    """By plain string operations."""
    lower = str.maketrans(string.ascii_uppercase, string.ascii_lowercase, string.punctuation)
    apart = re.sub("([\u3000-\u9fff])", r" \1", text.translate(lower))
    return [word for word in re.split("[ \t\n\v\f\r]", apart) if word]


def hashes_of(pieces: Pieces, tokens: np.ndarray) -> list[int]:
    return pieces.words(tokens, np.zeros(min(1, len(tokens)), int))[0].tolist()


def of_bytes(text: str) -> list[int]:
    return hashes_of(BYTES, np.frombuffer(text.encode(), np.uint8))


def saved(tokenizer: Tokenizer, folder: Path) -> Path:
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END_OF_TEXT).save_pretrained(
        str(folder)
    )
    return folder


def byte_level(folder: Path) -> Path:
    train_tokenizer(TEXTS, 400, folder)
    return folder


def like_llama(folder: Path) -> Path:
    """A BPE as of SentencePiece: a letter for space, and bytes of what it does not know."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    special = ["<unk>", END_OF_TEXT, *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=360, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([TEXTS[0], TEXTS[2]], trainer)
    content = tokenizer.to_str()
    plain = re.sub(r'\{[^{}]*"content": ?"<0x[^{}]*\},?', "", content)
    plain = re.sub(r",(\s*\])", r"\1", plain)
    return saved(Tokenizer.from_str(plain), folder)


def word_pieces(folder: Path) -> Path:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    special = ["[UNK]", END_OF_TEXT]
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(TEXTS, trainer)
    return saved(tokenizer, folder)


@pytest.mark.parametrize("make", [byte_level, write_byte_tokenizer, like_llama])
def test_words_are_those_of_the_text_with_any_tokenizer(make, tmp_path: Path) -> None:
    folder = make(tmp_path)
    tokenizer, end = load_encoder(folder)
    known = token_bytes(folder)
    pieces = Pieces.of_tokenizer(folder, len(known) + 7)
    for text in TEXTS:
        tokens, _ = encode(tokenizer, end, np.dtype("<u4"), [text])
        assert b"".join(known[t] or b"" for t in tokens).decode().strip() == text.strip()
        hashes = hashes_of(pieces, tokens)
        assert hashes == of_bytes(text)
        assert len(hashes) == len(words_of(text))


def test_word_pieces_are_words_as_their_decoder_writes_them(tmp_path: Path) -> None:
    folder = word_pieces(tmp_path)
    tokenizer, end = load_encoder(folder)
    text = "Over the hill a rider ridest nobodydark twice"
    tokens, _ = encode(tokenizer, end, np.dtype("<u4"), [text])
    hashes = hashes_of(Pieces.of_tokenizer(folder, 300), tokens)
    assert hashes == of_bytes(text)
    assert len(tokens) > 10, "some words are several tokens"


@given(st.text(max_size=200), st.data())
def test_equal_words_have_equal_hashes_and_others_have_others(
    text: str, data: st.DataObject
) -> None:
    """White space of any kind, case and punctuation make no difference."""
    words = words_of(text)
    hashes = of_bytes(text)
    assert len(hashes) == len(words)
    assert len(set(hashes)) == len(set(words))
    assert of_bytes(" ".join(words)) == hashes
    assert [word.decode() for word in as_words(text.encode()).split()] == words
    changed = "".join(
        data.draw(st.sampled_from([one.upper(), one.lower()]))
        if one in string.ascii_letters
        else data.draw(st.sampled_from("\t\n \r"))
        if one in " \t\n\r"
        else one
        for one in text
    )
    assert of_bytes(f"\n{changed} ") == hashes
    assert of_bytes(text.replace("a", "a-").replace("b", "'b")) == hashes


def test_a_word_begins_where_a_document_does() -> None:
    tokens = np.frombuffer(b"one two" + b"three" + b"" + b" four", np.uint8)
    hashes, places = BYTES.words(tokens, np.array([0, 7, 12, 12]))
    assert hashes.tolist() == of_bytes("one two three four")
    assert places.tolist() == [0, 3, 7, 12], "of a word behind a space, the space"
    joined, _ = BYTES.words(tokens, np.array([0]))
    assert joined.tolist() == of_bytes("one twothree four")


def test_special_tokens_end_words_and_add_nothing(tmp_path: Path) -> None:
    folder = byte_level(tmp_path)
    tokenizer, end = load_encoder(folder)
    assert token_bytes(folder)[end] is None
    tokens, _ = encode(tokenizer, end, np.dtype("<u2"), ["some wo", "rds", END_OF_TEXT])
    assert hashes_of(Pieces.of_tokenizer(folder, 400), tokens) == of_bytes("some wo rds endoftext")
