"""Tokenizing, caching, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import ALPHABETS, write_domains
from tokenizers import Tokenizer

from bydore_pyro.corpus import CorpusConfig, build_corpus
from bydore_pyro.errors import DataError
from bydore_pyro.rows import RowConfig
from bydore_pyro.sources import list_sources
from bydore_pyro.tokens import END_OF_TEXT, TokenCorpus, TokenizerConfig, load_tokens

CONFIG = CorpusConfig(validation_fraction=0.2)


def test_tokens_decode_to_the_documents(corpus: TokenCorpus, text_folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(corpus.tokenizer))
    text = build_corpus(list_sources(str(text_folder), RowConfig(), print), CONFIG, origin="test")
    for split, arrays in ((text.train, corpus.train), (text.validation, corpus.validation)):
        for name, documents in split.items():
            decoded = tokenizer.decode(arrays[name].tolist(), skip_special_tokens=False)
            assert decoded.split(END_OF_TEXT)[:-1] == documents
    assert corpus.vocabulary == tokenizer.get_vocab_size() <= 300
    assert corpus.train["birds"].dtype == np.uint16


def test_cache_is_used_and_noticed_changes_renew_it(tmp_path: Path) -> None:
    folder = write_domains(tmp_path / "text", {"a": "abcd", "b": "wxyz"}, files=8)
    lines: list[str] = []

    def load(**options: int) -> TokenCorpus:
        lines.clear()
        config = TokenizerConfig(vocabulary=options.get("vocabulary", 280))
        return load_tokens(
            str(folder), CONFIG, config, cache=tmp_path / "cache", progress=lines.append
        )

    first = load()
    assert lines
    again = load()
    assert not lines, "nothing was read again"
    assert again.sha256 == first.sha256
    np.testing.assert_array_equal(again.train["a"], first.train["a"])
    load(vocabulary=270)
    assert lines
    (folder / "a" / "new.txt").write_text("a new file " * 50)
    assert load().sha256 != first.sha256
    assert lines
    assert not [p for p in (tmp_path / "cache").iterdir() if p.name.startswith(".")]


@pytest.mark.parametrize("file", ["a.train.npy", "tokenizer.json", "manifest.json", "pickled"])
def test_a_damaged_cache_is_built_again(tmp_path: Path, file: str) -> None:
    folder = write_domains(tmp_path / "text", {"a": "abcd", "b": "wxyz"}, files=8)
    lines: list[str] = []

    def load() -> TokenCorpus:
        config = TokenizerConfig(vocabulary=280)
        return load_tokens(
            str(folder), CONFIG, config, cache=tmp_path / "cache", progress=lines.append
        )

    whole = load()
    cached = whole.tokenizer.parent
    expected = whole.train["a"].copy()
    if file == "pickled":
        np.save(cached / "a.train.npy", np.array([{}], dtype=object), allow_pickle=True)
    else:
        (cached / file).write_bytes((cached / file).read_bytes()[:150])
    lines.clear()
    np.testing.assert_array_equal(load().train["a"], expected)
    assert "damaged" in lines[0]


def test_a_failure_leaves_no_half_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_domains(tmp_path / "text", {"a": "abcd", "b": "wxyz"}, files=8)

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full_disk)
    with pytest.raises(OSError, match="No space left"):
        load_tokens(str(folder), CONFIG, TokenizerConfig(vocabulary=280), cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_an_empty_domain_is_named(tmp_path: Path) -> None:
    write_domains(tmp_path, ALPHABETS, files=2)
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "a.txt").write_text("too short")
    with pytest.raises(DataError, match="'tiny'"):
        load_tokens(str(tmp_path), CONFIG, cache=tmp_path / "cache")


def test_bad_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match="vocabulary in"):
        TokenizerConfig(vocabulary=100)
