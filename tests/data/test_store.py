"""Token stores on disk: what they hold, and every way in which one can be damaged."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import ends_in, unparted

from bydore_pyro.data.index import FORMAT, INDEX, sha256_of
from bydore_pyro.data.remote import size_and_time
from bydore_pyro.data.store import (
    END,
    Text,
    TokenFile,
    TokenStore,
    check_needed,
    file_sha256,
    is_store,
    nothing_counted,
    open_store,
    selected,
    stored_as,
)
from bydore_pyro.data.tokenizer import tokenizer_sha256
from bydore_pyro.data.tokens import Tokens
from bydore_pyro.errors import DataError


@pytest.fixture
def folder(store: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(store, tmp_path / "store"))


def test_a_store_tells_what_it_holds(folder: Path) -> None:
    assert is_store(folder)
    assert not is_store(folder.parent)
    store: TokenStore = open_store(folder, verify=True)
    assert store.names == ("a", "b", "c")
    entry = store.index["domains"]["a"]["train"]
    assert entry["tokens"] == len(store.train["a"])
    assert entry["sha256"] == file_sha256(folder / "train" / "a.bin")
    assert entry["ends_sha256"] == file_sha256(folder / "train" / "a.ends")
    tokens: Tokens = store.train["a"]
    assert tokens.dtype == np.uint16
    for side in ("train", "validation"):
        for name in store.names:
            ends = getattr(store, side)[name].ends
            assert ends.dtype == END == np.int64
            assert not ends.flags.writeable
            every = getattr(unparted(store), side)[name].ends
            assert every.tolist() == ends_in(store, side, name), "none is cut"
            assert len(every) == store.index["domains"][name][side]["independent_documents"]
    assert set(entry) == {*nothing_counted()["train"], "sha256", "ends_sha256"}
    assert store.sha256 == sha256_of(store.index["domains"], store.tokenizer_sha256, 280, "<u2")
    assert store.tokenizer_sha256 == tokenizer_sha256(store.tokenizer)
    check_needed(["a"], store.names)
    with pytest.raises(DataError, match=r"Expected a domain of the data \(a, b, c\), found 'd'"):
        check_needed(["a", "d"], store.names)


def test_names_are_paths() -> None:
    names = ["web", "web/law", "web/law/high", "webs/a", "a=b".replace("=", "/")]
    assert len({stored_as(name) for name in names}) == len(names)
    assert all("/" not in stored_as(name) for name in names)
    assert selected(["webs", "web"], names) == ["webs/a", "web"]
    assert selected(["web/*", "web/law"], names) == ["web/law", "web/law/high"]
    assert selected([], names) == []
    with pytest.raises(DataError, match="found 'we'"):
        selected(["we"], names)


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
        (lambda f: flip(f / "train" / "a.bin"), "other content in .*train/a.bin"),
        (lambda f: cut(f / "train" / "a.bin"), "bytes, found 8: .*a.bin"),
        (lambda f: (f / "validation" / "b.bin").unlink(), "an array, found .*b.bin: No such file"),
        (
            lambda f: edit(f, format="bydore_pyro.tokens/1"),
            "found 'bydore_pyro.tokens/1' in .*index.json: prepare it again",
        ),
        (lambda f: flip(f / "tokenizer" / "tokenizer.json"), "the tokenizer that .*store was"),
        (
            lambda f: (f / INDEX).unlink(),
            "the index of a token store in .*, found a folder without",
        ),
        (lambda f: (f / INDEX).write_text("{"), "the index of a token store, found"),
        (lambda f: (f / INDEX).write_text(f'{{"format": "{FORMAT}"}}'), "KeyError: 'tokenizer_"),
        (lambda f: edit(f, vocabulary=5), "to match the hash in it"),
    ],
)
def test_damage_is_named(folder: Path, damage: Callable[[Path], object], message: str) -> None:
    damage(folder)
    with pytest.raises(DataError, match=message) as error:
        open_store(folder)
    assert "\n" not in str(error.value)


def test_hashes_of_a_large_store_are_checked_on_demand(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bydore_pyro.data.store.ALWAYS_VERIFIED", 10)
    for name in ("a.bin", "a.ends"):
        flip(folder / "train" / name)
        open_store(folder)
        with pytest.raises(DataError, match=f"other content in .*{name}"):
            open_store(folder, verify=True)
        flip(folder / "train" / name)
    ends = np.fromfile(folder / "train" / "a.ends", "<i8")
    ends[-1] -= 1
    ends.tofile(folder / "train" / "a.ends")
    with pytest.raises(DataError, match=r"last end of a document at .*, found .*a\.ends"):
        open_store(folder)


class Unreadable:
    """Tokens of a mapped file that was cut: who reads them ends the process."""

    dtype = np.dtype("<u2")

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, key: Any) -> Any:
        return self if isinstance(key, slice) else pytest.fail("it was read")

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return pytest.fail("it was read")


def test_tokens_are_read_from_what_was_opened_alone(folder: Path) -> None:
    store = open_store(folder)
    text = store.train["a"]
    np.testing.assert_array_equal(store.read("train", "a", np.arange(5)), text[:5])
    assert len(store.read("train", "a", slice(0))) == 0
    other = replace(store, train={"a": Text(np.array([3, 280], np.uint16), np.array([2]))})
    with pytest.raises(DataError, match=r"Expected tokens below 280, .*found 280 in the train"):
        other.read("train", "a", slice(None))
    with (folder / "train" / "a.bin").open("r+b") as file:
        file.truncate(2)
    store.train["b"].require_unchanged()
    unread = Text.in_files(Unreadable(len(text)), text.ends, text.files)
    cut = replace(store, train={**store.train, "a": unread})
    reads = [partial(cut.read, "train", "a", key) for key in (slice(5), np.arange(5))]
    for call in (*reads, text.require_unchanged, store.require_unchanged):
        with pytest.raises(DataError, match=r"a\.bin not to change while it is read, found other"):
            call()


def test_a_reading_checks_the_files_that_it_reads_from(tmp_path: Path) -> None:
    """Their sizes; of a domain of many shards those alone. All are checked when that is asked."""
    parts, looked_at = [], Counter[str]()

    class LookedAt(TokenFile):
        def __init__(self, path: Path) -> None:
            super().__init__(path, file_sha256(path))

        def require_size(self) -> None:
            looked_at[self.path.name] += 1
            super().require_size()

    for number in range(40):
        path = tmp_path / f"{number}"
        np.full(100, number, "<u2").tofile(path)
        tokens = np.fromfile(path, "<u2")
        parts.append(Text.in_files(tokens, np.array([50, 100]), [LookedAt(path)]))

    text = Text.joined(parts)
    store = TokenStore(tmp_path, {"a": text}, {}, {"vocabulary": 40})
    positions = np.arange(100, 350).reshape(2, 125)
    found = store.read("train", "a", positions)
    np.testing.assert_array_equal(found, positions // 100)
    assert looked_at == {"1": 1, "2": 1, "3": 1}
    np.testing.assert_array_equal(store.read("train", "a", slice(3990, 4000)), 39)
    assert looked_at.pop("39") == 1
    half = text.only(np.arange(80) % 2 == 1)
    store = TokenStore(tmp_path, {"a": half}, {}, {"vocabulary": 40})
    assert store.read("train", "a", np.array([251])).tolist() == [5]
    assert looked_at.pop("5") == 1
    (tmp_path / "7").write_bytes(b"x" * 100)
    np.testing.assert_array_equal(Text.joined(parts)[np.array([650])], 6)
    for read in (lambda: Text.joined(parts)[np.array([750])], half.require_unchanged):
        with pytest.raises(DataError, match="7 not to change while it is read, found other"):
            read()


def test_natural_weights_are_shares_of_all_text(folder: Path) -> None:
    """Of a sampled domain, of the text that the sample was drawn from."""
    store = open_store(folder)
    sizes = {name: len(text) for name, text in store.train.items()}
    total = sum(sizes.values())
    assert store.natural() == {name: size / total for name, size in sizes.items()}
    of_a = {**store.index["domains"]["a"], "train": {"in_all": {"tokens": 9 * sizes["b"]}}}
    index = {**store.index, "domains": {**store.index["domains"], "a": of_a}}
    sampled = replace(store, index=index)
    assert sampled.natural(["b", "a"]) == {"b": 0.1, "a": 0.9}
    assert [*sampled.natural(["a", "b"]).values()] == [0.9, 0.1]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "a").write_bytes(b"12345678")
    return tmp_path / "a"


def test_a_file_is_the_same_by_its_content(path: Path) -> None:
    opened = TokenFile(path, file_sha256(path))
    opened.require_unchanged()
    os.utime(path, (1, 1))
    opened.require_unchanged()
    path.with_name("copy").write_bytes(b"12345678")
    path.with_name("copy").replace(path)
    opened.require_unchanged()


def test_a_time_that_is_set_back_hides_no_new_content(path: Path) -> None:
    """A file of another content, as large and with the old time of modification."""
    before, status = size_and_time(path), path.stat()
    opened = TokenFile(path, file_sha256(path))
    while size_and_time(path) == before:
        path.write_bytes(b"12345679")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_mtime_ns == status.st_mtime_ns
    opened.require_size()
    with pytest.raises(DataError, match="found other content"):
        opened.require_unchanged()
