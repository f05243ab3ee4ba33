"""A build that is stopped at any moment goes on from its last record."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import folder_content, row, small_plan, write_corpus, write_lines

from bydore_pyro.data.build import Build, Counts
from bydore_pyro.data.prepare import prepare
from bydore_pyro.errors import DataError


@pytest.mark.parametrize("seed", range(6))
def test_a_build_that_broke_off_goes_on(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken off at random writes, again and again, the same store comes out."""
    text = write_corpus(tmp_path / "text")
    prepare(small_plan(text), tmp_path / "whole")
    rng = random.Random(seed)
    monkeypatch.setattr("bydore_pyro.data.build.BATCH", 3_000)
    monkeypatch.setattr("bydore_pyro.data.build.SECONDS_BETWEEN_RECORDS", rng.choice([0.0, 0.01]))
    sound, starts = Build._write, []

    def write(self: Build, *batch: object) -> None:
        if rng.random() < 0.03:
            raise KeyboardInterrupt
        sound(self, *batch)
        if rng.random() < 0.03:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(Build, "_write", write)
    for _ in range(100):
        try:
            prepare(small_plan(text), tmp_path / "out", progress=starts.append)
            break
        except (KeyboardInterrupt, OSError):
            assert not (tmp_path / "out").exists()
    assert folder_content(tmp_path / "out") == folder_content(tmp_path / "whole")
    assert any("going on" in line for line in starts)


@pytest.mark.slow
def test_killed_and_continued(tmp_path: Path) -> None:
    """`kill -9` at three moments of a build with two processes."""
    text = write_corpus(tmp_path / "text")
    prepare(small_plan(text), tmp_path / "whole")
    program = """
import os, signal, sys
from pathlib import Path
from bydore_pyro.data import build
from bydore_pyro.data.documents import CorpusConfig
from bydore_pyro.data.plan import make_plan
from bydore_pyro.data.prepare import prepare
from bydore_pyro.data.tokenizer import TokenizerConfig

if __name__ == "__main__":
    build.BATCH, build.SECONDS_BETWEEN_RECORDS = 5_000, 0.0
    sound, left = build.Build._write, [int(sys.argv[3])]

    def write(self, *batch):
        sound(self, *batch)
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    build.Build._write = write
    config = CorpusConfig(validation_fraction=0.2, domain_megabytes=0)
    plan = make_plan(sys.argv[1], config, None, TokenizerConfig(vocabulary=280))
    prepare(plan, Path(sys.argv[2]), processes=2)
"""
    (tmp_path / "program.py").write_text(program)
    codes = []
    for left in (2, 9, 17, 10**6):
        run = [sys.executable, tmp_path / "program.py", text, tmp_path / "out", str(left)]
        codes.append(subprocess.run(run, stderr=subprocess.DEVNULL).returncode)
    assert codes == [-signal.SIGKILL] * 3 + [0]
    assert folder_content(tmp_path / "out") == folder_content(tmp_path / "whole")


def test_a_rows_domain_must_be_a_name(tmp_path: Path) -> None:
    rows = [row("x", i, kind="a/b" if i == 30 else "ab"[i % 2]) for i in range(60)]
    path = write_lines(tmp_path / "all.jsonl", rows)
    with pytest.raises(DataError, match=r"found 'a/b', .*all.jsonl, row 31"):
        prepare(small_plan(path, domain_column="kind"), tmp_path / "out")
    store = prepare(small_plan(path, domain_column="kind", on_error="skip"), tmp_path / "out")
    assert store.names == ("a", "b")
    assert store.manifest()["files"][0]["skipped"] == 1


def test_counts() -> None:
    counts = Counts()
    counts.of("validation")["tokens"] += 3
    assert counts.as_dict()["validation"]["tokens"] == 3
    assert counts.of("train") == Counts().of("train")
    assert set(counts.of("train")) == {"tokens", "documents", "independent_documents", "bytes"}
    assert not any(counts.of("train").values())
