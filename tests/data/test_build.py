"""A build that is stopped at any moment goes on from its last record."""

from __future__ import annotations

import os
import random
import signal
from functools import partial
from pathlib import Path

import pytest
from processes import forked
from tiny import (
    documents_in,
    ends_in,
    folder_content,
    lines_told,
    small_plan,
    unparted,
    write_corpus,
    write_lines,
)

from bydore_pyro.data.build import RECORD, Build
from bydore_pyro.data.documents import CorpusConfig
from bydore_pyro.data.preparation import prepare
from bydore_pyro.data.store import TokenStore

LONG = CorpusConfig(validation_fraction=0.4, longest_document=2000, domain_megabytes=0)


def long_row(word: str, number: int, parts: int) -> str:
    """A text that is cut into so many documents; each tells whose it is."""
    line = " ".join([f"{word} {number}"] * 300)
    return "\n".join(f"{line} part {part}"[-1900:] for part in range(parts))


def write_long(folder: Path, count: int = 100) -> Path:
    """Rows that are cut, files that are cut whole, and a domain of few files in pieces."""
    rows = [{"text": long_row("row", i, 1 + i % 5)} for i in range(count)]
    write_lines(folder / "rows.jsonl", rows)
    (folder / "files").mkdir()
    for i in range(count):
        (folder / "files" / f"{i}.txt").write_text(long_row("file", i, 1 + i % 4))
    (folder / "pieces").mkdir()
    for i in range(3):
        (folder / "pieces" / f"{i}.txt").write_text(long_row("book", i, 40))
    return folder


def records(patch: pytest.MonkeyPatch, batch: int, seconds: float = 0.0) -> None:
    """Batches of so many characters, and records so many seconds apart."""
    patch.setattr("bydore_pyro.data.build.BATCH", batch)
    patch.setattr("bydore_pyro.data.build.SECONDS_BETWEEN_RECORDS", seconds)
    patch.setattr(os, "fsync", lambda _: None)  # of use where the power fails alone


def check_ends(store: TokenStore) -> None:
    """The ends of the cut rows and files, by the texts themselves."""
    found, store = documents_in(store), unparted(store)
    for side, texts in (("train", store.train), ("validation", store.validation)):
        for name in ("rows", "files"):
            whose = [" ".join(text.split()[-4:-2]) for text in found[side][name]]
            every = ends_in(store, side, name)
            last = [i for i, who in enumerate(whose) if whose[i + 1 : i + 2] != [who]]
            assert texts[name].ends.tolist() == [every[i] for i in last]
            assert len({*whose}) == len(last) > 10, "each once"
            assert len(every) > 2 * len(last), "cut"
        every = ends_in(store, side, "pieces")
        assert texts["pieces"].ends.tolist() == every[1::2], "two lines a piece, two texts each"
        assert len(every) == len(found[side]["pieces"])
    assert len(store.train["pieces"].ends) + len(store.validation["pieces"].ends) == 60


def test_ends_of_documents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against brute force, however small the batches: the parts of a row lie in several."""
    monkeypatch.setattr("bydore_pyro.data.documents.SMALL_PIECE", 4000)
    text = write_long(tmp_path / "text")
    check_ends(prepare(small_plan(text, LONG), tmp_path / "whole"))
    records(monkeypatch, batch=1)
    prepare(small_plan(text, LONG), tmp_path / "small")
    assert folder_content(tmp_path / "small") == folder_content(tmp_path / "whole")


@pytest.mark.parametrize("seed", range(2))
def test_a_build_that_broke_off_goes_on(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken off at random writes, again and again, the same store comes out."""
    text = write_long(write_corpus(tmp_path / "text"), count=9)
    prepare(small_plan(text, LONG), tmp_path / "whole")
    rng = random.Random(seed)
    records(monkeypatch, 3_000, rng.choice([0.0, 0.01]))
    sound = Build._write

    def write(self: Build, *batch: object) -> None:
        if rng.random() < 0.03:
            raise KeyboardInterrupt
        sound(self, *batch)  # type: ignore[arg-type]
        if rng.random() < 0.03:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(Build, "_write", write)
    with lines_told() as starts:
        for _ in range(200):
            try:
                prepare(small_plan(text, LONG), tmp_path / "out")
                break
            except (KeyboardInterrupt, OSError):
                assert not (tmp_path / "out").exists()
    assert folder_content(tmp_path / "out") == folder_content(tmp_path / "whole")
    assert any("going on" in line for line in starts)
    assert RECORD not in folder_content(tmp_path / "out")


def test_killed_and_continued(tmp_path: Path) -> None:
    """`kill -9` at three moments of a build with two processes."""
    text = write_long(write_corpus(tmp_path / "text"), count=9)
    prepare(small_plan(text, LONG), tmp_path / "whole")

    def build_until(batches: int) -> None:
        sound = Build._write

        def write(build: Build, *batch: object) -> None:
            nonlocal batches
            sound(build, *batch)  # type: ignore[arg-type]
            batches -= 1
            if batches == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        records(pytest.MonkeyPatch(), 5_000)
        Build._write = write  # type: ignore[method-assign]
        prepare(small_plan(text, LONG), tmp_path / "out", processes=2)

    codes = []
    for batches in (2, 9, 17, 10**6):
        process = forked(partial(build_until, batches), tmp_path / "told")
        process.join(100)
        codes.append(process.exitcode)
    assert codes == [-9, -9, -9, 0], (tmp_path / "told").read_text()
    assert folder_content(tmp_path / "out") == folder_content(tmp_path / "whole")
