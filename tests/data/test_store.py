"""Token stores on disk: what they hold, and every way in which one can be damaged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiny import ALPHABETS, ends_in, write_domains

from bydore_pyro.cli.main import main
from bydore_pyro.data.documents import CorpusConfig
from bydore_pyro.data.plan import make_plan
from bydore_pyro.data.preparation import prepare
from bydore_pyro.data.store import (
    END,
    FORMAT,
    INDEX,
    TokenStore,
    is_store,
    joined_stores,
    nothing_counted,
    open_store,
    sha256_of,
)
from bydore_pyro.data.tokenizer import TokenizerConfig, tokenizer_sha256
from bydore_pyro.data.unchanged import file_sha256
from bydore_pyro.utils.errors import DataError


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("store")
    text = write_domains(folder / "text", {"a": "abcde", "b": "vwxyz"}, files=20)
    config = CorpusConfig(validation_fraction=0.3)
    plan = make_plan(str(text), config, tokenizer=TokenizerConfig(vocabulary=280))
    prepare(plan, folder / "built")
    return folder / "built"


@pytest.fixture
def folder(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "store"))


def test_a_store_tells_what_it_holds(folder: Path) -> None:
    assert is_store(folder)
    assert not is_store(folder.parent)
    store: TokenStore = open_store(folder, verify=True)
    assert store.names == ("a", "b")
    entry = store.index["domains"]["a"]["train"]
    assert entry["tokens"] == len(store.train["a"])
    assert entry["sha256"] == file_sha256(folder / "train" / "a.bin")
    assert entry["ends_sha256"] == file_sha256(folder / "train" / "a.ends")
    assert store.train["a"].dtype == np.uint16
    assert not store.train["a"].flags.writeable
    for side in ("train", "validation"):
        ends = store.train_documents if side == "train" else store.validation_documents
        for name in store.names:
            assert ends[name].dtype == END == np.int64
            assert not ends[name].flags.writeable
            assert ends[name].tolist() == ends_in(store, side, name), "none is cut"
            assert len(ends[name]) == store.index["domains"][name][side]["independent_documents"]
    assert set(entry) == {*nothing_counted()["train"], "sha256", "ends_sha256"}
    assert store.sha256 == sha256_of(store.index["domains"], store.tokenizer_sha256, 280, "<u2")
    assert store.tokenizer_sha256 == tokenizer_sha256(store.tokenizer)
    files = store.manifest()["files"]
    assert len(files) == 40
    assert {f["split"] for f in files} == {"train", "validation"}


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:8])


def edit(folder: Path, **entries: object) -> None:
    index = json.loads((folder / INDEX).read_text())
    (folder / INDEX).write_text(json.dumps({**index, **entries}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: flip(f / "train" / "a.bin"), "found others in .*train/a.bin"),
        (lambda f: (f / "train" / "a.bin").write_bytes(b"ab"), "tokens, found 1: .*a.bin"),
        (lambda f: (f / "validation" / "b.bin").unlink(), "an array of tokens, found .*b.bin"),
        (lambda f: flip(f / "train" / "b.ends"), "the ends of documents that .*train/b.ends"),
        (lambda f: cut(f / "train" / "b.ends"), "ends of documents, found 1: .*train/b.ends"),
        (
            lambda f: (f / "train" / "a.ends").unlink(),
            "an array of ends of documents, found .*train/a.ends: No such file",
        ),
        (
            lambda f: edit(f, format="bydore_pyro.tokens/1"),
            "found 'bydore_pyro.tokens/1' in .*index.json: prepare it again",
        ),
        (lambda f: flip(f / "tokenizer" / "tokenizer.json"), "the tokenizer that .*store was"),
        (lambda f: shutil.rmtree(f / "tokenizer"), "the store's tokenizer, found none"),
        (lambda f: (f / INDEX).unlink(), "the index of a token store, found"),
        (lambda f: (f / INDEX).write_text("{"), "the index of a token store, found"),
        (lambda f: (f / INDEX).write_text("[]"), f"of format '{FORMAT}', found None"),
        (lambda f: edit(f, domains={}), "to match the hash in it"),
        (lambda f: (f / INDEX).write_text(f'{{"format": "{FORMAT}"}}'), "without 'tokenizer_"),
        (lambda f: edit(f, vocabulary=5), "to match the hash in it"),
    ],
)
def test_damage_is_named(folder: Path, damage: Callable[[Path], object], message: str) -> None:
    damage(folder)
    with pytest.raises(DataError, match=message) as error:
        open_store(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [None, "{"])
def test_the_list_of_sources_is_read_only_when_asked_for(folder: Path, content: str | None) -> None:
    path = folder / "files.jsonl"
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(DataError, match=r"a line for each source, found .*files\.jsonl"):
        open_store(folder).manifest()


def test_hashes_of_a_large_store_are_checked_on_demand(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bydore_pyro.data.store.ALWAYS_VERIFIED", 10)
    for name in ("a.bin", "a.ends"):
        flip(folder / "train" / name)
        open_store(folder)
        with pytest.raises(DataError, match=f"found others in .*{name}"):
            open_store(folder, verify=True)
        flip(folder / "train" / name)
    ends = np.fromfile(folder / "train" / "a.ends", "<i8")
    ends[-1] -= 1
    ends.tofile(folder / "train" / "a.ends")
    with pytest.raises(DataError, match=r"last end of a document at .*, found .*a\.ends"):
        open_store(folder)


def test_a_side_without_text_has_no_documents(tmp_path: Path) -> None:
    """A domain that is never trained on."""
    write_domains(tmp_path / "text", {"a": "abcde", "b": "vwxyz"}, files=6)
    listing = tmp_path / "list.yaml"
    listing.write_text("domains: {a: text/a, b: {validation: text/b}}")
    store = prepare(
        make_plan(str(listing), tokenizer=TokenizerConfig(vocabulary=280)), tmp_path / "s"
    )
    assert store.train_documents["b"].tolist() == []
    assert store.train_documents["b"].dtype == np.int64
    assert (tmp_path / "s/train/b.ends").read_bytes() == b""
    assert len(store.validation_documents["b"]) == 6


def test_tokens_are_taken_from_what_was_opened_alone(folder: Path) -> None:
    store = open_store(folder)
    tokens = store.train["a"]
    np.testing.assert_array_equal(store.taken("train", "a", lambda: tokens[:5]), tokens[:5])
    assert len(store.taken("train", "a", lambda: tokens[:0])) == 0
    with pytest.raises(DataError, match=r"Expected tokens below 280, .*found 280 in the train"):
        store.taken("train", "a", lambda: np.array([3, 280]))
    with (folder / "train" / "a.bin").open("r+b") as file:
        file.truncate(2)
    store.require_unchanged(("train", "b"))
    for call in (
        lambda: store.taken("train", "a", lambda: pytest.fail("a mapped file that was cut")),
        lambda: store.require_unchanged(("train", "a")),
        store.require_unchanged,
    ):
        with pytest.raises(DataError, match=r"a\.bin not to change while it is read, found other"):
            call()


@pytest.fixture(scope="module")
def more(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a new domain, and one that is named like one of the first."""
    folder = tmp_path_factory.mktemp("more")
    text = write_domains(folder / "text", {"0": ALPHABETS["upper"], "b": ALPHABETS["digits"]}, 20)
    given = ["--tokenizer", str(store / "tokenizer"), "--processes", "0"]
    main(["prepare", "--data", str(text), "--out", str(folder / "store"), *given])
    return folder / "store"


def test_a_domain_of_the_same_name_is_replaced(store: Path, more: Path) -> None:
    first, second = open_store(store), open_store(more)
    both = joined_stores(first, second)
    assert both.names == ("0", "a", "b", "c")
    for name, origin in (("0", second), ("a", first), ("b", second), ("c", first)):
        np.testing.assert_array_equal(both.train[name], origin.train[name])
        np.testing.assert_array_equal(both.validation[name], origin.validation[name])
        np.testing.assert_array_equal(both.train_documents[name], origin.train_documents[name])
        assert both.index["domains"][name] == origin.index["domains"][name]
    assert both.sha256 not in (first.sha256, second.sha256)
    assert joined_stores(first, second).sha256 == both.sha256


def test_a_file_that_changes_is_noticed_in_either(store: Path, more: Path) -> None:
    both = joined_stores(open_store(store), open_store(more))
    place = more / "train" / "b.bin"
    before = place.read_bytes()
    try:
        place.write_bytes(before[::-1])
        with pytest.raises(DataError, match=r"b\.bin"):
            both.taken("train", "b", lambda: both.train["b"][:4])
        both.taken("train", "a", lambda: both.train["a"][:4])
    finally:
        place.write_bytes(before)


def test_tokens_of_another_tokenizer_are_refused(store: Path, tmp_path: Path) -> None:
    text = write_domains(tmp_path / "text", {"d": "qrst", "e": "wxyz"}, 20)
    out = str(tmp_path / "store")
    main(["prepare", "--data", str(text), "--out", out, "--vocabulary", "270", "--processes", "0"])
    with pytest.raises(DataError, match=r"Expected tokens of the tokenizer in .* --tokenizer"):
        joined_stores(open_store(store), open_store(Path(out)))
