"""The tokens of named data: stores, the cache, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny import documents_in, write_domains

from bydore_pyro.data.documents import CorpusConfig
from bydore_pyro.data.store import FORMAT, TokenStore, check_needed
from bydore_pyro.data.tokenizer import TokenizerConfig, train_tokenizer
from bydore_pyro.data.tokens import check_tokenizer, default_cache, load_tokens
from bydore_pyro.utils.errors import DataError

CONFIG = CorpusConfig(validation_fraction=0.2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_domains(tmp_path / "text", {"a": "abcd", "b": "wxyz"}, files=8)


def test_tokens_decode_to_the_documents(corpus: TokenStore, text_folder: Path) -> None:
    found = documents_in(corpus)
    for name in corpus.names:
        files = [p.read_text(encoding="utf-8").strip() for p in (text_folder / name).iterdir()]
        assert sorted(found["train"][name] + found["validation"][name]) == sorted(files)
    assert corpus.vocabulary <= 300


def test_cache_is_used_and_noticed_changes_renew_it(tmp_path: Path, folder: Path) -> None:
    lines: list[str] = []

    def load(**options: int) -> TokenStore:
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


@pytest.mark.parametrize(
    "file", ["train/a.bin", "train/b.ends", "tokenizer/tokenizer.json", "index.json", "format"]
)
def test_a_damaged_cache_is_built_again(tmp_path: Path, folder: Path, file: str) -> None:
    """Or one of another format."""
    lines: list[str] = []

    def load() -> TokenStore:
        config = TokenizerConfig(vocabulary=280)
        return load_tokens(
            str(folder), CONFIG, config, cache=tmp_path / "cache", progress=lines.append
        )

    whole = load()
    expected = whole.train["a"].copy()
    path = whole.folder / ("index.json" if file == "format" else file)
    if file == "format":
        path.write_text(path.read_text().replace(FORMAT, "bydore_pyro.tokens/1"))
        with pytest.raises(DataError, match="prepare it again"):
            load_tokens(str(path.parent))
    else:
        path.write_bytes(path.read_bytes()[:150] if path.suffix != ".ends" else b"")
    lines.clear()
    np.testing.assert_array_equal(load().train["a"], expected)
    assert "damaged" in lines[0]


def test_a_store_is_opened_as_it_lies(tmp_path: Path, folder: Path) -> None:
    built = load_tokens(str(folder), CONFIG, TokenizerConfig(vocabulary=280), cache=tmp_path / "c")
    store = load_tokens(str(built.folder), needed=["a"])
    assert store.sha256 == built.sha256
    assert load_tokens(
        str(built.folder), tokenizer=TokenizerConfig(tokenizer=str(built.tokenizer))
    ).names == ("a", "b")
    train_tokenizer(["other text " * 90], 270, tmp_path / "other")
    with pytest.raises(DataError, match=r"a store of tokenizer '.*other' .* of another"):
        check_tokenizer(store, str(tmp_path / "other"))
    with pytest.raises(DataError, match=r"Expected a domain of the data \(a, b\), found 'c'"):
        load_tokens(str(built.folder), needed=["c"])


def test_needed_domains_are_checked_before_anything_is_read(tmp_path: Path, folder: Path) -> None:
    (folder / "a" / "bad.txt").write_bytes(b"\xff")
    with pytest.raises(DataError, match="found 'c'"):
        load_tokens(str(folder), CONFIG, needed=["a", "c"], cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
    check_needed([], [])


def test_the_cache_lies_where_the_user_keeps_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_cache() == Path("/somewhere/bydore_pyro")
