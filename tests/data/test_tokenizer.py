"""Tokenizers: trained, or any of Hugging Face's."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from bydore_pyro.data.tokenizer import (
    END_OF_TEXT,
    TokenizerConfig,
    load_encoder,
    save_tokenizer,
    tokenizer_sha256,
    train_tokenizer,
)
from bydore_pyro.utils.errors import DataError

TEXTS = ["the cat sat on the mat " * 30, "ein Käse für die Katze " * 30]


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    train_tokenizer(TEXTS, 280, tmp_path / "trained")
    return tmp_path / "trained"


def words(folder: Path, **special: str) -> Path:
    """A word-level tokenizer of three words, as someone else might have saved it."""
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2, "</s>": 3}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.enable_truncation(4)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(str(folder))
    return folder


def test_a_trained_tokenizer_is_read_by_transformers(trained: Path) -> None:
    auto = AutoTokenizer.from_pretrained(str(trained))
    assert auto.eos_token == END_OF_TEXT
    encoder, end = load_encoder(trained)
    assert end == auto.eos_token_id
    ids = encoder.encode(TEXTS[1]).ids
    assert ids == auto.encode(TEXTS[1])
    assert encoder.decode(ids) == TEXTS[1]
    assert encoder.get_vocab_size() == len(auto) == 280
    assert tokenizer_sha256(trained) == tokenizer_sha256(trained)


def test_words_that_look_like_special_tokens_are_words(trained: Path) -> None:
    encoder, end = load_encoder(trained)
    ids = encoder.encode(f"before {END_OF_TEXT} after").ids
    assert end not in ids
    assert encoder.decode(ids) == f"before {END_OF_TEXT} after"


def test_any_tokenizer_of_hugging_face_is_taken(tmp_path: Path) -> None:
    source = words(tmp_path / "words", eos_token="</s>", unk_token="[UNK]")
    save_tokenizer(str(source), tmp_path / "copy")
    encoder, end = load_encoder(tmp_path / "copy")
    assert end == 3
    assert encoder.encode("a b a b a b").ids == [1, 2, 1, 2, 1, 2], "nothing is cut"


def test_what_is_refused(tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"end-of-text token, found '.*' without"):
        save_tokenizer(str(words(tmp_path / "words")), tmp_path / "copy")
    with pytest.raises(DataError, match="a tokenizer's folder or hub name, found 'nobody/nothing'"):
        save_tokenizer("nobody/nothing", tmp_path / "copy")
    words_in_python = SimpleNamespace(is_fast=False)
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda *_, **__: words_in_python)
    with pytest.raises(DataError, match=r"a tokenizer with a tokenizer\.json, found 'a' without"):
        save_tokenizer("a", tmp_path / "copy")
    (trained / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match="Expected a tokenizer in"):
        load_encoder(trained)
    for options in ({"vocabulary": 100}, {"tokenizer": ""}, {"tokenizer_megabytes": 0.0}):
        with pytest.raises(ValueError, match="Expected"):
            TokenizerConfig(**options)
